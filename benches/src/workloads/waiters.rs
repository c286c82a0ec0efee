//! Many callers that wait for a slow limit.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use ratelimit_runtime::{Limiter, Quota};
use tokio::task::LocalSet;

use super::{Bench, SECOND};
use crate::{
    cost::Cost,
    load::{Grant, Waits},
    peers::Limit,
    results::Results,
};

const CALLERS: usize = 1000;
const RATE: u32 = 10;

impl Bench {
    pub(super) async fn waiters(&mut self) -> Results {
        let (mut results, time) = (self.results(), self.plan.waiting);
        let limit = Limit { rate: RATE, ..self.limit("waiters") };
        let quota = Quota::new(limit.rate.into(), limit.per).expect("a quota that can be");
        let limiter = self.limits.limiter("ours:waiters:0", quota);
        self.meter.start();
        let waits = wait(&limiter, time).await;
        add(&mut results, "ours", &waits, self.meter.stop());
        if let Some(redisson) = &self.redisson {
            redisson.create(&limit);
            // The window of the permit that making it took has to pass.
            tokio::time::sleep(limit.per).await;
            self.meter.start();
            let waits = redisson.wait(&limit, CALLERS, time);
            add(&mut results, "redisson", &waits, self.meter.stop());
        }
        results
    }
}

/// Runs waiting callers that arrive one after another.
async fn wait(limiter: &Limiter, time: Duration) -> Waits {
    let grants = Arc::new(Mutex::new(Vec::new()));
    let start = Instant::now();
    // Tasks of one thread are first polled in the order in which they were spawned.
    let callers = LocalSet::new();
    for caller in 0..CALLERS {
        let (limiter, grants) = (limiter.clone(), Arc::clone(&grants));
        callers.spawn_local(async move {
            if limiter.acquire(1).await.is_ok() {
                let grant = Grant { caller, at: start.elapsed() };
                grants.lock().unwrap_or_else(PoisonError::into_inner).push(grant);
            }
        });
    }
    callers.run_until(tokio::time::sleep(time)).await;
    drop(callers);
    let mut grants = grants.lock().unwrap_or_else(PoisonError::into_inner);
    Waits(std::mem::take(&mut grants))
}

fn add(results: &mut Results, peer: &str, waits: &Waits, cost: Cost) {
    let grants = waits.grants().max(1) as f64;
    let figures = [
        ("grants", waits.grants() as f64),
        ("scripts", cost.scripts / grants),
        ("cpu_us", cost.cpu_us / grants),
        ("share", waits.share(RATE, SECOND)),
        ("overtakings", waits.overtakings() as f64),
    ];
    results.add(CALLERS, peer, &figures);
}
