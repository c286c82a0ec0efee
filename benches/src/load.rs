//! The ways in which peers are called.

mod closed;
mod open;
mod waiting;

use std::future::Future;

pub use self::{
    closed::closed,
    open::open,
    waiting::{Grant, Waits},
};

/// A peer that decides in this process.
pub trait Decide: Send + Sync + 'static {
    /// Returns the number of its limiters.
    fn keys(&self) -> usize;

    /// Takes one permit of this limiter; an error is anything but a decision of the limiter.
    fn decide(&self, key: usize) -> impl Future<Output = Result<bool, ()>> + Send;
}

/// A fast pseudorandom number generator.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: usize) -> Self {
        Self((seed as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Returns a number below this one.
    pub fn below(&mut self, below: usize) -> usize {
        // xorshift64*, of a state that is never 0.
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % below
    }
}
