//! `charge`: costs that are known only afterwards.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ratelimit_runtime::{
    Algorithm, Limiter, Limits, Quota, Quotas, RateChange, Reason, Rejection, Settlement,
    StoreErrorKind, rate_limit, test_util::ManualClock,
};
use tests::{proxy::Proxy, redis_server::RedisServer};

use super::{SECOND, embedded, free, on_redis, owing, settled_at};

const HOUR: Duration = Duration::from_secs(3_600);
const MS: Duration = Duration::from_millis(1);

fn quota(algorithm: Algorithm, rate: u32, per: Duration) -> Quota {
    let quota = Quota::new(rate.into(), per).unwrap();
    match algorithm {
        Algorithm::TokenBucket => quota.token_bucket(rate.into()).unwrap(),
        Algorithm::FixedWindow => quota.fixed_window(),
        Algorithm::LeakyBucket => quota.leaky_bucket().unwrap(),
        _ => quota,
    }
}

/// Of 10 permits a second 1 is used, and 15 are charged: what is taken, owed and in excess, and
/// when the next call goes.
const OVERDRAWN: [(Algorithm, [u64; 3], u64); 4] = [
    // 9 were free. With the 6 that are owed it takes 7, which are free when the window is.
    (Algorithm::SlidingWindow, [9, 6, 0], 1_000),
    (Algorithm::FixedWindow, [9, 6, 0], 1_000),
    // 7 come back one by one.
    (Algorithm::TokenBucket, [9, 6, 0], 700),
    // The debt has the 6 places after the 9 that were free, and the next call goes behind them.
    (Algorithm::LeakyBucket, [9, 6, 0], 1_600),
];

async fn overdraw(limiter: &Limiter) -> ([u64; 3], SystemTime) {
    let first = limiter.acquire(1).await.unwrap();
    let charge = limiter.charge(15).await.unwrap();
    ([charge.taken, charge.debt, charge.excess], first.at())
}

#[tokio::test]
async fn the_next_call_goes_when_the_debt_and_its_own_permits_are_free() {
    for (algorithm, became, ms) in OVERDRAWN {
        let clock = ManualClock::new();
        let limits = embedded("").clock(clock.clone()).build().await.unwrap();
        let limiter = limits.limiter("x", quota(algorithm, 10, SECOND));
        assert_eq!(overdraw(&limiter).await.0, became, "{algorithm}");
        for passed in 0..ms {
            let rejection = limiter.try_acquire(1).await.expect_err("too early");
            assert_eq!(rejection.reason(), Reason::Limited);
            let told = rejection.retry_after().unwrap();
            assert!(told <= (ms - passed) as u32 * MS, "{algorithm}: {told:?} after {passed} ms");
            assert!(limiter.peek(1).await.is_err(), "{algorithm} after {passed} ms");
            clock.advance(MS);
        }
        assert!(limiter.peek(1).await.is_ok(), "{algorithm}");
        limiter.try_acquire(1).await.unwrap();
        assert_eq!(owing(&limiter).await, 0, "{algorithm}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_redis_too_by_the_time_of_the_server() {
    let server = RedisServer::start();
    for (algorithm, became, ms) in OVERDRAWN {
        let limits = on_redis(&server, "").build().await.unwrap();
        let limiter = limits.limiter(&algorithm.to_string(), quota(algorithm, 10, SECOND));
        limiter.peek(1).await.unwrap();
        if algorithm == Algorithm::FixedWindow {
            // All of it within one window.
            let passed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_millis();
            tokio::time::sleep(SECOND - passed * MS + 5 * MS).await;
        }
        let (is, started) = overdraw(&limiter).await;
        assert_eq!(is, became, "{algorithm}");
        assert_eq!(limiter.try_acquire(1).await.unwrap_err().reason(), Reason::Limited);
        let next = limiter.acquire(1).await.unwrap().at().duration_since(started).unwrap();
        let least = match algorithm {
            Algorithm::FixedWindow => {
                ms - started.duration_since(UNIX_EPOCH).unwrap().subsec_millis() as u64
            }
            _ => ms,
        };
        let (least, most) = (least as u32 * MS, (least + 400) as u32 * MS);
        assert!(least <= next && next < most, "{algorithm}: {next:?}, not {least:?}");
        assert_eq!(owing(&limiter).await, 0, "{algorithm}");
    }
}

#[tokio::test]
async fn what_is_free_is_taken_and_what_cannot_be_owed_is_said() {
    let server = RedisServer::start();
    for limits in [embedded(""), on_redis(&server, "")] {
        let limits = limits.build().await.unwrap();
        let limiter = limits.limiter("x", Quota::new(10, HOUR).unwrap());
        let mut total = 0;
        for (permits, became, left) in [
            (0, [0, 0, 0], 10),
            (4, [4, 0, 0], 6),
            (7, [6, 1, 0], 0),
            (0, [0, 1, 0], 0),
            (5, [0, 6, 0], 0),
            (9, [0, 10, 5], 0),
            (u64::from(u32::MAX) + 1, [0, 10, u64::from(u32::MAX) + 1], 0),
        ] {
            let charge = limiter.charge(permits).await.unwrap();
            assert_eq!([charge.taken, charge.debt, charge.excess], became, "of {permits}");
            assert_eq!(free(&limiter).await, left);
            total += charge.taken;
        }
        assert_eq!(total, 10);
        // What is given back pays first.
        assert_eq!((limiter.release(4).await.unwrap(), owing(&limiter).await), (4, 6));
        assert_eq!(free(&limiter).await, 0);
        assert_eq!((limiter.release(9).await.unwrap(), owing(&limiter).await), (9, 0));
        assert_eq!(free(&limiter).await, 3);
    }
}

#[tokio::test]
async fn whoever_waits_pays_first() {
    let clock = ManualClock::new();
    let limits = embedded("").clock(clock.clone()).build().await.unwrap();
    let limiter = limits.limiter("x", Quota::new(10, SECOND).unwrap());
    limiter.acquire(6).await.unwrap();
    clock.advance(SECOND / 2);
    limiter.acquire(4).await.unwrap();
    let waiting = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.acquire(1).await.unwrap() }
    });
    tokio::time::sleep(10 * MS).await;
    assert_eq!(limiter.charge(8).await.unwrap().debt, 8);
    clock.advance(SECOND / 2);
    tokio::time::sleep(10 * MS).await;
    assert!(!waiting.is_finished(), "6 are free, and pay");
    assert_eq!((owing(&limiter).await, free(&limiter).await), (2, 0));
    clock.advance(SECOND / 2);
    assert_eq!(waiting.await.unwrap().remaining(), 1);
    assert_eq!(owing(&limiter).await, 0);
}

/// The reply was that of the limit with the fewest free permits, so what another limit did not charge was not reported, nor
/// what was owed there.
#[tokio::test]
async fn of_several_limits_the_one_that_charged_least_is_reported() {
    let server = RedisServer::start();
    let window = 200 * MS;
    let both = [Quota::new(10, window).unwrap(), Quota::new(20, HOUR).unwrap()];
    for limits in [embedded(""), on_redis(&server, "")] {
        let limits = limits.build().await.unwrap();
        let limiter = limits.limiter("x", Quotas::new(both).unwrap());
        for permits in [10, 8] {
            limiter.acquire(permits).await.unwrap();
            tokio::time::sleep(window).await;
        }
        let charged = limiter.charge(50).await.unwrap();
        let of_window = (charged.taken, charged.debt, charged.excess);
        assert_eq!(of_window, (10, 10, 30), "28 of the hour are in excess");
        // The permits that are taken, and then the debt, become free again.
        tokio::time::sleep(2 * window).await;
        assert_eq!(owing(&limiter).await, 20, "in the hour");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_that_share_a_call_pay_once() {
    let server = RedisServer::start();
    let limits = on_redis(&server, "").build().await.unwrap();
    let limiter = limits.limiter("x", Quota::new(100, HOUR).unwrap());
    let elsewhere = on_redis(&server, "").build().await.unwrap();
    let elsewhere = elsewhere.limiter("x", Quota::new(100, HOUR).unwrap());
    elsewhere.acquire(100).await.unwrap();
    assert_eq!(limiter.charge(30).await.unwrap().debt, 30);
    assert_eq!(owing(&elsewhere).await, 30, "every process pays it");
    assert_eq!(elsewhere.release(50).await.unwrap(), 50);
    let callers: Vec<_> = (0..60)
        .map(|_| {
            let limiter = limiter.clone();
            tokio::spawn(async move { limiter.try_acquire(1).await.is_ok() })
        })
        .collect();
    let mut admitted = 0;
    for caller in callers {
        admitted += u32::from(caller.await.unwrap());
    }
    assert_eq!((admitted, owing(&limiter).await, free(&limiter).await), (20, 0, 0));
}

#[tokio::test]
async fn a_debt_is_forgotten_with_what_is_in_use() {
    let limits = embedded("").build().await.unwrap();
    let quota = Quota::new(5, HOUR).unwrap();
    let limiter = limits.limiter("x", quota);
    let owes = async || {
        limiter.charge(5).await.unwrap();
        assert_eq!(limiter.charge(3).await.unwrap().debt, 3);
    };
    owes().await;
    limiter.delete().await.unwrap();
    assert_eq!(owing(&limiter).await, 0);
    assert_eq!(limiter.try_acquire(5).await.unwrap().remaining(), 0);
    limiter.delete().await.unwrap();
    owes().await;
    assert!(limiter.update_rate(RateChange::new(quota).carry()).await.unwrap());
    assert_eq!(owing(&limiter).await, 3);
    limiter.set_rate(quota).await.unwrap();
    assert_eq!(owing(&limiter).await, 0);
    assert_eq!(limiter.try_acquire(5).await.unwrap().remaining(), 0);
}

#[tokio::test]
async fn a_debt_of_more_than_a_smaller_quota_is_paid_in_parts() {
    let clock = ManualClock::new();
    let limits = embedded("").clock(clock.clone()).build().await.unwrap();
    let limiter = limits.limiter("x", Quota::new(10, SECOND).unwrap());
    limiter.charge(20).await.unwrap();
    let smaller = Quota::new(4, SECOND).unwrap();
    limiter.update_rate(RateChange::new(smaller).carry()).await.unwrap();
    let mut owed = Vec::new();
    while limiter.try_acquire(1).await.is_err() {
        owed.push(owing(&limiter).await);
        clock.advance(SECOND);
    }
    assert_eq!(owed, [10, 6, 2], "the window of 10, then 4, then 4");
    assert_eq!((owing(&limiter).await, free(&limiter).await), (0, 1));
    assert_eq!(limiter.try_acquire(5).await.unwrap_err().reason(), Reason::ExceedsCapacity);
}

#[tokio::test]
async fn limiters_that_count_nothing_or_refuse_nobody() {
    let yaml = "limiters:\n  off: { enabled: false }\n  shadow: { shadow: true }\n  own: { mode: per_client }\n  closed: { rate: 0 }\n";
    let limits = embedded(yaml).build().await.unwrap();
    let quota = Quota::new(5, HOUR).unwrap();
    let charge = limits.limiter("off", quota).charge(9).await.unwrap();
    assert_eq!((charge.taken, charge.debt, charge.excess), (0, 0, 0));
    let shadow = limits.limiter("shadow", quota);
    let charge = shadow.charge(9).await.unwrap();
    assert_eq!((charge.taken, charge.debt), (5, 4));
    assert!(shadow.acquire(1).await.unwrap().shadowed().is_some());
    assert!(shadow.peek(1).await.unwrap().shadowed().is_some());
    assert_eq!(owing(&shadow).await, 4);
    let own = limits.limiter("own", quota);
    let charge = own.charge(9).await.unwrap();
    assert_eq!((charge.taken, charge.debt, owing(&own).await), (5, 4, 4));
    assert!(own.peek(1).await.is_err());
    let closed = limits.limiter("closed", Quota::new(5, HOUR).unwrap());
    let charge = closed.charge(9).await.unwrap();
    assert_eq!((charge.taken, charge.debt, charge.excess), (0, 0, 9), "no rate pays it");
    let error = limits.configured("unheard of").charge(1).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert!(error.to_string().starts_with("rate limit `unheard of` has no quota"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_store_is_away_a_charge_fails_or_is_counted_here() {
    let server = RedisServer::start();
    for policy in ["reject", "allow", "local"] {
        let proxy = Proxy::start(server.port());
        let yaml =
            format!("limiters:\n  {policy}: {{ rate: 10, per: 1h, on_store_error: {policy} }}\n");
        let builder = Limits::builder().redis(proxy.url()).limits_yaml(yaml);
        let limits = builder.deadline(Duration::from_millis(500)).build().await.unwrap();
        let limiter = limits.configured(policy);
        limiter.acquire(1).await.unwrap();
        proxy.cut();
        let charge = limiter.charge(4).await;
        match policy {
            "local" => assert_eq!(charge.unwrap().taken, 4),
            _ => assert_eq!(charge.unwrap_err().kind(), StoreErrorKind::Unavailable, "{policy}"),
        }
        match policy {
            "reject" => assert_eq!(
                limiter.try_acquire(1).await.unwrap_err().reason(),
                Reason::StoreUnavailable
            ),
            _ => assert!(limiter.try_acquire(1).await.unwrap().is_degraded()),
        }
        proxy.restore();
        while limiter.available_permits().await.is_err() {
            tokio::time::sleep(10 * MS).await;
        }
        let paid = limiter.try_acquire(2).await.unwrap();
        // What was counted here, the 4 that were charged and 1, is charged to the store.
        let left = if policy == "local" { 2 } else { 7 };
        assert_eq!((paid.remaining(), owing(&limiter).await), (left, 0), "{policy}");
    }
}

/// A generator of numbers that are as good as random here.
fn next(seed: &mut u64, below: u32) -> u32 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) as u32 % below
}

#[tokio::test]
async fn in_the_long_run_the_quota_holds() {
    for (algorithm, ..) in OVERDRAWN {
        for mut seed in 0..20 {
            let clock = ManualClock::new();
            let limits = embedded("").clock(clock.clone()).build().await.unwrap();
            let limiter = limits.limiter("x", quota(algorithm, 10, SECOND));
            let (mut spent, mut ms) = (0, 0);
            for _ in 0..400 {
                let permits = next(&mut seed, 4);
                if next(&mut seed, 3) == 0 {
                    let charge = limiter.charge((permits * 4).into()).await.unwrap();
                    spent += u64::from(permits * 4) - charge.excess;
                } else if limiter.try_acquire((permits + 1).into()).await.is_ok() {
                    spent += u64::from(permits + 1);
                }
                let step = next(&mut seed, 300);
                clock.advance(step * MS);
                ms += u64::from(step);
            }
            let paid = spent - owing(&limiter).await;
            let most = 10 * (ms.div_ceil(1_000) + 1);
            assert!(paid <= most, "{algorithm} with {seed}: {paid} of {most}");
            assert!(paid > most / 2, "{algorithm} with {seed}: {paid} of {most}");
        }
    }
}

#[tokio::test]
async fn of_several_limits_the_one_that_has_the_least_is_reported() {
    let server = RedisServer::start();
    for limits in [embedded(""), on_redis(&server, "")] {
        let limits = limits.build().await.unwrap();
        let [minute, hour] =
            [(2, SECOND * 60), (100, HOUR)].map(|(n, per)| Quota::new(n, per).unwrap());
        let limiter = limits.limiter("x", Quotas::new([minute, hour]).unwrap());
        limiter.acquire(2).await.unwrap();
        let charge = limiter.charge(1).await.unwrap();
        assert_eq!([charge.taken, charge.debt, charge.excess], [0, 1, 0]);
    }
}

#[tokio::test]
async fn a_permit_is_settled_as_long_as_its_limits_or_a_limiter_exist() {
    let limits = embedded("").build().await.unwrap();
    let limiter = limits.limiter("x", Quota::new(5, HOUR).unwrap());
    let (one, other) = (limiter.acquire(2).await.unwrap(), limiter.acquire(2).await.unwrap());
    drop(limits);
    assert_eq!(one.give_back().await.unwrap(), 2);
    assert_eq!(free(&limiter).await, 3);

    drop(limiter);
    let error = other.settle(1).await.unwrap_err();
    assert_eq!(error.to_string(), "rate limits are shut down");
}

#[rate_limit(key = "estimated", rate = 10, per = "1h", wait = "none", permits = estimate,
    actual = |result: &Result<u64, Rejection>| result.as_ref().ok().copied())]
async fn estimated(estimate: u64, used: u64) -> Result<u64, Rejection> {
    Ok(used)
}

#[tokio::test]
async fn a_call_that_was_estimated_at_nothing_pays_what_it_used() {
    let server = RedisServer::start();
    for limits in [embedded(""), on_redis(&server, "")] {
        let limits = limits.build().await.unwrap();
        let limiter = limits.limiter("x", Quota::new(10, HOUR).unwrap());
        let settled = limiter.acquire(0).await.unwrap().settle(4).await.unwrap();
        assert_eq!((settled.taken, free(&limiter).await), (4, 6));
        let kept = limiter.acquire(0).await.unwrap();
        assert_eq!((kept.permits(), kept.settle(0).await.unwrap()), (0, Settlement::default()));

        let permit = limiter.acquire(0).await.unwrap();
        permit.record(2);
        permit.record(1);
        drop(permit);
        settled_at(&limiter, 3).await;

        limits.scope(estimated(0, 7)).await.unwrap();
        settled_at(&limits.limiter("estimated", Quota::new(10, HOUR).unwrap()), 3).await;
    }
}

#[tokio::test]
async fn a_debt_is_paid_although_the_rule_changes_and_no_call_comes() {
    let server = RedisServer::start();
    for limits in [embedded(""), on_redis(&server, "")] {
        let limits = limits.build().await.unwrap();
        for rule in [Algorithm::FixedWindow, Algorithm::TokenBucket, Algorithm::LeakyBucket] {
            let limiter = limits.limiter(&rule.to_string(), Quota::new(2, 300 * MS).unwrap());
            assert_eq!(limiter.charge(4).await.unwrap().debt, 2);
            let to = RateChange::new(quota(rule, 2, 300 * MS)).carry();
            assert!(limiter.update_rate(to).await.unwrap());
            // One window pays it, and the next one frees the permits.
            tokio::time::sleep(SECOND).await;
            assert_eq!(free(&limiter).await, 2, "{rule}");
            limiter.try_acquire(1).await.unwrap();
        }
    }
}
