//! A debt is the store's: every process pays it, and no cache forgets it.

use ratelimit_runtime::{Limits, Quota, Reason, Settings};
use tests::place::{Place, rules, window_begins};
use tokio::time::Instant;

use super::ms;

/// The bound of the limiters that are remembered where one has to be forgotten.
const REMEMBERED: usize = 1_000;

/// 5 000 charged to a limit of 1 000 by one process: taken and owed is one window each, and another
/// process waits for both.
async fn another_process_pays(charging: Limits, paying: Limits, other: Option<&Limits>) {
    for (name, _, quota) in rules(1000, ms(400)) {
        window_begins(&charging, 400).await;
        let start = Instant::now();
        let settled = charging.limiter(name, quota).charge(5000).await.unwrap();
        assert_eq!((settled.taken, settled.debt, settled.excess), (1000, 1000, 3000), "{name}");
        if let Some(other) = other {
            forget(other).await;
        }
        let limiter = paying.limiter(name, quota);
        let rejection = limiter.try_acquire(1).await.unwrap_err();
        assert_eq!(rejection.reason(), Reason::Limited, "{name}");
        assert_eq!(limiter.available_permits().await.unwrap(), 0, "{name}");
        limiter.acquire(1).await.unwrap();
        let waited = u64::try_from(start.elapsed().as_millis()).unwrap();
        // A token bucket has a permit as soon as the debt is paid, a leaky one when all is.
        let due = match name {
            "token" => 400..700,
            "sliding" => 800..1100,
            // What a cold one charges takes twice its time.
            "warming" => 1190..1500,
            // A leaky one, or from a millisecond of the first window to the begin of the third.
            _ => 790..1100,
        };
        assert!(due.contains(&waited), "{name}: after {waited} ms");
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
    let quota = Quota::new(10, ms(1000)).unwrap();
    let settled = place.limits().await.limiter("owed", quota).charge(15).await.unwrap();
    assert_eq!((settled.taken, settled.debt), (10, 5));
    let limiter = place.limits().await.limiter("owed", quota);
    // The debt takes half of the next window, so 6 permits are free in the one after it.
    let rejection = limiter.acquire_timeout(6, ms(1900)).await.unwrap_err();
    assert_eq!(rejection.reason(), Reason::WaitTooLong);
    let start = Instant::now();
    limiter.acquire(5).await.unwrap();
    limiter.acquire(6).await.unwrap();
    assert!(start.elapsed() >= ms(900), "{:?}", start.elapsed());
}

/// A debt of several windows: a wait that is too short for it is refused at once, one that is long
/// enough succeeds, and it is paid without any call.
async fn several_windows_are_owed(limits: &Limits) {
    let quota = Quota::new(10, ms(400)).unwrap();
    for (name, quota) in [("sliding", quota), ("fixed", quota.fixed_window())] {
        let limiter = limits.limiter(name, Settings::new(quota).max_debt(100));
        window_begins(limits, 400).await;
        let start = Instant::now();
        let settled = limiter.charge(45).await.unwrap();
        assert_eq!((settled.taken, settled.debt), (10, 35), "{name}");
        let rejection = limiter.acquire_timeout(1, ms(1400)).await.unwrap_err();
        assert_eq!(rejection.reason(), Reason::WaitTooLong, "{name}");
        assert!(start.elapsed() < ms(350), "{name}: refused after {:?}", start.elapsed());
        limiter.acquire_timeout(1, ms(1900)).await.unwrap();
        let waited = start.elapsed();
        assert!((ms(1550)..ms(1850)).contains(&waited), "{name}: after {waited:?}");

        limiter.charge(45).await.unwrap();
        tokio::time::sleep(ms(2500)).await;
        assert_eq!(limiter.available_permits().await.unwrap(), 10, "{name}: paid without a call");
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
