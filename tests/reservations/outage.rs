//! A process whose callers wait for a bucket loses the store for a while, and another does not.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ratelimit_runtime::{Limiter, Limits, Quota};
use tests::{proxy::Proxy, redis_server::RedisServer};
use tokio::{task::JoinSet, time::sleep};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A process whose callers never stop waiting.
struct Busy {
    got: Arc<AtomicU64>,
    _callers: JoinSet<()>,
}

impl Busy {
    fn start(limiter: &Limiter) -> Self {
        let (got, mut callers) = (Arc::<AtomicU64>::default(), JoinSet::new());
        for _ in 0..12 {
            let (limiter, got) = (limiter.clone(), Arc::clone(&got));
            callers.spawn(async move {
                loop {
                    let permits = limiter.acquire(2).await.unwrap().permits();
                    got.fetch_add(permits, Ordering::Relaxed);
                }
            });
        }
        Self { got, _callers: callers }
    }

    fn take(&self) -> u64 {
        self.got.swap(0, Ordering::Relaxed)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_lost_the_store_for_a_moment_does_not_starve() {
    let quota = Quota::new(50, ms(500)).unwrap();
    for quota in [quota.token_bucket(50).unwrap(), quota.leaky_bucket().unwrap()] {
        let server = RedisServer::start();
        let proxy = Proxy::start(server.port());
        let limits = async |url: String| {
            let builder = Limits::builder().redis(url).no_limits_file().deadline(ms(300));
            builder.build().await.unwrap()
        };
        let limits = [limits(proxy.url()).await, limits(server.url()).await];
        let [cut, other] = limits.each_ref().map(|it| Busy::start(&it.limiter("x", quota)));
        sleep(ms(500)).await;
        proxy.cut();
        sleep(ms(300)).await;
        proxy.restore();
        // Until then it takes no more than its share.
        sleep(ms(2_000)).await;
        let _ = (cut.take(), other.take());
        sleep(ms(3_000)).await;
        let (got, other) = (cut.take(), other.take());
        assert!(got + other > 250, "{quota}: {got} and {other} of 300");
        assert!(got > 60, "{quota}: {got} beside {other}");
    }
}
