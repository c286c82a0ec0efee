//! `Limiter::and`: from both or from neither.

use ratelimit_runtime::{Limiter, Mode, Quota, RateChange, Reason, Settings};
use tests::place::{Place, rules};
use tokio::time::{sleep, timeout};

use super::{SECOND, free, minute_lasts, ms};

async fn free_of(all: [&Limiter; 2]) -> [u64; 2] {
    [free(all[0]).await, free(all[1]).await]
}

async fn all_or_nothing(place: Place) {
    let limits = place.limits().await;
    let quotas = rules(4, ms(60_000));
    for (first, _, one) in &quotas[..3] {
        for (second, _, other) in &quotas[..3] {
            let one = limits.limiter(&format!("one:{first}:{second}"), *one);
            let other = limits.limiter(&format!("other:{first}:{second}"), *other);
            let both = one.clone().and(other.clone());
            let name = format!("{first} and {second}");
            minute_lasts(&limits, 5000).await;

            let permit = both.acquire(3).await.unwrap();
            assert_eq!((permit.permits(), permit.parts().len()), (3, 2), "{name}");
            assert_eq!(free_of([&one, &other]).await, [1, 1], "{name}");
            let back = permit.give_back().await.unwrap();
            assert!(back == 3 || name == "token and token", "{name}: {back}");
            // A bucket drains meanwhile, and gives back whole permits.
            let after = free_of([&one, &other]).await;
            for (algorithm, free) in [first, second].iter().zip(after) {
                assert!(free == 4 || (free == 3 && **algorithm == "token"), "{name}: {after:?}");
            }
            both.release(1).await.unwrap();

            other.acquire(2).await.unwrap();
            let rejection = both.try_acquire(3).await.unwrap_err();
            assert_eq!(rejection.reason(), Reason::Limited, "{name}");
            assert_eq!(rejection.limiter(), other.name(), "{name}");
            assert_eq!(free_of([&one, &other]).await, [4, 2], "{name}: neither");

            // While it waits for one, it holds nothing of the other.
            let waiting = tokio::spawn({
                let both = both.clone();
                async move { both.acquire(3).await.map(|permit| permit.permits()) }
            });
            sleep(ms(60)).await;
            assert_eq!(free_of([&one, &other]).await, [4, 2], "{name}: while it waits");
            other.release(2).await.unwrap();
            assert_eq!(waiting.await.unwrap().unwrap(), 3, "{name}");
            assert_eq!(free_of([&one, &other]).await, [1, 1], "{name}");

            both.release(1).await.unwrap();
            let permit = both.acquire(2).await.unwrap();
            let settled = permit.settle(0).await.unwrap();
            assert!(settled.returned == 2 || name == "token and token", "{name}: {settled:?}");
            let after = free_of([&one, &other]).await;
            for (algorithm, free) in [first, second].iter().zip(after) {
                assert!(free == 2 || (free == 1 && **algorithm == "token"), "{name}: {after:?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn all_or_nothing_embedded() {
    all_or_nothing(Place::Embedded).await;
}

#[tokio::test]
async fn all_or_nothing_redis() {
    all_or_nothing(Place::redis()).await;
}

/// A call that waits for both keeps no other caller from the limiter that is free.
async fn others_go_ahead(place: Place) {
    let limits = place.limits().await;
    let ([.., (_, _, minute)], [.., (_, _, short)]) = (rules(1, ms(60_000)), rules(1, ms(100)));
    for (name, _, quota) in rules(10, ms(300)) {
        let (often, rare) =
            (limits.limiter(name, quota), limits.limiter(&format!("rare:{name}"), minute));
        rare.acquire(1).await.unwrap();
        let both = often.clone().and(rare.clone());
        let waiting = tokio::spawn(async move { both.acquire(1).await.map(drop) });
        sleep(ms(30)).await;
        let others = async {
            for _ in 0..3 {
                often.acquire(1).await.unwrap();
            }
        };
        let patience = match place {
            Place::Embedded => ms(800),
            Place::Redis(_) => 20 * SECOND,
        };
        let others = timeout(patience, others).await;
        assert!(others.is_ok(), "{name}: others wait for the call that waits for both");
        assert!(!waiting.is_finished(), "{name}: both, before the rare one is free");
        assert!(rare.update_rate(RateChange::new(short)).await.unwrap());
        timeout(20 * SECOND, waiting).await.expect("the rare one is free").unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn others_go_ahead_embedded() {
    others_go_ahead(Place::Embedded).await;
}

#[tokio::test]
async fn others_go_ahead_redis() {
    others_go_ahead(Place::redis()).await;
}

/// Another process lets each process count one of the limiters by itself, which the next call of both learns.
async fn a_mode_changes(place: Place) {
    let (limits, other) = (place.limits().await, place.limits().await);
    let other = if let Place::Embedded = place { &limits } else { &other };
    let [ten, two] = [10, 2].map(|rate| Quota::new(rate, ms(3_600_000)).unwrap());
    for (permits, left) in [(2, [7, 0]), (3, [9, 2])] {
        let (name, own_name) = (format!("shared:{permits}"), format!("own:{permits}"));
        let (shared, own) = (limits.limiter(&name, ten), limits.limiter(&own_name, two));
        let both = shared.clone().and(own.clone());
        both.try_acquire(1).await.unwrap();
        let to = RateChange::new(two).mode(Mode::PerClient);
        other.configured(&own_name).set_rate(to).await.unwrap();
        let granted = both.try_acquire(permits).await;
        assert_eq!(free_of([&shared, &own]).await, left);
        assert_eq!(free(&other.configured(&name)).await, left[0], "the store has it");
        if permits == 2 {
            granted.unwrap().give_back().await.unwrap();
            assert_eq!(free_of([&shared, &own]).await, [9, 2]);
        } else {
            let rejection = granted.unwrap_err();
            assert_eq!(rejection.reason(), Reason::ExceedsCapacity);
            assert_eq!(rejection.limiter(), own_name);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_mode_changes_embedded() {
    a_mode_changes(Place::Embedded).await;
}

#[tokio::test]
async fn a_mode_changes_redis() {
    a_mode_changes(Place::redis()).await;
}

/// A slot of a leaky bucket cannot be put back later. So a call takes none if another limiter rejects it, in any order
/// of a limiter of the store and one of this process.
async fn no_slot_is_lost(place: Place) {
    let limits = place.limits().await;
    let [slots, one] = [4, 1].map(|rate| Quota::new(rate, ms(3_600_000)).unwrap());
    let slots = slots.leaky_bucket().unwrap();
    let modes = [Mode::Overall, Mode::PerClient];
    for (mode, other) in [(modes[0], modes[1]), (modes[1], modes[0])] {
        for slots_first in [true, false] {
            let name = format!("{mode:?}:{slots_first}");
            let spaced = Settings::new(slots).mode(mode);
            let spaced = limits.limiter(&format!("spaced:{name}"), spaced);
            let used_up = Settings::new(one).mode(other);
            let used_up = limits.limiter(&format!("used-up:{name}"), used_up);
            used_up.try_acquire(1).await.unwrap();
            let both = match slots_first {
                true => spaced.clone().and(used_up),
                false => used_up.and(spaced.clone()),
            };
            assert_eq!(both.try_acquire(1).await.unwrap_err().reason(), Reason::Limited, "{name}");
            assert_eq!(free(&spaced).await, 4, "{name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_slot_is_lost_embedded() {
    no_slot_is_lost(Place::Embedded).await;
}

#[tokio::test]
async fn no_slot_is_lost_redis() {
    no_slot_is_lost(Place::redis()).await;
}

/// A call of a limiter of the store and one of this process, in any order: the longest wait of all.
async fn the_longest_wait_counts(place: Place) {
    let limits = place.limits().await;
    let [short, long] = [60_000, 3_600_000].map(|per| Quota::new(1, ms(per)).unwrap());
    let modes = [Mode::Overall, Mode::PerClient];
    for (mode, other) in [(modes[0], modes[1]), (modes[1], modes[0])] {
        for short_first in [true, false] {
            let name = format!("{mode:?}:{short_first}");
            let limiter =
                |name: String, quota, mode| limits.limiter(&name, Settings::new(quota).mode(mode));
            let short = limiter(format!("short:{name}"), short, mode);
            let long = limiter(format!("long:{name}"), long, other);
            short.try_acquire(1).await.unwrap();
            long.try_acquire(1).await.unwrap();
            let both = match short_first {
                true => short.clone().and(long),
                false => long.and(short.clone()),
            };
            for _ in 0..2 {
                let rejections = [
                    both.try_acquire(1).await.unwrap_err(),
                    both.acquire_timeout(1, ms(120_000)).await.unwrap_err(),
                    both.peek(1).await.unwrap_err(),
                ];
                for rejection in rejections {
                    let after = rejection.retry_after().unwrap();
                    assert!(after > ms(3_500_000), "{name}: {rejection}");
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_longest_wait_counts_embedded() {
    the_longest_wait_counts(Place::Embedded).await;
}

#[tokio::test]
async fn the_longest_wait_counts_redis() {
    the_longest_wait_counts(Place::redis()).await;
}
