//! A debt is the store's: every process pays it, and no cache forgets it.

use std::{future::Future, ops::RangeInclusive};

use ratelimit_runtime::{Limits, Permit, Quota, Reason, Rejection, Settings};
use tests::place::{Place, at, due, now, rules};
use tokio::time::{sleep, timeout};

use super::{SECOND, ms};

/// The bound of the limiters that are remembered where one has to be forgotten.
const REMEMBERED: usize = 1_000;
/// Longer than any test takes.
const MINUTE_MS: u64 = 60_000;
/// Short enough to wait for a few.
const SHORT_MS: u64 = 400;

/// Returns when permits are free that a limiter of this rule has a number of windows after it was charged.
fn later(
    name: &str,
    charged: &RangeInclusive<u64>,
    windows: u64,
    per_ms: u64,
) -> RangeInclusive<u64> {
    let begins = |at: u64| if name.contains("fixed") { at - at % per_ms } else { at };
    // Buckets have one more permit then, and limits count in whole milliseconds.
    let late = per_ms / 1000 + 1;
    begins(*charged.start()) + windows * per_ms - 1
        ..=begins(*charged.end()) + windows * per_ms + late
}

/// Waits for permits that are due then: they come no earlier, and hardly later than another call that
/// sleeps until then. Returns when.
async fn comes(
    limits: &Limits,
    waiting: impl Future<Output = Result<Permit, Rejection>>,
    due: &RangeInclusive<u64>,
) -> u64 {
    let asleep = async {
        sleep(ms(due.end().saturating_sub(now(limits).await))).await;
        now(limits).await
    };
    let (permit, woke) = tokio::join!(waiting, asleep);
    let permit = permit.unwrap();
    let (name, at) = (permit.limiter(), at(&permit));
    assert!(at >= *due.start(), "{name}: at {at}, {due:?}");
    assert!(at < woke + 250, "{name}: at {at}, {due:?}, another one at {woke}");
    at
}

/// 5 000 charged to a limit of 1 000 by one process: taken and owed is one window each, and another
/// process waits for both.
async fn another_process_pays(charging: Limits, paying: Limits, other: Option<&Limits>) {
    for per_ms in [MINUTE_MS, SHORT_MS] {
        for (name, _, quota) in rules(1000, ms(per_ms)) {
            let name = format!("{name}:{per_ms}");
            let before = now(&charging).await;
            let settled = charging.limiter(&name, quota).charge(5000).await.unwrap();
            let charged = before..=now(&charging).await;
            assert_eq!((settled.taken, settled.debt, settled.excess), (1000, 1000, 3000), "{name}");
            if let Some(other) = other {
                forget(other).await;
            }
            // A token bucket has a permit as soon as the debt is paid, the others when all is. What a cold one
            // charges takes twice its time.
            let windows = match name.split(':').next() {
                Some("token") => 1,
                Some("warming") => 3,
                _ => 2,
            };
            let (limiter, free) =
                (paying.limiter(&name, quota), later(&name, &charged, windows, per_ms));
            if per_ms == MINUTE_MS {
                let rejection = limiter.try_acquire(1).await.unwrap_err();
                assert_eq!(rejection.reason(), Reason::Limited, "{name}");
                let due = due(&rejection);
                assert!(free.contains(&due), "{name}: {due}, {free:?}");
                assert_eq!(limiter.available_permits().await.unwrap(), 0, "{name}");
            } else {
                comes(&paying, limiter.acquire(1), &free).await;
            }
        }
    }
}

/// Has so many limiters used that none of those before is remembered.
async fn forget(limits: &Limits) {
    let quota = Quota::new(1, ms(1)).unwrap();
    for n in 0..2 * REMEMBERED {
        drop(limits.limiter(&format!("other:{n}"), quota));
    }
}

#[tokio::test]
async fn another_process_pays_redis() {
    let place = Place::redis();
    another_process_pays(place.limits().await, place.limits().await, None).await;
}

#[tokio::test(start_paused = true)]
async fn the_same_process_pays_embedded() {
    let limits = Place::Embedded.limits().await;
    another_process_pays(limits.clone(), limits, None).await;
}

#[tokio::test(start_paused = true)]
async fn a_limiter_that_left_the_cache_still_pays_embedded() {
    let limits = Place::Embedded.builder().max_remembered(REMEMBERED).build().await.unwrap();
    another_process_pays(limits.clone(), limits.clone(), Some(&limits)).await;
}

/// A process that ends leaves its debt behind.
#[tokio::test]
async fn a_process_that_ended_leaves_its_debt() {
    let place = Place::redis();
    let (charging, limits) = (place.limits().await, place.limits().await);
    let owed = |limits: &Limits, per_ms: u64| {
        limits.limiter(&format!("owed:{per_ms}"), Quota::new(10, ms(per_ms)).unwrap())
    };
    let before = now(&charging).await;
    for per_ms in [MINUTE_MS, SHORT_MS] {
        let settled = owed(&charging, per_ms).charge(15).await.unwrap();
        assert_eq!((settled.taken, settled.debt), (10, 5));
    }
    let charged = before..=now(&charging).await;
    drop(charging);
    let after = |windows, per_ms| later("owed", &charged, windows, per_ms);

    // The debt takes half of the next window, so 6 permits are free in the one after it.
    let limiter = owed(&limits, MINUTE_MS);
    for (permits, windows) in [(5, 1), (6, 2)] {
        let due = due(&limiter.try_acquire(permits).await.unwrap_err());
        assert!(after(windows, MINUTE_MS).contains(&due), "{permits}: {due}, {charged:?}");
    }
    let limiter = owed(&limits, SHORT_MS);
    let at = comes(&limits, limiter.acquire(5), &after(1, SHORT_MS)).await;
    comes(&limits, limiter.acquire(6), &later("owed", &(at..=at), 1, SHORT_MS)).await;
}

/// A debt of several windows: a wait that is too short for it is refused at once, one that is long
/// enough succeeds, and it is paid without any call.
async fn several_windows_are_owed(limits: &Limits) {
    for per_ms in [MINUTE_MS, SHORT_MS] {
        let quota = Quota::new(10, ms(per_ms)).unwrap();
        for (name, quota) in [("sliding", quota), ("fixed", quota.fixed_window())] {
            let name = format!("{name}:{per_ms}");
            let limiter = limits.limiter(&name, Settings::new(quota).max_debt(100));
            let before = now(limits).await;
            let settled = limiter.charge(45).await.unwrap();
            let charged = before..=now(limits).await;
            assert_eq!((settled.taken, settled.debt), (10, 35), "{name}");
            let free = later(&name, &charged, 4, per_ms);
            if per_ms == MINUTE_MS {
                let call = timeout(10 * SECOND, limiter.acquire_timeout(1, ms(2 * MINUTE_MS)));
                let rejection = call.await.expect("it is refused at once").unwrap_err();
                assert_eq!(rejection.reason(), Reason::WaitTooLong, "{name}");
                let due = due(&rejection);
                assert!(free.contains(&due), "{name}: {due}, {free:?}");
                continue;
            }
            comes(limits, limiter.acquire_timeout(1, 60 * SECOND), &free).await;
            limiter.charge(45).await.unwrap();
            sleep(ms(2500)).await;
            let free = limiter.available_permits().await.unwrap();
            assert_eq!(free, 10, "{name}: paid without a call");
        }
    }
}

#[tokio::test]
async fn several_windows_are_owed_redis() {
    several_windows_are_owed(&Place::redis().limits().await).await;
}

#[tokio::test(start_paused = true)]
async fn several_windows_are_owed_embedded() {
    several_windows_are_owed(&Place::Embedded.limits().await).await;
}
