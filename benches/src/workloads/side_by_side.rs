//! One caller by turns of a tenth of a second, ours and a bare script call, because what a machine
//! does besides changes more than the two differ.

use std::time::Duration;

use super::Bench;
use crate::{results::Results, sample::Sample};

const TURN: Duration = Duration::from_millis(100);

impl Bench {
    pub(super) async fn side_by_side(&mut self) -> Results {
        let (mut results, limit) = (self.results(), self.limit("one_caller"));
        let turns = 20 * self.plan.rounds;
        let mut peers = self.peers(&["ours", "bare"], limit).await;
        let mut totals = [Sample::default(), Sample::default()];
        for turn in 0..turns {
            // A B B A, so that neither is always the one that follows the other.
            for place in [0, 1] {
                let at = (place + turn) % 2;
                totals[at] += &peers[at].closed(1, TURN).await;
            }
        }
        for (peer, total) in peers.iter().zip(&totals) {
            let figures = [("p50_us", total.quantile_us(0.5)), ("p99_us", total.quantile_us(0.99))];
            results.add("1", peer.name(), &figures);
        }
        results
    }
}
