//! Changes that no process announced: made on purpose, by Java, or by hand.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use ratelimit_runtime::{
    Event, Limiter, Limits, LimitsBuilder, Mode, Quota, RateChange, Reason, report::Reconciled,
    test_util::ManualClock,
};
use tests::{limits_file::LimitsFile, redis_server::RedisServer};

const MINUTE: Duration = Duration::from_secs(60);

fn quota(rate: u64) -> Quota {
    Quota::new(rate, MINUTE).unwrap()
}

fn on(server: &RedisServer) -> LimitsBuilder {
    Limits::builder().redis(server.url()).deadline(Duration::from_secs(5))
}

/// A process that is configured with this rate for `shared`.
async fn process(server: &RedisServer, rate: u64) -> Limits {
    let yaml = format!("limiters:\n  shared: {{ rate: {rate}, per: 1m }}\n");
    on(server).limits_yaml(yaml).build().await.unwrap()
}

/// How many permits a caller gets at once, one after the other.
async fn taken(limiter: &Limiter) -> u64 {
    let mut taken = 0;
    while limiter.try_acquire(1).await.is_ok() {
        taken += 1;
    }
    taken
}

/// What is younger than something has to be so by the server's clock, which is read as precisely as a round trip is short.
async fn later() {
    tokio::time::sleep(Duration::from_millis(200)).await;
}

type Outcomes = Arc<Mutex<Vec<(Reconciled, Option<u64>, u64)>>>;

/// Notes what is reconciled, with the old and the new rate.
fn noting(builder: LimitsBuilder) -> (LimitsBuilder, Outcomes) {
    let outcomes = Outcomes::default();
    let seen = Arc::clone(&outcomes);
    let builder = builder.on_event(move |event| {
        if let Event::Reconciled { outcome, old, new, .. } = event {
            seen.lock().unwrap().push((*outcome, old.as_ref().map(Quota::rate), new.rate()));
        }
    });
    (builder, outcomes)
}

#[tokio::test]
async fn a_process_that_started_before_a_change_follows_it_with_its_first_use() {
    let server = RedisServer::start();
    let [user, operator] = [process(&server, 10).await, process(&server, 10).await];
    let yaml = "limiters:\n  shared: { rate: 10, per: 1m }\n";
    let (builder, outcomes) = noting(on(&server).limits_yaml(yaml));
    let idle = builder.build().await.unwrap();
    user.configured("shared").try_acquire(1).await.unwrap();
    later().await;
    operator.configured("shared").set_rate(quota(2)).await.unwrap();

    assert_eq!(taken(&idle.configured("shared")).await, 2);
    assert_eq!(taken(&user.configured("shared")).await, 0);
    assert_eq!(*outcomes.lock().unwrap(), [(Reconciled::Followed, Some(10), 2)]);
    assert_eq!(server.cli::<u64>(&["HGET", "shared", "rate"]), 2);

    // One that starts after the change replaces it, and carries.
    later().await;
    let (builder, outcomes) = noting(on(&server).limits_yaml(yaml));
    let next = builder.build().await.unwrap();
    assert_eq!(taken(&next.configured("shared")).await, 8);
    assert_eq!(*outcomes.lock().unwrap(), [(Reconciled::Carried, Some(2), 10)]);
    assert_eq!(taken(&idle.configured("shared")).await, 0, "and nobody resets it again");
}

#[tokio::test]
async fn a_change_by_hand_is_dated_when_it_is_first_seen() {
    let server = RedisServer::start();
    let [user, idle] = [process(&server, 10).await, process(&server, 20).await];
    let limiter = user.configured("shared");
    limiter.try_acquire(1).await.unwrap();
    let _: i64 = server.cli(&["HSET", "shared", "rate", "3"]);
    assert_eq!(limiter.try_acquire(1).await.unwrap().quota().unwrap().rate(), 3);
    later().await;
    assert_eq!(taken(&idle.configured("shared")).await, 1, "2 of 3 were used");
    assert_eq!(server.cli::<u64>(&["HGET", "shared", "rate"]), 3);
    let next = process(&server, 10).await;
    assert_eq!(taken(&next.configured("shared")).await, 7, "3 of 10 were used");
}

#[tokio::test]
async fn a_limiter_that_was_evicted_from_the_cache_announces_nothing() {
    let server = RedisServer::start();
    for limits in [
        on(&server).limits_yaml("max_remembered: 100").build().await.unwrap(),
        Limits::builder().memory().no_limits_file().max_remembered(100).build().await.unwrap(),
    ] {
        let limiter = || limits.limiter("shared", quota(10));
        limiter().try_acquire(1).await.unwrap();
        limiter().set_rate(quota(2)).await.unwrap();
        assert_eq!(taken(&limiter()).await, 2);
        // More than are remembered.
        for n in 0..10_000 {
            let _ = limits.limiter(&format!("other:{n}"), quota(10));
        }
        assert_eq!(taken(&limiter()).await, 0, "of {limits:?}");
        assert_eq!(limiter().quotas().unwrap()[0].rate(), 2);
    }
}

/// A limiter that was evicted rejected calls that cost more than its configured quota, although the store had a
/// larger one: the embedded store was not asked, since no other process can change it.
#[tokio::test]
async fn a_limiter_that_was_evicted_from_the_cache_admits_what_a_raised_quota_allows() {
    let server = RedisServer::start();
    for limits in [
        on(&server).limits_yaml("max_remembered: 100").build().await.unwrap(),
        Limits::builder().memory().no_limits_file().max_remembered(100).build().await.unwrap(),
    ] {
        let limiter = || limits.limiter("shared", quota(2));
        limiter().set_rate(quota(10)).await.unwrap();
        // More than are remembered.
        for n in 0..10_000 {
            let _ = limits.limiter(&format!("other:{n}"), quota(10));
        }
        assert_eq!(limiter().peek(4).await.unwrap().quota().unwrap().rate(), 10, "of {limits:?}");
        limiter().try_acquire(4).await.unwrap();
        assert_eq!(taken(&limiter()).await, 6);
    }
}

/// All prefixes of the file had one age: a change of any of them replaced what was set for names of the others.
#[tokio::test]
async fn a_reload_that_changed_other_prefixes_announces_nothing_of_an_evicted_limiter() {
    let of =
        |prefix: &str, rate: u64| format!("  - {{ prefix: {prefix}, rate: {rate}, per: 1m }}\n");
    let yaml =
        |prefixes: [String; 3]| format!("max_remembered: 100\nprefixes:\n{}", prefixes.concat());
    let server = RedisServer::start();
    for (name, builder) in [("redis", on(&server)), ("memory", Limits::builder().memory())] {
        let file = LimitsFile::new(&yaml([of("shared", 10), of("a", 1), of("b", 1)]));
        let limits = builder.limits_file(file.path()).build().await.unwrap();
        let rate = async || {
            later().await;
            limits.reload().unwrap();
            // More than are remembered.
            for n in 0..10_000 {
                let _ = limits.configured(&format!("a:{n}"));
            }
            let permit = limits.configured("shared").try_acquire(1).await.unwrap();
            permit.quota().unwrap().rate()
        };
        limits.configured("shared").set_rate(quota(5)).await.unwrap();
        file.write(&yaml([of("c", 1), of("shared", 10), of("a", 2)]));
        assert_eq!(rate().await, 5, "{name}: of other prefixes");
        file.write(&yaml([of("c", 1), of("shared", 10), of("share", 2)]));
        assert_eq!(rate().await, 5, "{name}: of a shorter one, which does not decide");
        file.write(&yaml([of("shared", 12), of("share", 2), of("a", 2)]));
        assert_eq!(rate().await, 12, "{name}: of its own");
    }
}

#[tokio::test]
async fn a_reload_that_changed_nothing_of_a_limiter_announces_nothing() {
    let yaml = |others: &str| {
        format!(
            "revision: 1\nlimiters:\n  shared: {{ rate: 10, per: 1m }}\n  \
             fresh: {{ rate: 10, per: 1m }}\n  other: {{ {others} }}\n"
        )
    };
    let server = RedisServer::start();
    for (name, builder) in [("redis", on(&server)), ("memory", Limits::builder().memory())] {
        let file = LimitsFile::new(&yaml("rate: 1, per: 1s"));
        let (builder, outcomes) = noting(builder.limits_file(file.path()));
        let limits = builder.build().await.unwrap();
        let limiter = limits.configured("shared");
        limiter.try_acquire(1).await.unwrap();
        limiter.update_rate(quota(3)).await.unwrap();
        // A limiter that no call of this process has used yet.
        limits.configured("fresh").set_rate(quota(3)).await.unwrap();
        for (n, others) in ["rate: 1, per: 1s", "rate: 2, per: 1s"].into_iter().enumerate() {
            file.write(&yaml(others));
            limits.reload().unwrap();
            let left = if n == 0 { 3 } else { 0 };
            assert_eq!(taken(&limiter).await, left, "{name}: {others}");
        }
        assert_eq!(taken(&limits.configured("fresh")).await, 3, "{name}");
        let told: Vec<_> = outcomes.lock().unwrap().iter().map(|told| told.0).collect();
        assert!(!told.contains(&Reconciled::Reset) && !told.contains(&Reconciled::Carried));

        // What the file changes of the limiter is younger.
        later().await;
        let changed = yaml("rate: 2, per: 1s").replace("shared: { rate: 10", "shared: { rate: 12");
        file.write(&changed);
        limits.reload().unwrap();
        assert_eq!(taken(&limiter).await, 9, "{name}: it carries 3 of 12");
        let told = outcomes.lock().unwrap().last().copied();
        assert_eq!(told, Some((Reconciled::Carried, Some(3), 12)), "{name}");
    }
}

#[tokio::test]
async fn a_change_that_is_held_stays_in_force_while_processes_start() {
    let server = RedisServer::start();
    let operator = process(&server, 10).await;
    let limiter = operator.configured("shared");
    limiter.try_acquire(5).await.unwrap();
    let brake = RateChange::new(quota(6)).carry().hold(Duration::from_secs(4));
    limiter.set_rate(brake).await.unwrap();
    let held = limiter.config().await.unwrap().unwrap().held_for.unwrap();
    assert!(held > Duration::from_secs(2) && held <= Duration::from_secs(4), "{held:?}");

    later().await;
    let next = process(&server, 10).await;
    assert_eq!(taken(&next.configured("shared")).await, 1, "the new process follows");
    tokio::time::sleep(held + Duration::from_millis(100)).await;
    assert_eq!(limiter.config().await.unwrap().unwrap().held_for, None);
    // A refusal is cached for a second at most.
    let carried = async {
        while taken(&next.configured("shared")).await != 4 {
            later().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(3), carried).await.expect("it carries 6 of 10");

    // A further change ends a hold.
    limiter.set_rate(RateChange::new(quota(6)).hold(MINUTE)).await.unwrap();
    limiter.set_rate(quota(7)).await.unwrap();
    assert_eq!(limiter.config().await.unwrap().unwrap().held_for, None);
    // By hand too.
    limiter.set_rate(RateChange::new(quota(6)).hold(MINUTE)).await.unwrap();
    let _: i64 = server.cli(&["HSET", "shared", "rate", "5"]);
    assert_eq!(limiter.config().await.unwrap().unwrap().held_for, None);
}

#[tokio::test]
async fn an_idle_limiter_does_not_expire_while_its_change_is_held() {
    let server = RedisServer::start();
    let clock = ManualClock::new();
    let yaml = "limiters:\n  shared: { rate: 10, per: 1s, keep_alive: 1s }\n  \
                bucket: { rate: 10, per: 1s, algorithm: token_bucket, keep_alive: 1s }\n  \
                each: { rate: 10, per: 1s, mode: per_client, keep_alive: 1s }\n  \
                several: { limits: [{ rate: 6, per: 500ms }, { rate: 10, per: 1s }] }\n  \
                split: { rate: 20, per: 1s, shards: 2 }\n";
    let rule = |name: &str, rate| {
        let quota = Quota::new(rate, Duration::from_secs(1)).unwrap();
        if name == "bucket" { quota.token_bucket(10).unwrap() } else { quota }
    };
    for builder in [on(&server), Limits::builder().memory().clock(clock.clone())] {
        let limits = builder.limits_yaml(yaml).build().await.unwrap();
        let names = ["shared", "bucket", "each", "several", "split"];
        for name in names {
            let limiter = limits.configured(name);
            let brake = RateChange::new(rule(name, 7)).hold(60 * MINUTE);
            // The hold counts too if the change sets a shorter keep-alive.
            let brake = if name == "shared" { brake.keep_alive(Some(MINUTE)) } else { brake };
            limiter.set_rate(brake).await.unwrap();
            // A grant renews the expiry.
            limiter.try_acquire(1).await.unwrap();
        }
        let mut expiring = server.limiter_keys();
        expiring.retain(|key| server.cli::<i64>(&["PTTL", key]) >= 0);
        assert!(expiring.len() >= 6, "{expiring:?}");
        for key in expiring {
            let left = server.cli::<i64>(&["PTTL", &key]);
            assert!(left > 3_500_000, "{key}: {left} ms");
        }
        clock.advance(50 * MINUTE);
        for name in names {
            let stored = limits.configured(name).config().await.unwrap();
            let stored = stored.unwrap_or_else(|| panic!("{name} expired: {limits:?}"));
            assert!(stored.quotas.contains(&rule(name, 7)), "{name}: {stored:?}");
            assert!(stored.held_for > Some(9 * MINUTE), "{name}: {stored:?}");
        }
    }
}

#[tokio::test]
async fn a_mode_that_was_changed_back_and_forth_on_purpose_counts_anew() {
    let server = RedisServer::start();
    for builder in [on(&server), Limits::builder().memory()] {
        let limits = builder.no_limits_file().build().await.unwrap();
        let limiter = limits.limiter("shared", quota(4));
        assert_eq!(taken(&limiter).await, 4);
        for mode in [Mode::PerClient, Mode::Overall, Mode::PerClient, Mode::Overall] {
            let change = RateChange::new(quota(4)).carry().mode(mode);
            assert!(limiter.update_rate(change).await.unwrap());
            assert_eq!(taken(&limiter).await, 4, "{mode:?} of {limits:?}");
        }
    }
}

#[tokio::test]
async fn a_process_that_only_follows_counts_by_a_rate_that_was_changed_by_hand() {
    let server = RedisServer::start();
    for (change, left) in [("5", 0), ("990", 978), ("13", 1)] {
        let _: () = server.cli(&["FLUSHALL"]);
        let owner = process(&server, 1000).await;
        owner.configured("shared").try_acquire(2).await.unwrap();
        let follows = on(&server).no_limits_file().build().await.unwrap();
        let limiter = follows.configured("shared");
        for _ in 0..10 {
            limiter.try_acquire(1).await.unwrap();
        }
        let _: i64 = server.cli(&["HSET", "shared", "rate", change]);
        assert_eq!(taken(&limiter).await, left, "of {change}, with 12 used");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_that_was_raised_is_noticed_by_calls_that_cost_more_than_the_old_one() {
    let server = RedisServer::start();
    let (here, there) = (process(&server, 5).await, process(&server, 5).await);
    let (limiter, other) = (here.configured("shared"), there.configured("shared"));
    limiter.acquire(1).await.unwrap();
    assert_eq!(limiter.try_acquire(10).await.unwrap_err().reason(), Reason::ExceedsCapacity);
    other.set_rate(quota(100)).await.unwrap();
    assert_eq!(limiter.peek(10).await.unwrap().quota().unwrap().rate(), 100);
    let start = Instant::now();
    while limiter.try_acquire(10).await.is_err() {
        assert!(start.elapsed() < Duration::from_secs(5), "it was never noticed");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_of_0_applies_to_all_processes_if_a_process_starts_with_it() {
    let server = RedisServer::start();
    let older = process(&server, 5).await.configured("shared");
    older.acquire(1).await.unwrap();
    later().await;
    let newer = process(&server, 0).await.configured("shared");
    assert_eq!(newer.try_acquire(1).await.unwrap_err().reason(), Reason::ExceedsCapacity);
    let start = Instant::now();
    while older.try_acquire(1).await.is_ok() {
        assert!(start.elapsed() < Duration::from_secs(5), "the older process goes on");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(older.try_acquire(1).await.unwrap_err().reason(), Reason::ExceedsCapacity);
}

/// Writes what a peer would have taken: a grant of one permit for each member of the log.
fn take_as_a_peer(server: &RedisServer, permits: u32) {
    let mut redis = server.connect().unwrap();
    let now: (u64, u64) = redis::cmd("TIME").query(&mut redis).unwrap();
    for n in 0..permits {
        let member = [&[4][..], &n.to_le_bytes(), &1_u32.to_le_bytes()].concat();
        let mut add = redis::cmd("ZADD");
        add.arg("{shared}:permits").arg(now.0 * 1000).arg(member).exec(&mut redis).unwrap();
    }
    let _: i64 = server.cli(&["DECRBY", "{shared}:value", &permits.to_string()]);
}

#[tokio::test]
async fn a_change_that_carries_leaves_the_rest_of_the_quota_beside_a_long_log() {
    // The log was taken for the whole quota, because it is not counted at once.
    let server = RedisServer::start();
    let before = process(&server, 1000).await.configured("shared");
    before.try_acquire(1).await.unwrap();
    take_as_a_peer(&server, 599);
    let counter = || server.cli::<i64>(&["GET", "{shared}:value"]);

    for (rate, left) in [(2000, 1400), (500, -100), (900, 300)] {
        assert!(before.update_rate(RateChange::new(quota(rate)).carry()).await.unwrap());
        assert_eq!(counter(), left, "{rate} set on purpose");
    }
    later().await;
    for (rate, left) in [(1800, 1199), (650, 48), (1000, 397)] {
        let yaml = format!("limiters:\n  shared: {{ rate: {rate}, per: 1m, on_drift: carry }}\n");
        let next = on(&server).limits_yaml(yaml).build().await.unwrap();
        let granted = next.configured("shared").try_acquire(1).await.unwrap();
        assert_eq!(granted.remaining(), left, "{rate} of a new process");
        assert_eq!(counter(), i64::try_from(left).unwrap());
    }
}
