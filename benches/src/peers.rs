//! The rate limiters that are compared.

mod bare;
mod governed;
mod naive;
mod ours;
mod redisson;

use std::{sync::Arc, time::Duration};

pub use self::{
    bare::Bare,
    governed::Governed,
    naive::Naive,
    ours::{Ours, install},
    redisson::{Calls, Redisson},
};
use crate::{load, sample::Sample};

/// The limit that every peer enforces.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    pub name: &'static str,
    /// How many limiters there are, of which each decision uses one at random.
    pub keys: usize,
    pub rate: u32,
    pub per: Duration,
    /// Whether each process has the whole rate.
    pub per_client: bool,
}

impl Limit {
    /// The names of the limiters, by whom they belong to.
    fn names(&self, owner: &str) -> Vec<String> {
        (0..self.keys).map(|key| format!("{owner}:{}:{key}", self.name)).collect()
    }
}

/// A peer that is ready to enforce a limit.
pub enum Peer<'a> {
    Ours(Arc<Ours>),
    Bare(Arc<Bare>),
    Naive(Arc<Naive>),
    Governed(Arc<Governed>),
    Redisson(&'a Redisson, Calls),
}

impl Peer<'_> {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ours(ours) => ours.name(),
            Self::Bare(_) => "bare",
            Self::Naive(_) => "naive",
            Self::Governed(_) => "governor",
            Self::Redisson(_, Calls::Async) => "redisson",
            Self::Redisson(_, Calls::Threads) => "redisson_threads",
        }
    }

    /// Runs this many callers, which call again after each reply.
    pub async fn closed(&mut self, callers: usize, time: Duration) -> Sample {
        match self {
            Self::Ours(peer) => load::closed(peer, callers, time).await,
            Self::Bare(peer) => load::closed(peer, callers, time).await,
            Self::Naive(peer) => load::closed(peer, callers, time).await,
            Self::Governed(peer) => load::closed(peer, callers, time).await,
            Self::Redisson(peer, calls) => peer.closed(*calls, callers, time),
        }
    }

    /// Lets `rate` callers arrive each second.
    pub async fn open(&mut self, rate: u32, time: Duration) -> Sample {
        match self {
            Self::Ours(peer) => load::open(peer, rate, time).await,
            Self::Bare(peer) => load::open(peer, rate, time).await,
            Self::Naive(peer) => load::open(peer, rate, time).await,
            Self::Governed(peer) => load::open(peer, rate, time).await,
            Self::Redisson(peer, _) => peer.open(rate, time),
        }
    }

    /// Returns the Redis key of a limiter's log, for peers that keep one in Redis.
    pub fn log_key(&self, limit: &Limit) -> String {
        let owner = self.name().split('_').next().unwrap_or_default();
        format!("{{{owner}:{}:0}}:permits", limit.name)
    }
}
