//! Asks the store, counts the answer, and decides what an outage means.

mod ask;
mod batch;
mod core;
mod debt;
mod denied;
mod each;
mod handle;
mod here;
mod manage;
mod numbers;
mod patience;
mod policy;
mod reserve;
mod settle;
mod several;
mod shadow;
mod shards;
mod tally;
mod together;

pub use self::handle::Limiter;
pub(crate) use self::{
    batch::Lanes,
    core::Core,
    numbers::Numbers,
    patience::Patience,
    settle::{Pending, Taken},
    tally::Tally,
    together::{Claim, acquire_together, share_a_slot},
};
