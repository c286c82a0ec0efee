//! Closed loops: the peers decide as fast as they can, one after another.

use super::{Bench, medians};
use crate::{
    cost::{Cost, Meter},
    peers::{Limit, Peer},
    results::Results,
    sample::Sample,
};

const CALLERS: [usize; 4] = [1, 16, 256, 2048];

impl Bench {
    pub(super) async fn decisions(&mut self, name: &'static str) -> Results {
        let names: &[&str] = match name {
            // Only these count within the process.
            "per_client" => &["ours", "redisson", "governor"],
            "hot" => &["ours", "bare", "naive", "redisson", "redisson_threads", "governor"],
            "keys" => &["ours", "ours_buckets", "bare", "naive", "redisson", "governor"],
            _ => &["ours", "bare", "naive", "redisson", "governor"],
        };
        let (mut results, limit, plan) = (self.results(), self.limit(name), self.plan);
        let mut meter = Meter::of(&self.server);
        let mut peers = self.peers(names, limit).await;
        for peer in &mut peers {
            peer.closed(16, plan.round / 4).await;
        }
        for callers in CALLERS {
            let mut rounds = vec![Vec::new(); peers.len()];
            for turn in 0..plan.rounds * peers.len() {
                let (round, place) = (turn / peers.len(), turn % peers.len());
                // Each round starts with a different peer.
                let at = (round + place) % peers.len();
                let peer = &mut peers[at];
                meter.start();
                let sample = peer.closed(callers, plan.round).await;
                let cost = meter.stop();
                rounds[at].push(figures(peer, &limit, &sample, cost, &mut meter));
            }
            for (peer, rounds) in peers.iter().zip(&rounds) {
                results.add(callers, peer.name(), &medians(rounds));
            }
        }
        results
    }
}

fn figures(
    peer: &Peer<'_>,
    limit: &Limit,
    sample: &Sample,
    cost: Cost,
    meter: &mut Meter,
) -> Vec<(&'static str, f64)> {
    let mut figures = latencies(sample);
    if !matches!(peer, Peer::Governed(_)) {
        let decisions = sample.decisions().max(1) as f64;
        figures.extend([
            ("script_us", cost.script_us / decisions),
            ("cpu_us", cost.cpu_us / decisions),
            ("scripts", cost.scripts / decisions),
            ("commands", cost.commands / decisions),
        ]);
        if limit.keys == 1 && !limit.per_client {
            figures.push(("log_bytes", meter.bytes(&peer.log_key(limit))));
        }
    }
    figures
}

/// The latencies of callers.
pub(super) fn latencies(sample: &Sample) -> Vec<(&'static str, f64)> {
    vec![
        ("per_s", sample.per_second()),
        ("p50_us", sample.quantile_us(0.5)),
        ("p99_us", sample.quantile_us(0.99)),
        ("p999_us", sample.quantile_us(0.999)),
        ("refused", sample.refused as f64),
        ("errors", sample.errors as f64),
    ]
}
