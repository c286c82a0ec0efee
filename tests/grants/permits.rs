//! A permit as a value: settled, given back, recorded, dropped; by every rule, on both stores.

use std::pin::pin;

use ratelimit_runtime::{Limiter, Limits, Permit, Quota, Settlement};
use tests::{
    place::{Place, at, now, rules, window_begins},
    poll_once, soon,
};
use tokio::time::sleep;

use super::{free, minute_lasts, ms};

const RATE: u64 = 10;

/// Long enough that nothing comes back by itself while a test looks.
const PER_MS: u64 = 60_000;

/// What a limiter's users see of the permits in use: the free ones, or the wait of a bucket that spaces.
async fn in_use(limiter: &Limiter) -> u64 {
    let free = free(limiter).await;
    let Err(rejection) = limiter.peek(1).await else { return RATE - free };
    let wait = u64::try_from(rejection.retry_after().unwrap().as_millis()).unwrap();
    let name = limiter.name();
    match name.contains("leaky") || name.contains("warming") {
        true => wait.div_ceil(PER_MS / RATE),
        false => RATE - free,
    }
}

/// Runs this with a limiter of each rule of which 5 permits were taken.
async fn each(place: Place, check: impl AsyncFn(&Limiter, Permit)) {
    let limits = place.limits().await;
    minute_lasts(&limits, 15_000).await;
    for (name, _, quota) in rules(RATE, ms(PER_MS)) {
        // A warm-up changes what permits cost, not what comes back.
        if name == "warming" {
            continue;
        }
        let limiter = limits.limiter(name, quota);
        let permit = limiter.acquire(5).await.unwrap();
        assert_eq!((permit.permits(), in_use(&limiter).await), (5, 5), "{name}");
        check(&limiter, permit).await;
    }
}

async fn permits_are_values(place: Place) {
    each(place, async |limiter, permit| {
        let name = limiter.name();
        drop(permit);
        sleep(ms(20)).await;
        assert_eq!(in_use(limiter).await, 5, "{name}: a permit that is dropped is spent");
        limiter.release(5).await.unwrap();

        let permit = limiter.acquire(5).await.unwrap();
        let settled = permit.settle(3).await.unwrap();
        assert_eq!((settled.returned, settled.taken, settled.debt), (2, 0, 0), "{name}");
        assert_eq!(in_use(limiter).await, 3, "{name}: settled for less");
        limiter.release(5).await.unwrap();

        let permit = limiter.acquire(5).await.unwrap();
        let settled = permit.settle(8).await.unwrap();
        assert_eq!((settled.returned, settled.taken, settled.debt), (0, 3, 0), "{name}");
        assert_eq!(in_use(limiter).await, 8, "{name}: settled for more");
        limiter.release(10).await.unwrap();

        let permit = limiter.acquire(5).await.unwrap();
        let back = permit.give_back().await.unwrap();
        // The first slot of a leaky bucket has begun, if time passes.
        assert!(back == 5 || (back == 4 && name == "leaky"), "{name}: {back} given back");
        assert_eq!(in_use(limiter).await, 5 - back, "{name}: given back");
        limiter.release(1).await.unwrap();

        let permit = limiter.acquire(5).await.unwrap();
        permit.record(2);
        permit.record(1);
        assert_eq!(in_use(limiter).await, 5, "{name}: what is recorded is settled in the end");
        drop(permit);
        soon(name, async || in_use(limiter).await == 3).await;
        limiter.release(5).await.unwrap();

        let permit = limiter.acquire(5).await.unwrap();
        permit.record(7);
        drop(permit);
        soon(name, async || in_use(limiter).await == 7).await;
        limiter.release(10).await.unwrap();

        let permit = limiter.acquire(5).await.unwrap();
        permit.record(7);
        assert_eq!(permit.settle(5).await.unwrap(), Settlement::default(), "{name}: as it was");
        assert_eq!(in_use(limiter).await, 5, "{name}");
        limiter.release(5).await.unwrap();

        let permit = limiter.acquire(5).await.unwrap();
        let settled = permit.settle(40).await.unwrap();
        let Settlement { returned, taken, debt, excess, .. } = settled;
        assert_eq!((returned, taken, debt, excess), (0, 5, 10, 20), "{name}: one capacity is owed");
        limiter.delete().await.unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn permits_are_values_embedded() {
    permits_are_values(Place::Embedded).await;
}

#[tokio::test]
async fn permits_are_values_redis() {
    permits_are_values(Place::redis()).await;
}

/// Others' permits stay where they are, also when they are taken in between.
async fn nothing_of_another_call(place: Place) {
    each(place, async |limiter, mine| {
        let name = limiter.name();
        if name.contains("leaky") {
            return;
        }
        let others = limiter.acquire(4).await.unwrap();
        let back = mine.give_back().await.unwrap();
        // A bucket drains meanwhile, and gives back whole permits.
        assert!(back == 5 || (back == 4 && name == "token"), "{name}: {back}");
        assert_eq!(in_use(limiter).await, 9 - back, "{name}");
        let back_too = others.give_back().await.unwrap();
        assert!(back_too == 4 || (back_too == 3 && name == "token"), "{name}: {back_too}");
        assert_eq!(in_use(limiter).await, 9 - back - back_too, "{name}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn nothing_of_another_call_embedded() {
    nothing_of_another_call(Place::Embedded).await;
}

#[tokio::test]
async fn nothing_of_another_call_redis() {
    nothing_of_another_call(Place::redis()).await;
}

/// A call of one permit that fails a moment later leaves the limiter as it was.
async fn one_permit_a_moment_later(place: Place) {
    let limits = place.limits().await;
    for (name, _, quota) in rules(RATE, ms(PER_MS)) {
        // A slot of its own that has begun is not given back in parts.
        if name == "warming" || name == "leaky" {
            continue;
        }
        minute_lasts(&limits, 15_000).await;
        let limiter = limits.limiter(&format!("{name}:one"), quota);
        for _ in 0..3 {
            let permit = limiter.acquire(1).await.unwrap();
            sleep(ms(10)).await;
            permit.give_back().await.unwrap();
            assert_eq!(in_use(&limiter).await, 0, "{name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_permit_a_moment_later_embedded() {
    one_permit_a_moment_later(Place::Embedded).await;
}

#[tokio::test]
async fn one_permit_a_moment_later_redis() {
    one_permit_a_moment_later(Place::redis()).await;
}

async fn once_polled_it_finishes(place: Place) {
    each(place, async |limiter, permit| {
        let name = limiter.name();
        poll_once(pin!(permit.give_back()));
        soon(name, async || in_use(limiter).await <= u64::from(name == "leaky")).await;
        limiter.release(1).await.unwrap();

        let permit = limiter.acquire(5).await.unwrap();
        poll_once(pin!(permit.settle(2)));
        soon(name, async || in_use(limiter).await == 2).await;
        limiter.release(5).await.unwrap();

        let permit = limiter.acquire(5).await.unwrap();
        poll_once(pin!(permit.settle(9)));
        soon(name, async || in_use(limiter).await == 9).await;
        limiter.release(10).await.unwrap();

        poll_once(pin!(limiter.charge(4)));
        soon(name, async || in_use(limiter).await == 4).await;
        limiter.release(10).await.unwrap();

        // One that was never polled does nothing.
        let permit = limiter.acquire(5).await.unwrap();
        drop(permit.give_back());
        sleep(ms(50)).await;
        assert_eq!(in_use(limiter).await, 5, "{name}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn once_polled_it_finishes_embedded() {
    once_polled_it_finishes(Place::Embedded).await;
}

#[tokio::test]
async fn once_polled_it_finishes_redis() {
    once_polled_it_finishes(Place::redis()).await;
}

/// What is free again by itself is not given back a second time. Returns whether the machine was in time
/// for the last permits to be in use still.
async fn window_is_over(limits: &Limits, name: &str, quota: Quota) -> bool {
    let limiter = limits.limiter(name, quota);
    window_begins(limits, 200).await;
    let permit = limiter.acquire(5).await.unwrap();
    let again = limiter.acquire(5).await.unwrap();
    let again_at = at(&again);
    let (returned, settled) = (permit.give_back().await.unwrap(), again.settle(6).await.unwrap());
    assert_eq!(returned, 0, "{name}: its window is over");
    // From then on a bucket has one more, and a window before long.
    let is_in_time = now(limits).await < again_at + 40;
    if is_in_time {
        assert_eq!((settled.taken, settled.debt), (0, 1), "{name}");
    }
    is_in_time
}

async fn nothing_once_its_window_is_over(place: Place) {
    let limits = place.limits().await;
    for (name, _, quota) in rules(5, ms(200)) {
        if name == "warming" {
            continue;
        }
        let mut tries = 0..50;
        while !window_is_over(&limits, &format!("{name}:{}", tries.start), quota).await {
            tries.next().expect("a machine that is in time once");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_once_its_window_is_over_embedded() {
    nothing_once_its_window_is_over(Place::Embedded).await;
}

#[tokio::test]
async fn nothing_once_its_window_is_over_redis() {
    nothing_once_its_window_is_over(Place::redis()).await;
}
