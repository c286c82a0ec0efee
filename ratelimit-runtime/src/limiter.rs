//! Asks the store, counts the answer, and decides what an outage means.

mod ask;
mod core;
mod debt;
mod denied;
mod each;
mod handle;
mod here;
mod manage;
mod numbers;
mod patience;
mod permit;
mod policy;
mod rate_change;
mod reserve;
mod settle;
mod several;
mod shadow;
mod shards;
mod share;
mod tally;
mod together;

pub(crate) use self::{
    core::Core,
    numbers::Numbers,
    patience::Patience,
    settle::{Pending, Taken},
    tally::Tally,
    together::{Claim, acquire_together, share_a_slot},
};
pub use self::{
    handle::Limiter,
    permit::Permit,
    rate_change::{LimiterConfig, RateChange},
};
