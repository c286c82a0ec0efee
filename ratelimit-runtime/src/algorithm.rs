//! The algorithms: pure functions of a state and the time, without I/O and without a clock.
//!
//! Each algorithm is implemented twice, here and as a Lua script for Redis. Neither is generated
//! from the other; a property test compares both on random traces.
#![cfg_attr(
    not(feature = "test-util"),
    allow(unreachable_pub, reason = "only tests reach the stores' words from outside")
)]

mod charge;
mod config;
mod fixed_window;
mod give_back;
mod grant;
mod meter;
mod moves;
mod open;
mod penalty;
pub(crate) mod reconcile;
mod reserve;
mod sliding_window;
mod spend;
mod state;
mod ticket;
mod token_bucket;
mod warm_up;

pub use self::{
    charge::{Charge, Charged},
    config::Config,
    grant::Grant,
    penalty::Refused,
    ticket::Ticket,
};
pub(crate) use self::{
    meter::Left, open::decide_jointly, penalty::Refusals, reserve::Booking, spend::Spent,
    state::State,
};

#[cfg(test)]
pub(crate) use self::state::tests::noise;

/// The verdict of an algorithm on one request; times in milliseconds from `now`, as of the end of its batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) granted: bool,
    pub(crate) remaining: u64,
    /// The time until the same request could be granted again; 0 if it could be now, or never.
    pub(crate) retry_after: u64,
    pub(crate) reset_after: u64,
    /// The time until more permits are free than at the end of the batch; 0 if all are free.
    pub(crate) more_after: u64,
    /// How far in the future a grant was dated, after the clock stepped back.
    pub(crate) ahead: u64,
    /// By how many ticks the grants of a bucket have [moved](moves) so far.
    pub(crate) moved: u64,
}
