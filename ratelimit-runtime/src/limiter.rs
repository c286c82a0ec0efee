//! Takes permits from limiters: plans, decides, waits, and handles outages.

mod admin;
mod batch;
mod core;
mod crowd;
mod decide;
mod denials;
mod handle;
mod lanes;
mod local;
mod looks;
mod numbers;
mod outage;
#[cfg(feature = "client")]
mod outside;
mod penalty;
mod per_process;
mod permit;
mod plan;
mod queue;
mod rare;
mod rate_change;
mod replies;
mod rules;
mod services;
mod share;
mod taken;
mod wait;

pub(crate) use self::{
    core::Core,
    crowd::Crowd,
    decide::{decide_by_name, spend},
    local::Local,
    permit::Fate,
    plan::Claim,
    rules::Rules,
    services::{Reading, Services},
    taken::Taken,
    wait::acquire,
};
pub use self::{
    handle::Limiter,
    permit::Permit,
    rate_change::{LimiterConfig, RateChange},
};
