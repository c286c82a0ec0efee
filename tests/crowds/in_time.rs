//! A call that may wait for so long is refused at once if that is not enough, and else never.

use ratelimit_runtime::{Limiter, Quota, RateChange, Reason};
use tests::{
    Random,
    ledger::Rule,
    place::{Place, rules, window_begins},
};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::{SECOND, ms};

/// Every time in these crowds is a multiple of this, and every limit ends between two of them.
const GRAIN_MS: u64 = 200;

/// What comes out of a queue by the definition of its rule. Times are milliseconds since the first
/// caller.
struct Model {
    rule: Rule,
    rate: u64,
    per_ms: u64,
    /// What was admitted.
    log: Vec<(u64, u64)>,
}

impl Model {
    /// The time at which a caller of a time is admitted if it waits for as long as it takes.
    fn due(&self, from: u64, permits: u64) -> u64 {
        let mut at = self.log.last().map_or(from, |(last, _)| from.max(*last));
        while !self.is_free(at, permits) {
            at += GRAIN_MS / 2;
        }
        at
    }

    fn is_free(&self, now: u64, permits: u64) -> bool {
        let used = |counts: &dyn Fn(u64) -> bool| {
            self.log.iter().filter(|(at, _)| counts(*at)).map(|(_, n)| n).sum::<u64>()
        };
        match self.rule {
            Rule::SlidingWindow => used(&|at| at + self.per_ms > now) + permits <= self.rate,
            Rule::FixedWindow => {
                used(&|at| at / self.per_ms == now / self.per_ms) + permits <= self.rate
            }
            Rule::TokenBucket(burst) => {
                self.ticks(now) + permits * self.per_ms <= burst * self.per_ms
            }
            Rule::LeakyBucket => self.ticks(now) == 0,
        }
    }

    /// What is left in the bucket, of which `rate` drain in a millisecond.
    fn ticks(&self, now: u64) -> u64 {
        let (level, last) = self.log.iter().fold((0_u64, 0), |(level, last), (at, n)| {
            (level.saturating_sub((at - last) * self.rate) + n * self.per_ms, *at)
        });
        level.saturating_sub((now - last) * self.rate)
    }
}

/// When a caller comes, what it asks for and for how long it may wait, and what should come of it.
#[derive(Clone, Copy, Debug)]
struct Caller {
    comes: u64,
    permits: u64,
    within: u64,
    due: Option<u64>,
}

fn crowd(rule: Rule, (rate, per_ms): (u64, u64), seed: u64) -> Vec<Caller> {
    let (mut random, mut comes) = (Random::new(seed), 0);
    let mut model = Model { rule, rate, per_ms, log: Vec::new() };
    let caller = |_| {
        comes += random.below(3) * GRAIN_MS;
        let permits = 1 + random.below(rate.min(3));
        let within = random.below(40) * GRAIN_MS + GRAIN_MS / 2 + GRAIN_MS / 4;
        let due = Some(model.due(comes, permits)).filter(|due| *due <= comes + within);
        model.log.extend(due.map(|due| (due, permits)));
        Caller { comes, permits, within, due }
    };
    (0..440).map(caller).collect()
}

/// What came of one caller: when it was admitted or refused, in milliseconds since the first.
async fn run(limiter: Limiter, start: Instant, caller: Caller) -> (bool, u64) {
    sleep_until(start + ms(caller.comes)).await;
    let result = limiter.acquire_timeout(caller.permits, ms(caller.within)).await;
    if let Err(rejection) = &result {
        assert_eq!(rejection.reason(), Reason::WaitTooLong);
    }
    (result.is_ok(), u64::try_from(start.elapsed().as_millis()).unwrap())
}

#[tokio::test(start_paused = true)]
async fn timed_waits_are_refused_at_once_or_kept() {
    for (name, rule, quota) in rules(5, 5 * SECOND) {
        if name == "warming" {
            continue;
        }
        for seed in 1..4 {
            let limits = Place::Embedded.limits().await;
            window_begins(&limits, 5000).await;
            let (limiter, start) = (limits.limiter(name, quota), Instant::now());
            let callers = crowd(rule, (5, 5000), seed);
            let tasks: Vec<_> = callers
                .iter()
                .map(|caller| tokio::spawn(run(limiter.clone(), start, *caller)))
                .collect();
            let (mut late, mut wronged, mut else_wrong) = (0, 0, Vec::new());
            for (caller, task) in callers.iter().zip(tasks) {
                let (admitted, then) = task.await.unwrap();
                match (admitted, caller.due) {
                    (true, Some(due)) if then.abs_diff(due) <= GRAIN_MS / 4 => {}
                    (false, None) if then <= caller.comes + 2 => {}
                    (false, None) => late += 1,
                    (false, Some(_)) => wronged += 1,
                    (true, _) => else_wrong.push((*caller, then)),
                }
            }
            let refused = callers.iter().filter(|caller| caller.due.is_none()).count();
            assert!((40..400).contains(&refused), "{refused} should be refused");
            assert_eq!(
                (late, wronged),
                (0, 0),
                "{name}, seed {seed}: late, refused though possible"
            );
            assert!(else_wrong.is_empty(), "{name}, seed {seed}: {else_wrong:?}");
        }
    }
}

/// A warming bucket has no definition in two lines; what is promised is the same.
#[tokio::test(start_paused = true)]
async fn timed_waits_for_a_warming_bucket_end_at_once_or_well() {
    let [.., (_, _, quota)] = rules(5, 5 * SECOND);
    for seed in 1..4 {
        let limits = Place::Embedded.limits().await;
        let (limiter, start) = (limits.limiter("warming", quota), Instant::now());
        let callers = crowd(Rule::LeakyBucket, (5, 5000), seed);
        let tasks: Vec<_> = callers
            .iter()
            .map(|caller| tokio::spawn(run(limiter.clone(), start, *caller)))
            .collect();
        let mut refused = 0;
        for (caller, task) in callers.iter().zip(tasks) {
            let (admitted, then) = task.await.unwrap();
            refused += u32::from(!admitted);
            assert!(admitted || then <= caller.comes + 2, "seed {seed}: {caller:?} told at {then}");
            assert!(
                then <= caller.comes + caller.within + 1,
                "seed {seed}: {caller:?} went at {then}"
            );
        }
        assert!((40..400).contains(&refused), "{refused} refused");
    }
}

async fn more_than_the_capacity_behind_others(place: Place) {
    let limits = place.limits().await;
    for (name, _, quota) in rules(1, ms(500)) {
        let limiter = limits.limiter(name, quota);
        let waiters: Vec<_> = (0..4)
            .map(|_| {
                let limiter = limiter.clone();
                tokio::spawn(async move { limiter.acquire(1).await.map(drop) })
            })
            .collect();
        sleep(ms(100)).await;
        let start = Instant::now();
        for wait in [None, Some(60 * SECOND)] {
            let call = async {
                match wait {
                    None => limiter.acquire(5).await,
                    Some(wait) => limiter.acquire_timeout(5, wait).await,
                }
            };
            let rejection = timeout(ms(400), call).await.expect("it is known at once").unwrap_err();
            assert_eq!(rejection.reason(), Reason::ExceedsCapacity, "{name}");
            assert_eq!(rejection.retry_after(), None, "{name}");
        }
        if matches!(place, Place::Embedded) {
            assert_eq!(start.elapsed(), ms(0), "{name}");
        }
        waiters.iter().for_each(|waiter| waiter.abort());
    }
}

#[tokio::test(start_paused = true)]
async fn more_than_the_capacity_behind_others_embedded() {
    more_than_the_capacity_behind_others(Place::Embedded).await;
}

#[tokio::test]
async fn more_than_the_capacity_behind_others_redis() {
    more_than_the_capacity_behind_others(Place::redis()).await;
}

#[tokio::test(start_paused = true)]
async fn permits_of_a_fraction_of_a_millisecond_behind_others() {
    let limits = Place::Embedded.limits().await;
    let quota = Quota::new(1500, SECOND).unwrap();
    for (name, quota) in [
        ("leaky", quota.leaky_bucket()),
        ("token", quota.token_bucket(1)),
        ("warming", quota.warming_bucket(ms(1))),
    ] {
        let limiter = limits.limiter(name, quota.unwrap());
        let waiters = [(); 600].map(|()| {
            let limiter = limiter.clone();
            tokio::spawn(async move { limiter.acquire(1).await.map(drop) })
        });
        sleep(ms(10)).await;
        let rejection = limiter.acquire_timeout(1, ms(380)).await.unwrap_err();
        let after = rejection.retry_after().unwrap();
        assert!((ms(389)..=ms(392)).contains(&after), "{name}: {after:?}");
        limiter.acquire_timeout(1, ms(392)).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        for waiter in waiters {
            waiter.await.unwrap().unwrap();
        }
    }
}

fn in_two_seconds(rate: u64, is_fixed: bool) -> Quota {
    let quota = Quota::new(rate, 2 * SECOND).unwrap();
    if is_fixed { quota.fixed_window() } else { quota }
}

/// Callers behind the head of a window waited until their time was over.
async fn a_lower_rate_rejects_those_it_leaves_no_chance(place: Place, from_outside: bool) {
    let (limits, other) = (place.limits().await, place.limits().await);
    for (name, is_fixed) in [("sliding", false), ("fixed", true)] {
        let quota = |rate| in_two_seconds(rate, is_fixed);
        let changing = if from_outside { &other } else { &limits };
        let (limiter, changing) =
            (limits.limiter(name, quota(4)), changing.limiter(name, quota(4)));
        window_begins(&limits, 2000).await;
        limiter.acquire(4).await.unwrap();
        changing.peek(1).await.unwrap_err();
        let start = Instant::now();
        let waiters: Vec<_> = (0..8)
            .map(|_| {
                let limiter = limiter.clone();
                tokio::spawn(async move {
                    let result = limiter.acquire_timeout(1, 7 * SECOND).await;
                    (result.map_err(|rejection| rejection.reason()).map(drop), start.elapsed())
                })
            })
            .collect();
        sleep(ms(100)).await;
        changing.set_rate(RateChange::new(quota(1)).carry()).await.unwrap();
        let by = if from_outside { ms(3000) } else { ms(500) };
        for (n, waiter) in waiters.into_iter().enumerate() {
            let (result, after) = waiter.await.unwrap();
            if n < 3 {
                assert_eq!(result, Ok(()), "{name}: caller {n}");
            } else {
                assert_eq!(result, Err(Reason::WaitTooLong), "{name}: caller {n}");
                assert!(after < by, "{name}: caller {n} after {after:?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lower_rate_rejects_those_it_leaves_no_chance_embedded() {
    a_lower_rate_rejects_those_it_leaves_no_chance(Place::Embedded, false).await;
}

#[tokio::test]
async fn a_lower_rate_rejects_those_it_leaves_no_chance_redis() {
    for from_outside in [false, true] {
        a_lower_rate_rejects_those_it_leaves_no_chance(Place::redis(), from_outside).await;
    }
}

/// The second of them was thought to have no permits for the third caller until 4 s after the turn of the first, in Redis
/// when that caller came, and in both after a change.
async fn the_limit_that_delays_the_first_is_in_the_middle_of_the_window_of_another(place: Place) {
    let yaml = "limiters:
  two: { algorithm: fixed_window, limits: [{ rate: 1, per: 500ms }, { rate: 2, per: 4s }] }
";
    let limits = place.builder().limits_yaml(yaml).build().await.unwrap();
    let limiter = limits.configured("two");
    window_begins(&limits, 4000).await;
    sleep(ms(3050)).await;
    limiter.acquire(1).await.unwrap();
    let waiters = [(); 3].map(|()| {
        let limiter = limiter.clone();
        tokio::spawn(async move { limiter.acquire_timeout(1, 3 * SECOND).await.map(drop) })
    });
    sleep(ms(100)).await;
    limiter.expire(60 * SECOND).await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn in_the_middle_of_the_window_of_another_limit_embedded() {
    the_limit_that_delays_the_first_is_in_the_middle_of_the_window_of_another(Place::Embedded)
        .await;
}

#[tokio::test]
async fn in_the_middle_of_the_window_of_another_limit_redis() {
    the_limit_that_delays_the_first_is_in_the_middle_of_the_window_of_another(Place::redis()).await;
}

/// They take nothing, but the caller behind them was rejected as if they did.
async fn behind_those_that_a_lower_rate_can_never_admit(place: Place) {
    let limits = place.limits().await;
    for (name, is_fixed) in [("sliding", false), ("fixed", true)] {
        let quota = |rate| in_two_seconds(rate, is_fixed);
        let limiter = limits.limiter(name, quota(4));
        window_begins(&limits, 2000).await;
        limiter.acquire(4).await.unwrap();
        let start = |permits, timeout| {
            let limiter = limiter.clone();
            tokio::spawn(async move {
                let result = limiter.acquire_timeout(permits, timeout).await;
                result.map(drop).map_err(|rejection| rejection.reason())
            })
        };
        let mut waiters = Vec::new();
        for permits in [1, 2, 2, 2, 1] {
            waiters.push(start(permits, 7 * SECOND));
            sleep(ms(20)).await;
        }
        limiter.set_rate(RateChange::new(quota(1)).carry()).await.unwrap();
        sleep(ms(200)).await;
        // This one joins behind them.
        waiters.push(start(1, 7 * SECOND));
        for (n, waiter) in waiters.into_iter().enumerate() {
            let result = waiter.await.unwrap();
            if (1..4).contains(&n) {
                assert!(result.is_err(), "{name}: caller {n}");
            } else {
                assert_eq!(result, Ok(()), "{name}: caller {n}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn behind_those_that_a_lower_rate_can_never_admit_embedded() {
    behind_those_that_a_lower_rate_can_never_admit(Place::Embedded).await;
}

#[tokio::test]
async fn behind_those_that_a_lower_rate_can_never_admit_redis() {
    behind_those_that_a_lower_rate_can_never_admit(Place::redis()).await;
}
