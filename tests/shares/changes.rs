//! What changes while a process counts by itself, and what that means once the store is back.

use tests::{limits_file::LimitsFile, soon};

use super::*;

/// Opens the limits of a process with this limits file.
async fn process_with(file: &LimitsFile, url: String) -> Limits {
    let builder = Limits::builder().redis(url).limits_file(file.path());
    builder.deadline(DEADLINE).build().await.unwrap()
}

/// Half an hour of its own share was left, so it looked again after three minutes.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_for_its_share_is_admitted_once_the_store_is_back() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let limits = process(&proxy.url(), Some(2)).await;
    proxy.cut();
    notice_outage(&limits).await;
    let mut waiting = JoinSet::new();
    for (name, quota) in all_rules() {
        let limiter = limits.limiter(name, quota);
        assert_eq!(admitted_of(&limiter, 10).await, 5, "{name}");
        waiting.spawn(async move { limiter.acquire(1).await.unwrap().is_degraded() });
    }
    tokio::time::sleep(SECOND / 2).await;
    assert!(waiting.try_join_next().is_none(), "no share has more");
    proxy.restore();
    for _ in all_rules() {
        let joined = tokio::time::timeout(20 * SECOND, waiting.join_next()).await;
        assert!(!joined.expect("a call still waits").unwrap().unwrap());
    }
}

/// The old quotas applied until the store was back: 98 calls of `lower` were admitted, and 3 of `higher`.
#[tokio::test(flavor = "multi_thread")]
async fn a_reload_applies_to_the_shares_of_an_outage() {
    let yaml = |lower, higher| {
        format!(
            "limiters:\n  lower: {{ rate: {lower}, per: 1h }}\n  higher: {{ rate: {higher}, per: 1h }}\n  \
             own: {{ rate: {lower}, per: 1h, mode: per_client }}\n"
        )
    };
    let file = LimitsFile::new(&yaml(100, 5));
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let limits = process_with(&file, proxy.url()).await;
    let [lower, higher, own] = ["lower", "higher", "own"].map(|name| limits.configured(name));
    for limiter in [&lower, &higher, &own] {
        assert_eq!(admitted_of(limiter, 2).await, 2);
    }
    proxy.cut();
    notice_outage(&limits).await;
    file.write(&yaml(10, 50));
    limits.reload().unwrap();
    assert_eq!(admitted_of(&lower, 200).await, 8);
    assert_eq!(admitted_of(&higher, 200).await, 48);
    assert_eq!(admitted_of(&own, 200).await, 8);
}

/// A limits file with all rules at this rate.
fn all_rules_at(rate: u32) -> String {
    format!(
        "limiters:\n  sliding: {{ rate: {rate}, per: 1h, on_drift: carry }}\n  \
         fixed: {{ rate: {rate}, per: 24h, algorithm: fixed_window, on_drift: carry }}\n  \
         bucket: {{ rate: {rate}, per: 1h, algorithm: token_bucket, burst: 10, on_drift: carry }}\n"
    )
}

/// The store was charged while it admitted no calls and recorded nothing, so 10 calls were admitted.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_admitted_without_the_store_counts_after_a_rate_of_0() {
    let file = LimitsFile::new(&all_rules_at(10));
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let limits = process_with(&file, proxy.url()).await;
    let limiters = ["sliding", "fixed", "bucket"].map(|name| limits.configured(name));
    proxy.cut();
    notice_outage(&limits).await;
    for limiter in &limiters {
        assert_eq!(admitted_of(limiter, 4).await, 4);
    }
    file.write(&all_rules_at(0));
    limits.reload().unwrap();
    proxy.restore();
    eventually("the server is found", 5 * SECOND, || limits.health().store.is_ok());
    tokio::time::sleep(SECOND / 4).await;
    for limiter in &limiters {
        assert_eq!(admitted_of(limiter, 20).await, 0);
    }
    file.write(&all_rules_at(10));
    limits.reload().unwrap();
    for limiter in &limiters {
        assert_eq!(admitted_of(limiter, 20).await, 6, "{limiter:?}");
        assert_eq!(limiter.available_permits().await.unwrap(), 0);
    }
}

/// It said that 5 came back, and none did.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_store_was_charged_for_an_outage_is_not_given_back() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let limits = process(&proxy.url(), None).await;
    proxy.cut();
    notice_outage(&limits).await;
    let mut held = Vec::new();
    for (name, quota) in all_rules() {
        let limiter = limits.limiter(name, quota);
        assert_eq!(limiter.try_acquire(2).await.unwrap().give_back().await.unwrap(), 2, "{name}");
        let permit = limiter.try_acquire(5).await.unwrap();
        held.push((name, limiter, permit));
    }
    proxy.restore();
    for (name, limiter, permit) in held {
        wait_until_back(&limiter).await;
        soon(name, async || limiter.available_permits().await.unwrap() == 5).await;
        assert_eq!(permit.give_back().await.unwrap(), 0, "{name}");
        assert_eq!(limiter.available_permits().await.unwrap(), 5, "{name}");
    }
}

/// Limits with a long recovery, and limiters of which a permit is in use.
async fn recovering_slowly(proxy: &Proxy) -> (Limits, [(&'static str, Limiter); 3]) {
    let builder = Limits::builder().redis(proxy.url()).no_limits_file().instances(2);
    // The recovery takes as long.
    let limits = builder.deadline(10 * SECOND).build().await.unwrap();
    let limiters = all_rules().map(|(name, quota)| (name, limits.limiter(name, quota)));
    for (_, limiter) in &limiters {
        limiter.acquire(1).await.unwrap();
    }
    (limits, limiters)
}

/// A preview was that of the store, and a deleted limiter had no permits before the end of the recovery.
#[tokio::test(flavor = "multi_thread")]
async fn previews_and_deletions_apply_to_the_shares_of_a_recovery() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let (limits, limiters) = recovering_slowly(&proxy).await;
    let other = process(&server.url(), Some(2)).await;
    other.limiter("foreign", quota(10, HOUR)).acquire(1).await.unwrap();
    proxy.cut();
    notice_outage(&limits).await;
    for (name, limiter) in &limiters {
        assert_eq!(admitted_of(limiter, 10).await, 4, "{name}");
    }
    proxy.restore();
    eventually("the server is found", 5 * SECOND, || limits.health().is_ok());
    let foreign = limits.configured("foreign");
    assert_eq!(foreign.available_permits().await.unwrap(), 9, "its share is unknown");
    assert_eq!(foreign.peek(1).await.unwrap().remaining(), 9);
    assert_eq!(foreign.try_acquire(1).await.unwrap().remaining(), 8);
    for (name, limiter) in &limiters {
        assert_eq!(limiter.available_permits().await.unwrap(), 0, "{name}");
        let rejections =
            [limiter.peek(1).await.unwrap_err(), limiter.try_acquire(1).await.unwrap_err()];
        assert!(rejections.iter().all(|one| one.decision().unwrap().is_degraded()), "{name}");
        assert!(limiter.delete().await.unwrap(), "{name}");
        assert_eq!(limiter.available_permits().await.unwrap(), 5, "{name}");
        assert!(!limiter.peek(5).await.unwrap().is_degraded(), "{name}");
        assert_eq!(admitted_of(limiter, 10).await, 5, "{name}");
    }
}

/// They were free in the store only, until the end of the recovery.
#[tokio::test(flavor = "multi_thread")]
async fn released_permits_are_free_in_the_shares_of_a_recovery() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let (limits, limiters) = recovering_slowly(&proxy).await;
    proxy.cut();
    notice_outage(&limits).await;
    for (name, limiter) in &limiters {
        assert_eq!(admitted_of(limiter, 3).await, 3, "{name}");
    }
    proxy.restore();
    eventually("the server is found", 5 * SECOND, || limits.health().is_ok());
    for (name, limiter) in &limiters {
        assert_eq!(admitted_of(limiter, 10).await, 1, "{name}");
        assert_eq!(limiter.release(3).await.unwrap(), 3, "{name}");
        assert_eq!(limiter.available_permits().await.unwrap(), 3, "{name}");
        assert_eq!(admitted_of(limiter, 10).await, 3, "{name}");
    }
}

/// What was left of the old quota was taken for what is left of the new one: 6 calls were admitted.
#[tokio::test(flavor = "multi_thread")]
async fn an_outage_goes_on_from_what_a_new_quota_leaves() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let limits = process(&proxy.url(), None).await;
    let limiters = all_rules().map(|(name, before)| (name, before, limits.limiter(name, before)));
    for (name, before, limiter) in &limiters {
        assert_eq!(admitted_of(limiter, 4).await, 4, "{name}");
        let more = Quota::new(20, before.per()).unwrap();
        let more = match *name {
            "sliding" => more,
            "fixed" => more.fixed_window(),
            _ => more.token_bucket(20).unwrap(),
        };
        limiter.set_rate(RateChange::new(more).carry()).await.unwrap();
    }
    proxy.cut();
    notice_outage(&limits).await;
    for (name, _, limiter) in &limiters {
        assert_eq!(admitted_of(limiter, 40).await, 16, "{name}");
    }
}

/// It said that none came back, and the store was charged for all of them.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_granted_after_a_charge_began_is_given_back() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let limits = process(&proxy.url(), None).await;
    let other = process(&server.url(), None).await;
    // The server has the script then.
    other.limiter("other", quota(10, HOUR)).charge(1).await.unwrap();
    let limiter = limits.limiter("shared", quota(10, HOUR));
    let lose = async || {
        proxy.cut();
        while limits.health().store.is_ok() {
            let _ = limiter.peek(1).await;
        }
    };
    lose().await;
    limiter.try_acquire(2).await.unwrap();
    proxy.restore();
    proxy.swallow_replies_to("EVALSHA", 1, Then::Cut);
    eventually("a charge in doubt", 5 * SECOND, || proxy.traffic().swallowed == 1);
    lose().await;
    let permit = limiter.try_acquire(3).await.unwrap();
    proxy.restore();
    proxy.swallow_replies_to("EVALSHA", 1, Then::Hang);
    eventually("the server is found", 5 * SECOND, || limits.health().store.is_ok());
    tokio::time::sleep(DEADLINE / 10).await;
    assert_eq!(permit.give_back().await.unwrap(), 3, "the charge in progress is for the others");
    proxy.restore();
    let limiter = other.limiter("shared", quota(10, HOUR));
    is_left_at_last(&limiter, 8).await;
}

/// What was left was forgotten with the rate of 0, so 10 calls were admitted.
#[tokio::test(flavor = "multi_thread")]
async fn an_outage_goes_on_from_what_was_left_before_a_rate_of_0() {
    let file = LimitsFile::new(&all_rules_at(10));
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let limits = process_with(&file, proxy.url()).await;
    let limiters = all_rules().map(|(name, _)| limits.configured(name));
    for (rate, calls, admitted) in [(10, 4, 4), (0, 4, 0)] {
        file.write(&all_rules_at(rate));
        limits.reload().unwrap();
        for limiter in &limiters {
            assert_eq!(admitted_of(limiter, calls).await, admitted, "{limiter:?}");
        }
    }
    proxy.cut();
    notice_outage(&limits).await;
    file.write(&all_rules_at(10));
    limits.reload().unwrap();
    for limiter in &limiters {
        assert_eq!(admitted_of(limiter, 20).await, 6, "{limiter:?}");
    }
}

/// Its one permit, which cost three while the bucket was cold, became three that cost eight: two calls were admitted,
/// and the store was charged for all that were left.
#[tokio::test(flavor = "multi_thread")]
async fn a_cold_bucket_that_becomes_a_window_in_an_outage_leaves_what_it_leaves_in_the_store() {
    let yaml = |rule| {
        let quota = format!("{{ rate: 10, per: 1h, on_drift: carry, {rule} }}");
        format!("limiters:\n  lost: {quota}\n  stored: {quota}\n")
    };
    let file = LimitsFile::new(&yaml("algorithm: token_bucket, warm_up: 1h"));
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let limits = process_with(&file, proxy.url()).await;
    let other = process_with(&file, server.url()).await;
    let (lost, stored) = (limits.configured("lost"), other.configured("stored"));
    assert_eq!((admitted_of(&lost, 5).await, admitted_of(&stored, 5).await), (1, 1));
    proxy.cut();
    notice_outage(&limits).await;
    assert_eq!(admitted_of(&lost, 5).await, 0);
    file.write(&yaml("algorithm: sliding_window"));
    limits.reload().unwrap();
    other.reload().unwrap();
    let few = (admitted_of(&lost, 3).await, admitted_of(&stored, 3).await);
    assert_eq!(few, (3, 3));
    proxy.restore();
    wait_until_back(&lost).await;
    let left = (admitted_of(&lost, 20).await, admitted_of(&stored, 20).await);
    assert_eq!(left, (4, 4));
}
