//! Callers that hang up while they wait cost the others next to nothing.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use ratelimit_runtime::{Limiter, Limits, Quota};
use tests::place::{Place, at, rules};
use tokio::time::{Instant, sleep, timeout};

use super::{SECOND, ms};

/// Buckets that hand out one permit after the other.
fn buckets(rate: u64) -> [(&'static str, Quota); 2] {
    let quota = Quota::new(rate, SECOND).unwrap();
    [("leaky", quota.leaky_bucket().unwrap()), ("token", quota.token_bucket(1).unwrap())]
}

/// How long after it asked a caller is admitted, by the store's clock as far as that is known.
async fn next_after(limiter: &Limiter) -> u64 {
    let asked = Instant::now();
    let permit = limiter.acquire(1).await.unwrap();
    let waited = u64::try_from(asked.elapsed().as_millis()).unwrap();
    // A reservation is used at the time of its slot, or when its caller comes.
    let late = tests::place::since_1970(std::time::SystemTime::now()).saturating_sub(at(&permit));
    waited.saturating_sub(if waited > 20 { late.min(waited) } else { 0 })
}

async fn a_call_every_5_ms_each_gone_after_50(place: Place) {
    let limits = place.limits().await;
    for (name, quota) in buckets(10) {
        let (limiter, served) = (limits.limiter(name, quota), Arc::new(AtomicU64::new(0)));
        let end = Instant::now() + 2 * SECOND;
        let mut callers = Vec::new();
        while Instant::now() < end {
            let (limiter, served) = (limiter.clone(), Arc::clone(&served));
            callers.push(tokio::spawn(async move {
                if let Ok(permit) = timeout(ms(50), limiter.acquire(1)).await {
                    permit.unwrap();
                    served.fetch_add(1, Ordering::Relaxed);
                }
            }));
            sleep(ms(5)).await;
        }
        for caller in callers {
            caller.await.unwrap();
        }
        let served = served.load(Ordering::Relaxed);
        assert!((17..=22).contains(&served), "{name}: {served} served");
        let next = next_after(&limiter).await;
        assert!(next <= 200 + place.slack_ms(), "{name}: the next caller waits for {next} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_every_5_ms_each_gone_after_50_embedded() {
    a_call_every_5_ms_each_gone_after_50(Place::Embedded).await;
}

#[tokio::test]
async fn a_call_every_5_ms_each_gone_after_50_redis() {
    a_call_every_5_ms_each_gone_after_50(Place::redis()).await;
}

async fn a_thousand_callers_hang_up(place: Place) {
    let limits = place.limits().await;
    // Connects: a queue reserves as far ahead as its round trips take.
    limits.limiter("elsewhere", Quota::new(1, SECOND).unwrap()).acquire(1).await.unwrap();
    for (name, quota) in buckets(10) {
        for pause in [0, 150] {
            let limiter = limits.limiter(&format!("{name}:{pause}"), quota);
            let wait = |limiter: Limiter| async move { limiter.acquire(1).await.map(drop) };
            let callers: Vec<_> = (0..1000).map(|_| tokio::spawn(wait(limiter.clone()))).collect();
            sleep(ms(300)).await;
            callers.iter().for_each(|caller| caller.abort());
            sleep(ms(pause)).await;
            let next = next_after(&limiter).await;
            assert!(next <= 200 + place.slack_ms(), "{name}, {pause} ms later: after {next} ms");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_callers_hang_up_embedded() {
    a_thousand_callers_hang_up(Place::Embedded).await;
}

#[tokio::test]
async fn a_thousand_callers_hang_up_redis() {
    a_thousand_callers_hang_up(Place::redis()).await;
}

/// The permits of a loop that drops its call and makes a new one every 5 ms, for 1.9 s from its first permit.
async fn renewed(limits: &Limits, name: &str, quota: Quota) -> u64 {
    let limiter = limits.limiter(name, quota);
    limiter.acquire(1).await.unwrap();
    let (mut permits, end) = (1, Instant::now() + ms(1900));
    while Instant::now() < end {
        tokio::select! {
            biased;
            permit = limiter.acquire(1) => {
                permit.unwrap();
                permits += 1;
            }
            () = sleep(ms(5)) => {}
        }
    }
    permits
}

async fn a_loop_that_renews_its_call(place: Place) {
    let limits = place.limits().await;
    let window = Quota::new(10, SECOND).unwrap();
    let [(leaky_name, leaky), (token_name, token)] = buckets(10);
    let (window, leaky, token) = tokio::join!(
        renewed(&limits, "window", window),
        renewed(&limits, leaky_name, leaky),
        renewed(&limits, token_name, token),
    );
    // A machine on which a round trip takes 5 ms and more loses calls of each alike.
    assert!(window <= 20 && (matches!(place, Place::Redis(_)) || window == 20), "{window}");
    for (name, permits) in [("leaky", leaky), ("token", token)] {
        assert!((window - 1..=21).contains(&permits), "{name}: {permits} beside {window}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_renews_its_call_embedded() {
    a_loop_that_renews_its_call(Place::Embedded).await;
}

#[tokio::test]
async fn a_loop_that_renews_its_call_redis() {
    a_loop_that_renews_its_call(Place::redis()).await;
}

async fn forty_callers_with_half_a_second(place: Place) {
    let limits = place.limits().await;
    for (name, quota) in buckets(20) {
        let admitted = Arc::new(AtomicU64::new(0));
        let end = Instant::now() + 6 * SECOND;
        let caller = |_| {
            let (limiter, admitted) = (limits.limiter(name, quota), Arc::clone(&admitted));
            tokio::spawn(async move {
                while Instant::now() < end {
                    if let Ok(permit) = timeout(ms(500), limiter.acquire(1)).await {
                        permit.unwrap();
                        admitted.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        };
        for caller in (0..40).map(caller).collect::<Vec<_>>() {
            caller.await.unwrap();
        }
        let admitted = admitted.load(Ordering::Relaxed);
        // The last calls end half a second later.
        assert!((110..=132).contains(&admitted), "{name}: {admitted}");
    }
}

#[tokio::test(start_paused = true)]
async fn forty_callers_with_half_a_second_embedded() {
    forty_callers_with_half_a_second(Place::Embedded).await;
}

#[tokio::test]
async fn forty_callers_with_half_a_second_redis() {
    forty_callers_with_half_a_second(Place::redis()).await;
}

/// Of every rule: callers that hang up leave all permits to the next ones.
async fn hanging_up_spends_nothing(place: Place) {
    let limits = place.limits().await;
    for (name, _, quota) in rules(5, ms(500)) {
        let limiter = limits.limiter(name, quota);
        let callers = (0..40_u64).map(|n| {
            let limiter = limiter.clone();
            tokio::spawn(async move {
                let call = limiter.acquire(1 + n % 5);
                let _ = timeout(ms(1 + n * 7 % 90), call).await.map(Result::unwrap);
            })
        });
        for caller in callers.collect::<Vec<_>>() {
            caller.await.unwrap();
        }
        sleep(ms(1700)).await;
        let free = limiter.available_permits().await.unwrap();
        assert_eq!(free, 5, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn hanging_up_spends_nothing_embedded() {
    hanging_up_spends_nothing(Place::Embedded).await;
}

#[tokio::test]
async fn hanging_up_spends_nothing_redis() {
    hanging_up_spends_nothing(Place::redis()).await;
}

/// A queue that was left keeps what it reserved for a moment. Those who come then do not go all at
/// once: a leaky bucket spaces them by the clock, not by slots of the past.
#[tokio::test(start_paused = true)]
async fn slots_that_were_missed_are_not_used_in_a_bunch() {
    let limits = Place::Embedded.limits().await;
    let limiter =
        limits.limiter("missed", Quota::new(1000, SECOND).unwrap().leaky_bucket().unwrap());
    let wait = |limiter: Limiter| async move { limiter.acquire(1).await.map(drop) };
    let callers: Vec<_> = (0..100).map(|_| tokio::spawn(wait(limiter.clone()))).collect();
    sleep(ms(20)).await;
    callers.iter().for_each(|caller| caller.abort());
    sleep(ms(50)).await;
    let (start, mut went) = (Instant::now(), Vec::new());
    for _ in 0..20 {
        limiter.acquire(1).await.unwrap();
        went.push(u64::try_from(start.elapsed().as_millis()).unwrap());
    }
    let same = went.windows(2).filter(|pair| pair[0] == pair[1]).count();
    assert!(same <= 1, "{went:?}");
}

/// A caller that hangs up as it is admitted leaves its permit to the next one, of any process.
async fn hanging_up_when_admitted_spends_nothing(place: Place) {
    let (limits, elsewhere) = (place.limits().await, place.limits().await);
    let [_, (name, quota)] = buckets(1);
    let limiter = limits.limiter(name, quota);
    limiter.acquire(1).await.unwrap();
    let mut call = Box::pin(limiter.acquire(1));
    assert!(timeout(ms(500), call.as_mut()).await.is_err(), "it waits");
    // It is admitted, and does not read that.
    sleep(ms(600)).await;
    drop(call);
    sleep(ms(150)).await;
    let next = match place {
        Place::Embedded => limiter,
        Place::Redis(_) => elsewhere.limiter(name, quota),
    };
    next.try_acquire(1).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn hanging_up_when_admitted_spends_nothing_embedded() {
    hanging_up_when_admitted_spends_nothing(Place::Embedded).await;
}

#[tokio::test]
async fn hanging_up_when_admitted_spends_nothing_redis() {
    hanging_up_when_admitted_spends_nothing(Place::redis()).await;
}
