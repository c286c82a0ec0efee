//! Asks the store, counts the answer, and decides what an outage means.

mod core;
mod handle;
mod manage;
mod patience;

pub use self::handle::Limiter;
pub(crate) use self::{
    core::{Core, Tally},
    patience::Patience,
};
