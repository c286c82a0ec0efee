//! Open loops: callers arrive at a fixed rate, even if earlier ones still wait.

use super::{Bench, decisions::latencies};
use crate::{results::Results, sample::Sample};

const PER_SECOND: [u32; 4] = [1_000, 5_000, 20_000, 50_000];

impl Bench {
    pub(super) async fn arrivals(&mut self) -> Results {
        let (mut results, limit, plan) = (self.results(), self.limit("open_loop"), self.plan);
        for (turn, rate) in PER_SECOND.into_iter().enumerate() {
            let mut peers = self.peers(&["ours", "bare", "redisson"], limit).await;
            let mut samples = vec![Sample::default(); peers.len()];
            for place in 0..peers.len() {
                // Each rate starts with a different peer.
                let at = (turn + place) % peers.len();
                samples[at] = peers[at].open(rate, plan.round * 2).await;
            }
            for (peer, sample) in peers.iter().zip(&samples) {
                results.add(rate, peer.name(), &latencies(sample));
            }
        }
        results
    }
}
