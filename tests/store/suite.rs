//! What every store must do, as tests that run against any store.
//! `suite::run(&store, "my-prefix:", &suite::Time::Manual(time)).await` is all of it.

mod general;
mod joint;
mod meters;
mod reservations;
mod settlement;
mod sliding_window;

use std::time::Duration;

use ratelimit_runtime::{
    __private::store::{
        Algorithm, Assertion, Config, KeepState, Mode, OnDrift, Reply, Request, Rule, StateKeys,
        Store, WriteWhen,
    },
    test_util::ManualClock,
};
use tests::decide::Decide;
use tokio::time::Instant;

const ALGORITHMS: [Algorithm; 4] = [
    Algorithm::SlidingWindow,
    Algorithm::TokenBucket,
    Algorithm::FixedWindow,
    Algorithm::LeakyBucket,
];

/// How the suite lets time pass for the store.
#[derive(Clone, Debug)]
pub(crate) enum Time {
    /// By moving the store's clock.
    Manual(ManualClock),
    /// By sleeping, for stores that have a clock of their own.
    Real,
}

impl Time {
    async fn pass(&self, ms: u64) {
        let duration = Duration::from_millis(ms);
        match self {
            Self::Manual(clock) => clock.advance(duration),
            Self::Real => tokio::time::sleep(duration).await,
        }
    }
}

/// One limiter as one process sees it.
struct Process<'a, S> {
    store: &'a S,
    keys: StateKeys,
    config: Config,
    revision: u64,
    since: Instant,
}

impl<S: Store> Process<'_, S> {
    fn request(&self, assertion: Assertion) -> Request<'_> {
        Request::new(&self.keys, self.config, self.since)
            .revision(self.revision)
            .assertion(assertion)
    }

    async fn acquire(&self, permits: u32) -> Reply {
        let request = self.request(Assertion::Steady);
        self.store.acquire(&request, permits).await.expect("the store answers")
    }

    async fn acquire_all(&self, costs: &[u32]) -> Vec<Reply> {
        let request = self.request(Assertion::Steady);
        self.store.acquire_all(&request, costs).await.expect("the store answers")
    }

    async fn first(&self, permits: u32, on_drift: OnDrift) -> Reply {
        let request = self.request(Assertion::First(on_drift));
        self.store.acquire(&request, permits).await.expect("the store answers")
    }

    async fn release(&self, permits: u32) -> u64 {
        self.store.release(&self.keys, permits).await.expect("the store answers")
    }

    async fn write(&self, rate: u32, when: WriteWhen, state: KeepState) -> bool {
        let config = config(self.config.rule.algorithm(), rate, self.config.per_ms);
        self.store.write(&self.keys, config, when, state, 0).await.expect("the store answers")
    }

    /// Writes the rate, and holds it.
    async fn hold(&self, rate: u32, ms: u64) {
        let config = config(self.config.rule.algorithm(), rate, self.config.per_ms);
        let (when, keep) = (WriteWhen::Always, KeepState::Keep);
        let written = self.store.write(&self.keys, config, when, keep, ms).await;
        assert!(written.expect("the store answers"));
    }

    /// The same limiter as a process sees it that started at another time.
    fn started(&self, since: Instant) -> Self {
        Self { keys: self.keys.clone(), since, ..*self }
    }

    /// Whether permits are handed out one request after the other.
    fn spaces(&self) -> bool {
        self.config.rule == Rule::LeakyBucket
    }

    async fn peek(&self, permits: u32) -> Reply {
        let request = self.request(Assertion::Steady);
        self.store.peek(&request, permits).await.expect("the store answers")
    }
}

/// A token bucket holds as much as it gets in a window.
fn config(algorithm: Algorithm, rate: u32, per_ms: u64) -> Config {
    let config = Config::new(rate.into(), per_ms, Mode::Overall).rule(algorithm.rule(rate));
    config.keep_alive_ms(60_000.max(per_ms * 2))
}

/// The same numbers, counted in each process.
fn per_client(mut config: Config) -> Config {
    config.mode = Mode::PerClient;
    config
}

/// Runs the whole suite; panics at the first promise that is broken. State lives under `prefix`.
///
/// # Panics
///
/// When the store breaks a promise, with the promise and what it did instead.
pub(crate) async fn run<S: Store>(store: &S, prefix: &str, time: &Time) {
    for algorithm in ALGORITHMS {
        general::run(store, prefix, algorithm, time).await;
    }
    sliding_window::run(store, prefix, time).await;
    meters::run(store, prefix, time).await;
    joint::run(store, prefix, time).await;
    reservations::run(store, prefix, time).await;
    settlement::run(store, prefix, time).await;
}
