//! Which peers each workload calls, and how often.

mod arrivals;
mod decisions;
mod side_by_side;
mod waiters;

use std::{path::PathBuf, sync::Arc, time::Duration};

use ratelimit_runtime::Limits;
use tests::redis_server::RedisServer;

use crate::{
    cost::Meter,
    peers::{self, Bare, Calls, Governed, Limit, Naive, Ours, Peer, Redisson},
    results::Results,
};

/// Every workload, in the order in which they run.
pub const NAMES: &[&str] =
    &["hot", "refused", "per_client", "one_caller", "open_loop", "keys", "waiters"];

/// More than any peer decides in a second.
const UNREACHED: u32 = 2_000_000_000;
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// The extent of a run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub rounds: usize,
    pub round: Duration,
    pub keys: usize,
    pub warm_up: Duration,
    pub waiting: Duration,
}

impl Plan {
    pub const FULL: Self = Self {
        rounds: 3,
        round: Duration::from_secs(1),
        keys: 100_000,
        warm_up: Duration::from_secs(6),
        waiting: Duration::from_secs(20),
    };
    /// For trial runs.
    pub const QUICK: Self = Self {
        rounds: 1,
        round: Duration::from_millis(500),
        keys: 10_000,
        warm_up: Duration::from_secs(2),
        waiting: Duration::from_secs(4),
    };
}

/// One server, and all peers that use it.
pub struct Bench {
    plan: Plan,
    server: RedisServer,
    meter: Meter,
    limits: Limits,
    redisson: Option<Redisson>,
    folder: PathBuf,
    command: String,
    facts: Vec<(String, String)>,
}

impl Bench {
    /// Starts the server, and Redisson where there is a driver for it: a version and its folder.
    ///
    /// # Panics
    ///
    /// Panics if one of them does not start.
    pub async fn start(
        plan: Plan,
        redisson: Option<(String, PathBuf)>,
        folder: PathBuf,
        command: String,
    ) -> Self {
        let server = RedisServer::start();
        let limits = peers::install(&server.url()).await.expect("limits that can be");
        let busy = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let busy = busy.split(' ').next().unwrap_or_default().to_owned();
        let version = tests::server_version();
        let version = format!("{}.{}.{}", version.0, version.1, version.2);
        let mut facts = vec![("busy".to_owned(), busy), ("redis-server".to_owned(), version)];
        let redisson = redisson.map(|(version, folder)| {
            let redisson = Redisson::start(&folder, &server.address());
            facts.push(("redisson".to_owned(), version));
            facts.push(("jvm".to_owned(), redisson.machine.clone()));
            redisson
        });
        let meter = Meter::of(&server);
        let mut bench = Self { plan, server, meter, limits, redisson, folder, command, facts };
        bench.warm_up().await;
        bench
    }

    /// Runs one of [`NAMES`] and writes its results.
    ///
    /// # Panics
    ///
    /// Panics if the results cannot be written.
    pub async fn run(&mut self, name: &'static str) {
        eprintln!("{name}");
        let results = match name {
            "hot" | "refused" | "per_client" | "keys" => self.decisions(name).await,
            "one_caller" => self.side_by_side().await,
            "open_loop" => self.arrivals().await,
            _ => self.waiters().await,
        };
        results.write(&self.folder, name).expect("results can be written");
        self.meter.flush();
    }

    fn limit(&self, name: &'static str) -> Limit {
        let once = Limit { name, keys: 1, rate: UNREACHED, per: SECOND, per_client: false };
        match name {
            "refused" => Limit { rate: 1, per: HOUR, ..once },
            "per_client" => Limit { per_client: true, ..once },
            "keys" => Limit { keys: self.plan.keys, ..once },
            _ => once,
        }
    }

    /// Makes peers ready to enforce a limit, in this order.
    async fn peers(&self, names: &[&str], limit: Limit) -> Vec<Peer<'_>> {
        let url = self.server.url();
        let mut peers = Vec::new();
        for name in names {
            peers.push(match *name {
                "ours" => Peer::Ours(Arc::new(Ours::new(&self.limits, limit).await)),
                "ours_buckets" => Peer::Ours(Arc::new(Ours::of_buckets(limit).await)),
                "bare" => Peer::Bare(Arc::new(Bare::new(&url, limit).await.expect("Redis runs"))),
                "naive" => {
                    Peer::Naive(Arc::new(Naive::new(&url, limit).await.expect("Redis runs")))
                }
                "governor" => Peer::Governed(Arc::new(Governed::new(limit))),
                java => {
                    let Some(redisson) = &self.redisson else { continue };
                    redisson.create(&limit);
                    let threads = java == "redisson_threads";
                    Peer::Redisson(redisson, if threads { Calls::Threads } else { Calls::Async })
                }
            });
        }
        peers
    }

    /// Lets the JVM compile its code, and all peers open their connections.
    async fn warm_up(&mut self) {
        let (limit, time) = (self.limit("warm_up"), self.plan.warm_up);
        for peer in &mut self.peers(&["redisson", "redisson_threads", "ours"], limit).await {
            for callers in [16, 2048] {
                peer.closed(callers, time / 4).await;
            }
        }
    }

    fn results(&self) -> Results {
        Results::now(&self.command, &self.facts)
    }
}

/// The median of the rounds, figure by figure.
fn medians(rounds: &[Vec<(&'static str, f64)>]) -> Vec<(&'static str, f64)> {
    let Some(first) = rounds.first() else { return Vec::new() };
    let median = |at: usize| {
        let mut all: Vec<f64> = rounds.iter().map(|round| round[at].1).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    first.iter().enumerate().map(|(at, (name, _))| (*name, median(at))).collect()
}
