//! Calls that are dropped at any moment: every permit is with a caller that got it, or free.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use proptest::{collection::vec, prelude::*};
use ratelimit_runtime::{Limiter, Limits, Mode, Quota, Settings};
use tests::{proxy::Proxy, redis_server::RedisServer};
use tokio::{runtime, time::sleep};

use super::ms;

const RATE: u64 = 20;
/// Longer than any test: no permit is free again by itself.
const WINDOW: Duration = Duration::from_secs(3_600_000);

/// What one caller does, with times in milliseconds.
#[derive(Clone, Debug)]
struct Caller {
    starts: u64,
    permits: u64,
    ask: Ask,
    /// When it stops polling its call, and drops it.
    patience: (u64, u64),
    holds: u64,
    then: Then,
    /// When it stops polling what it does then.
    ends: u64,
}

#[derive(Clone, Copy, Debug)]
enum Ask {
    Acquire,
    Try,
    UpTo(u64),
    /// Beside a limiter that this process counts, and that has few permits.
    WithOwn,
    /// Beside another limiter that the store counts.
    WithOther,
}

#[derive(Clone, Copy, Debug)]
enum Then {
    Keep,
    GiveBack,
    Settle(u64),
    Record(u64),
}

fn callers() -> impl Strategy<Value = Vec<Caller>> {
    let ask = prop_oneof![
        3 => Just(Ask::Acquire),
        2 => Just(Ask::Try),
        1 => (0..80_u64).prop_map(Ask::UpTo),
        2 => Just(Ask::WithOwn),
        1 => Just(Ask::WithOther),
    ];
    let then = prop_oneof![
        1 => Just(Then::Keep),
        5 => Just(Then::GiveBack),
        2 => (0..3_u64).prop_map(Then::Settle),
        2 => (0..3_u64).prop_map(Then::Record),
    ];
    let patience = (0..150_u64, prop_oneof![Just(0_u64), 0..60_u64]);
    let caller = (0..150_u64, 1..6_u64, ask, patience, 0..60_u64, then, 0..30_u64);
    let caller = caller.prop_map(|(starts, permits, ask, patience, holds, then, ends)| Caller {
        starts,
        permits,
        ask,
        patience,
        holds,
        then,
        ends,
    });
    vec(caller, 40)
}

/// Polls a future for some time, and drops it after some more.
async fn dropped<T>(future: impl Future<Output = T>, (polled, kept): (u64, u64)) -> Option<T> {
    let mut future = Box::pin(future);
    let answer = tokio::time::timeout(ms(polled), future.as_mut()).await.ok();
    if answer.is_none() {
        sleep(ms(kept)).await;
    }
    answer
}

struct World {
    all: Limiter,
    own: Limiter,
    other: Limiter,
    /// The permits that callers took and kept.
    spent: AtomicU64,
    spent_of_other: AtomicU64,
}

impl World {
    async fn call(self: Arc<Self>, caller: Caller) {
        let Caller { starts, permits, ask, patience, holds, then, ends } = caller;
        sleep(ms(starts)).await;
        let asked = async {
            match ask {
                Ask::Acquire => self.all.acquire(permits).await,
                Ask::Try => self.all.try_acquire(permits).await,
                Ask::UpTo(wait) => self.all.acquire_timeout(permits, ms(wait)).await,
                Ask::WithOwn => self.all.clone().and(self.own.clone()).try_acquire(permits).await,
                Ask::WithOther => self.all.clone().and(self.other.clone()).acquire(permits).await,
            }
        };
        let Some(Ok(permit)) = dropped(asked, patience).await else { return };
        sleep(ms(holds)).await;
        let room = |wanted: u64| {
            let add = |spent: u64| (spent + wanted <= RATE / 2).then_some(spent + wanted);
            self.spent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
        };
        let used = match then {
            Then::Keep if room(permits) => permits,
            Then::Settle(used) | Then::Record(used) if room(used) => used,
            _ => 0,
        };
        if let Ask::WithOther = ask {
            self.spent_of_other.fetch_add(used, Ordering::Relaxed);
        }
        match then {
            Then::Keep if used > 0 => drop(permit),
            Then::Record(_) => permit.record(used),
            Then::Settle(_) => drop(dropped(permit.settle(used), (ends, 0)).await),
            Then::GiveBack | Then::Keep => drop(dropped(permit.give_back(), (ends, 0)).await),
        }
    }
}

async fn free_of(limiter: &Limiter) -> u64 {
    limiter.available_permits().await.unwrap()
}

async fn run(limits: &Limits, name: String, quota: Quota, callers: Vec<Caller>) {
    let own = Settings::new(Quota::new(6, WINDOW).unwrap()).mode(Mode::PerClient);
    let world = Arc::new(World {
        all: limits.limiter(&name, quota),
        own: limits.limiter(&format!("own:{name}"), own),
        other: limits.limiter(&format!("other:{name}"), quota),
        spent: AtomicU64::new(0),
        spent_of_other: AtomicU64::new(0),
    });
    let tasks: Vec<_> = callers
        .iter()
        .cloned()
        .map(|caller| tokio::spawn(Arc::clone(&world).call(caller)))
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let free = |spent: &AtomicU64| RATE - spent.load(Ordering::Relaxed);
    let expected = [free(&world.spent), free(&world.spent_of_other)];
    let mut found = [0, 0];
    for _ in 0..40 {
        sleep(ms(50)).await;
        found = [free_of(&world.all).await, free_of(&world.other).await];
        if found == expected {
            break;
        }
    }
    // A slot of a bucket is lost if another one was reserved after it.
    let is_whole =
        |(found, expected)| found == expected || (found < expected && name.starts_with("token"));
    let is_whole = found.into_iter().zip(expected).all(is_whole);
    assert!(is_whole, "{name}: {found:?} instead of {expected:?}");
}

fn quotas() -> [(&'static str, Quota); 3] {
    let quota = Quota::new(RATE, WINDOW).unwrap();
    let token = quota.token_bucket(RATE).unwrap();
    [("sliding", quota), ("fixed", quota.fixed_window()), ("token", token)]
}

fn no_permit_is_lost(runtime: &runtime::Runtime, limits: &Limits, cases: u32) {
    let case = AtomicU64::new(0);
    tests::random_histories(cases)
        .run(&callers(), |callers| {
            let case = case.fetch_add(1, Ordering::Relaxed);
            runtime.block_on(async {
                let all = quotas().map(|(name, quota)| {
                    run(limits, format!("{name}:{case}"), quota, callers.clone())
                });
                let [a, b, c] = all;
                tokio::join!(a, b, c);
            });
            Ok(())
        })
        .unwrap();
}

#[test]
fn no_permit_is_lost_embedded() {
    let mut builder = runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build().unwrap();
    let limits = Limits::builder().memory().no_limits_file();
    let limits = runtime.block_on(limits.build()).unwrap();
    no_permit_is_lost(&runtime, &limits, 300);
}

#[test]
fn no_permit_is_lost_redis() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let runtime =
        runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let limits = Limits::builder().redis(proxy.url()).no_limits_file();
    let limits = runtime.block_on(limits.deadline(Duration::from_secs(20)).build()).unwrap();
    proxy.delay(ms(12));
    no_permit_is_lost(&runtime, &limits, 10);
}
