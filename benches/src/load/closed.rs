//! Closed loop: each of `n` callers calls again as soon as it gets a reply.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{Decide, Random};
use crate::sample::{Recorder, Sample};

/// A decision made in the process never yields, so callers yield themselves.
const YIELD_EVERY: u32 = 64;
/// Reading the clock costs more than a decision that is quicker than this, so only one in [`QUICK_ONES`] is
/// timed, and counts for all of them.
const QUICK: Duration = Duration::from_micros(5);
const QUICK_ONES: u64 = 32;

/// Runs `callers` tasks that make decisions for this long.
///
/// # Panics
///
/// Panics if a task panicked.
pub async fn closed<D: Decide>(peer: &Arc<D>, callers: usize, time: Duration) -> Sample {
    let recorder = Arc::new(Recorder::start());
    let tasks: Vec<_> = (0..callers)
        .map(|caller| {
            let (peer, recorder) = (Arc::clone(peer), Arc::clone(&recorder));
            tokio::spawn(call(peer, recorder, caller, Instant::now() + time))
        })
        .collect();
    for task in tasks {
        task.await.expect("a caller does not panic");
    }
    recorder.total()
}

async fn call<D: Decide>(peer: Arc<D>, recorder: Arc<Recorder>, caller: usize, end: Instant) {
    let mut random = Random::new(caller);
    let mut now = Instant::now();
    for turn in 1_u32.. {
        if now >= end {
            return;
        }
        let decision = peer.decide(random.below(peer.keys())).await;
        let (since, until) = (now, Instant::now());
        now = until;
        let mut times = 1;
        if until.duration_since(since) < QUICK {
            for _ in 1..QUICK_ONES {
                let other = peer.decide(random.below(peer.keys())).await;
                if other == decision {
                    times += 1;
                } else {
                    recorder.record(caller, other, 1, since, until);
                }
            }
            now = Instant::now();
        }
        recorder.record(caller, decision, times, since, until);
        if turn.is_multiple_of(YIELD_EVERY) {
            tokio::task::yield_now().await;
            now = Instant::now();
        }
    }
}
