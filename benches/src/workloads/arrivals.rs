//! Open loops: callers arrive at a fixed rate, whoever is still waiting.

use super::{Bench, decisions::latencies};
use crate::results::Results;

const PER_SECOND: [u32; 4] = [1_000, 5_000, 20_000, 50_000];

impl Bench {
    pub(super) async fn arrivals(&mut self) -> Results {
        let (mut results, limit, plan) = (self.results(), self.limit("open_loop"), self.plan);
        for (turn, rate) in PER_SECOND.into_iter().enumerate() {
            let mut peers = self.peers(&["ours", "bare", "redisson"], limit).await;
            let begins = turn % peers.len();
            peers.rotate_left(begins);
            for peer in &mut peers {
                let sample = peer.open(rate, plan.round * 2).await;
                results.add(rate, peer.name(), &latencies(&sample));
            }
        }
        results
    }
}
