//! A million keys in one process: their memory in the process and in Redis, and what remains of it later.

use std::time::{Duration, Instant};

use ratelimit_runtime::{Limits, Rejection, rate_limit};
use tests::redis_server::RedisServer;
use tokio::task::JoinSet;

use crate::{memory::resident, results::Results};

const KEYS: u64 = 1_000_000;
const STEP: u64 = 100_000;
/// Other keys, which are used and removed before the first look: what that costs once does not count.
const FIRST: u64 = 10_000;
/// Callers, so that the process does not wait for each reply of Redis.
const CALLERS: u64 = 256;
/// A limiter of a template is kept for two windows after its use, and removed within a minute after that.
pub const LATER: Duration = Duration::from_secs(150);

#[rate_limit(
    key = "grown:{id}",
    rate = 100,
    per = "30s",
    algorithm = "token_bucket",
    wait = "none"
)]
async fn grown(id: u64) -> Result<(), Rejection> {
    Ok(())
}

/// Uses each key once, in this process, on the embedded store or on a Redis of its own, and looks again after `later`,
/// in which limiters are removed.
/// `heap` returns the bytes that the process has allocated and not freed.
///
/// # Panics
///
/// Panics if there is no `/proc`, or Redis does not reply.
pub async fn measure(on_redis: bool, later: Duration, heap: fn() -> usize) -> Results {
    let server = on_redis.then(RedisServer::start);
    let builder = Limits::builder().no_limits_file().deadline(Duration::from_secs(30));
    let builder = match &server {
        Some(server) => builder.redis(server.url()),
        None => builder.memory(),
    };
    let limits = builder.build().await.expect("a store");
    use_each(&limits, KEYS..KEYS + FIRST).await;
    go_on(&limits, later).await;
    let of = || Memory::of(server.as_ref(), heap);
    let before = of();
    let mut results = Results::now("cargo xtask bench growth", &[]);
    before.note(&mut results, "before");
    for used in (STEP..=KEYS).step_by(STEP as usize) {
        use_each(&limits, used - STEP..used).await;
        of().since(&before).note(&mut results, &used.to_string());
    }
    go_on(&limits, later).await;
    of().since(&before).note(&mut results, "later");
    results
}

/// Lets time pass, with a few keys in use: an allocator may wait for the thread whose memory another one freed.
async fn go_on(limits: &Limits, time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        tokio::time::sleep(Duration::from_secs(1)).await;
        use_each(limits, KEYS..KEYS + CALLERS).await;
    }
}

async fn use_each(limits: &Limits, ids: std::ops::Range<u64>) {
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let ids = (ids.start + caller..ids.end).step_by(CALLERS as usize);
        callers.spawn(limits.scope(async move {
            for id in ids {
                grown(id).await.expect("a new key is admitted");
            }
        }));
    }
    callers.join_all().await;
}

/// Bytes of this process, of those in use on its heap, and of the server.
struct Memory {
    process: f64,
    heap: f64,
    server: Option<f64>,
}

impl Memory {
    fn of(server: Option<&RedisServer>, heap: fn() -> usize) -> Self {
        let server = server.map(|server| server.info("used_memory").parse().expect("a number"));
        Self { process: resident(), heap: heap() as f64, server }
    }

    fn since(&self, before: &Self) -> Self {
        let server = self.server.zip(before.server).map(|(now, before)| now - before);
        Self { process: self.process - before.process, heap: self.heap - before.heap, server }
    }

    fn note(&self, results: &mut Results, load: &str) {
        let server = self.server.map(|bytes| ("server", bytes));
        let own = [("process", self.process), ("heap", self.heap)];
        let figures: Vec<_> = own.into_iter().chain(server).collect();
        results.add(load, "keys", &figures);
    }
}
