//! A process of ours whose every request reaches Redis.
//!
//! A `Limiter` repeats for a second at most what it was refused. What is said of a script is said of
//! each of its runs, so it is asked past the limiter.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use ratelimit_runtime::{
    __private::store::{
        Assertion, Config, KeepState, Mode, OnDrift, Outcome, RedisStore, Reply, Request,
        StateKeys, Store, WriteWhen,
    },
    Quota,
};
use tests::{decide::Decide, redis_server::RedisServer};
use tokio::time::{Instant, sleep_until};

pub(crate) struct Direct {
    pub(crate) store: RedisStore,
    pub(crate) keys: StateKeys,
    /// What the process is configured with.
    config: Config,
    since: Instant,
    /// Whether it has had its say about the numbers.
    stated: AtomicBool,
}

impl Direct {
    /// A process that is configured with these numbers for `shared`.
    pub(crate) fn of(server: &RedisServer, quota: &Quota) -> Self {
        let store = RedisStore::open(&server.url(), Duration::from_secs(2)).expect("an address");
        let per_ms = u64::try_from(quota.per().as_millis()).expect("a window");
        Self {
            store,
            keys: StateKeys::new("shared"),
            config: Config::new(quota.rate(), per_ms, Mode::Overall),
            since: Instant::now(),
            stated: AtomicBool::new(false),
        }
    }

    pub(crate) async fn try_acquire(&self, permits: u32) -> bool {
        self.ask(permits).await.outcome == Outcome::Granted
    }

    /// Waits for as long as it is told, unless it is told to wait for longer than this.
    pub(crate) async fn acquire_timeout(&self, permits: u32, timeout: Duration) -> bool {
        let until = Instant::now() + timeout;
        loop {
            let reply = self.ask(permits).await;
            let next = Instant::now() + Duration::from_millis(reply.retry_after_ms);
            match reply.outcome {
                Outcome::Granted => return true,
                _ if next > until => return false,
                _ => sleep_until(next).await,
            }
        }
    }

    async fn ask(&self, permits: u32) -> Reply {
        let assertion = match self.stated.swap(true, Ordering::AcqRel) {
            true => Assertion::Steady,
            false => Assertion::First(OnDrift::Reset),
        };
        let request = self.request().assertion(assertion);
        let reply = self.store.acquire(&request, permits).await.expect("the store answers");
        assert!(matches!(reply.outcome, Outcome::Granted | Outcome::Refused), "{reply:?}");
        reply
    }

    pub(crate) async fn available_permits(&self) -> u64 {
        self.store.peek(&self.request(), 1).await.expect("the store answers").remaining
    }

    pub(crate) async fn release(&self, permits: u32) -> u64 {
        self.store.release(&self.keys, permits).await.expect("the store answers")
    }

    /// Writes another rate, and returns whether it did.
    pub(crate) async fn write(&self, rate: u32, when: WriteWhen, state: KeepState) -> bool {
        let mut config = self.config;
        config.rate = rate.into();
        self.stated.store(true, Ordering::Release);
        self.store.write(&self.keys, config, when, state).await.expect("the store answers")
    }

    fn request(&self) -> Request<'_> {
        Request::new(&self.keys, self.config, self.since)
    }
}
