//! Takes permits from limiters: plans, decides, waits, and decides what an outage means.

mod admin;
mod batch;
mod core;
mod decide;
mod denials;
mod handle;
mod looks;
mod numbers;
mod per_process;
mod permit;
mod plan;
mod rate_change;
mod replies;
mod share;
mod taken;
mod tally;
mod wait;

pub(crate) use self::{
    batch::Lanes, core::Core, decide::Granted, plan::Claim, taken::Taken, tally::Tally,
    wait::acquire,
};
pub use self::{
    handle::Limiter,
    permit::Permit,
    rate_change::{LimiterConfig, RateChange},
};
