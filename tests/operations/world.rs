//! One kind of limiter: a store, a mode, and the processes that use it.

use std::{future::Future, time::Duration};

use ratelimit_runtime::{
    Limiter, Limits, LimitsBuilder, Mode, Permit, Quota, Rejection, Settings,
    test_util::ManualClock,
};
use tests::redis_server::RedisServer;
use tokio::task::JoinHandle;

/// Where limiters are kept, and how they are counted.
pub(crate) struct World {
    pub(crate) mode: Mode,
    store: Store,
    /// The process that everything happens in unless a case starts another.
    here: tokio::sync::OnceCell<Limits>,
}

enum Store {
    Embedded(ManualClock),
    Redis(RedisServer),
}

impl World {
    pub(crate) fn embedded(mode: Mode) -> Self {
        Self { mode, store: Store::Embedded(ManualClock::new()), here: Default::default() }
    }

    pub(crate) fn redis(mode: Mode) -> Self {
        Self { mode, store: Store::Redis(RedisServer::start()), here: Default::default() }
    }

    /// The limits of a process that starts now. Its limiters get their numbers in code, or none.
    pub(crate) async fn process(&self) -> Limits {
        let mode = format!("default: {{ mode: {} }}\n", self.mode);
        self.builder().limits_yaml(mode).build().await.expect("limits")
    }

    /// As [`process`](Self::process), for one that does not know the mode either.
    pub(crate) async fn stranger(&self) -> Limits {
        self.builder().no_limits_file().build().await.expect("limits")
    }

    fn builder(&self) -> LimitsBuilder {
        let builder = Limits::builder().deadline(Duration::from_secs(5));
        match &self.store {
            Store::Embedded(clock) => builder.memory().clock(clock.clone()),
            Store::Redis(server) => builder.redis(server.url()),
        }
    }

    async fn here(&self) -> &Limits {
        self.here.get_or_init(|| self.process()).await
    }

    /// A limiter with these numbers.
    pub(crate) async fn limiter(&self, quota: Quota) -> Limiter {
        self.named("limiter", quota).await
    }

    /// Another one.
    pub(crate) async fn named(&self, name: &str, settings: impl Into<Settings>) -> Limiter {
        self.here().await.limiter(name, settings)
    }

    /// A limiter without numbers, of the mode of this world.
    pub(crate) async fn follower(&self) -> Limiter {
        self.here().await.configured("follower")
    }

    /// Lets time pass, for whoever sleeps by it too.
    pub(crate) async fn pass(&self, time: Duration) {
        match &self.store {
            Store::Embedded(clock) => {
                tokio::task::yield_now().await;
                clock.advance(time);
            }
            Store::Redis(_) => tokio::time::sleep(time + Duration::from_millis(2)).await,
        }
    }

    /// A caller that has to wait.
    pub(crate) async fn waiter(
        &self,
        limiter: &Limiter,
        permits: u32,
    ) -> JoinHandle<Result<Permit, Rejection>> {
        let limiter = limiter.clone();
        let waiter = tokio::spawn(async move { limiter.acquire(permits.into()).await });
        self.pass(Duration::from_millis(50)).await;
        assert!(!waiter.is_finished());
        waiter
    }

    /// What is to come without a wait.
    pub(crate) async fn soon<T>(
        &self,
        task: impl Future<Output = Result<T, tokio::task::JoinError>>,
    ) -> T {
        let patience = Duration::from_secs(5);
        tokio::time::timeout(patience, task).await.expect("it needs no wait").expect("no panic")
    }
}
