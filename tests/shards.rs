//! Limiters in several parts, on the nodes of a cluster.
#![allow(clippy::disallowed_methods, reason = "real servers live in real time")]

use std::time::{Duration, Instant};

use ratelimit_runtime::{Limiter, Limits, Quota, RateChange, Reason, Rejection, rate_limit};
use tests::{redis_cluster::RedisCluster, redis_server::RedisServer};

async fn on(url: &str, yaml: &str) -> Limits {
    let builder = Limits::builder().redis(url).limits_yaml(yaml);
    builder.deadline(Duration::from_secs(5)).build().await.unwrap()
}

fn hot(rest: &str) -> String {
    format!("limiters:\n  hot: {{ rate: 10, per: 1h, {rest} }}\n")
}

/// How many of so many calls for one permit get it.
async fn granted(limits: &Limits, calls: usize) -> usize {
    let limiter = limits.configured("hot");
    let mut granted = 0;
    for _ in 0..calls {
        granted += usize::from(limiter.try_acquire(1).await.is_ok());
    }
    granted
}

async fn stored_rate(limiter: &Limiter) -> u64 {
    limiter.config().await.unwrap().unwrap().quotas[0].rate()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_parts_lie_on_several_nodes_and_admit_what_the_whole_would() {
    let cluster = RedisCluster::start();
    let limits = on(&cluster.url(), &hot("shards: 8")).await;
    assert_eq!(granted(&limits, 30).await, 10, "none is refused while any part has room");
    let rejection = limits.configured("hot").try_acquire(1).await.unwrap_err();
    assert_eq!(rejection.reason(), Reason::Limited);
    assert_eq!(
        rejection.violated().first().copied().unwrap().to_string(),
        "10 per 1h",
        "it is told of the whole"
    );

    let keys: Vec<usize> = cluster.nodes().iter().map(|node| node.cli(&["DBSIZE"])).collect();
    assert!(keys.iter().all(|keys| *keys > 0), "keys on each node: {keys:?}");
    assert_eq!(keys.iter().sum::<usize>(), 8 * 3);

    // Another process counts in the same parts.
    let other = on(&cluster.url(), &hot("shards: 8")).await;
    assert_eq!(granted(&other, 20).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_from_everywhere_get_exactly_the_rate() {
    let server = RedisServer::start();
    let yaml = "limiters:\n  hot: { rate: 1003, per: 1h, shards: 7 }\n";
    let processes = [on(&server.url(), yaml).await, on(&server.url(), yaml).await];
    let callers: Vec<_> = (0..64)
        .map(|caller: usize| {
            let limits = processes[caller % 2].clone();
            tokio::spawn(async move { granted(&limits, 40).await })
        })
        .collect();
    let mut sum = 0;
    for caller in callers {
        sum += caller.await.unwrap();
    }
    assert_eq!(sum, 1003);
}

#[tokio::test]
async fn a_call_waits_for_the_part_that_is_free_first() {
    let server = RedisServer::start();
    let yaml = "limiters:\n  hot: { rate: 4, per: 1s, shards: 4 }\n";
    let limits = on(&server.url(), yaml).await;
    let limiter = limits.configured("hot");
    let start = Instant::now();
    for _ in 0..12 {
        limiter.acquire(1).await.unwrap();
    }
    let took = start.elapsed();
    assert!(took >= Duration::from_secs(2), "12 of 4 per second: {took:?}");
    assert!(took < Duration::from_millis(3500), "{took:?}");
}

#[tokio::test]
async fn calls_that_wait_together_use_all_parts() {
    for algorithm in ["sliding_window", "token_bucket"] {
        let server = RedisServer::start();
        let yaml = format!(
            "limiters:\n  hot: {{ rate: 4, per: 1s, algorithm: {algorithm}, shards: 4 }}\n"
        );
        let limits = on(&server.url(), &yaml).await;
        let start = Instant::now();
        let callers: Vec<_> = (0..12)
            .map(|_| {
                let limiter = limits.configured("hot");
                tokio::spawn(async move { limiter.acquire(1).await.map(drop) })
            })
            .collect();
        for caller in callers {
            caller.await.unwrap().unwrap();
        }
        let took = start.elapsed();
        assert!(took < Duration::from_secs(5), "{algorithm}: 12 of 4 per second: {took:?}");
    }
}

#[tokio::test]
async fn a_call_can_have_what_one_part_has() {
    let server = RedisServer::start();
    let limits = on(&server.url(), &hot("shards: 3")).await;
    let limiter = limits.configured("hot");
    let rejection = limiter.try_acquire(4).await.unwrap_err();
    assert_eq!(
        rejection.to_string(),
        "rate limit `hot` can never grant that many permits at once: requested 4, quota 10 per 1h in 3 \
         shards"
    );
    for _ in 0..3 {
        assert!(limiter.try_acquire(3).await.is_ok());
    }
    assert_eq!(limiter.try_acquire(3).await.unwrap_err().reason(), Reason::Limited);
    assert!(limiter.try_acquire(1).await.is_ok(), "the first part has one more");
    let peeked = limiter.peek(1).await.unwrap_err();
    assert_eq!(peeked.decision().unwrap().remaining(), 0);
}

#[tokio::test]
async fn the_parts_follow_a_change_of_the_file() {
    let server = RedisServer::start();
    let file = std::env::temp_dir().join(format!("shards-{}.yaml", std::process::id()));
    std::fs::write(&file, hot("shards: 2")).unwrap();
    let builder = Limits::builder().redis(server.url()).limits_file(&file);
    let limits = builder.deadline(Duration::from_secs(5)).build().await.unwrap();
    assert_eq!(granted(&limits, 20).await, 10);
    std::fs::write(&file, "limiters:\n  hot: { rate: 16, per: 1h, shards: 2, on_drift: carry }\n")
        .unwrap();
    limits.reload().unwrap();
    assert_eq!(granted(&limits, 20).await, 6, "each part kept what was used of it");
    std::fs::write(&file, hot("shards: 5")).unwrap();
    limits.reload().unwrap();
    assert!(limits.report().to_string().contains("shards: 5 (limits file)"));
    let names: Vec<String> = server.cli(&["KEYS", "hot:~shard-*"]);
    assert_eq!(names.len(), 2, "{names:?}");
    granted(&limits, 20).await;
    let names: Vec<String> = server.cli(&["KEYS", "hot:~shard-*"]);
    assert_eq!(names.len(), 5, "{names:?}");
    for name in names {
        assert!(server.cli::<i64>(&["PTTL", &name]) > 0, "no part stays for ever");
    }
    std::fs::remove_file(file).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_away_leaves_the_parts_of_the_others() {
    // Otherwise the other nodes serve no slots either, once they have noticed that one is away.
    let cluster = RedisCluster::builder().config("cluster-require-full-coverage", "no").start();
    let yaml =
        "deadline: 3s\nlimiters:\n  hot: { rate: 9, per: 1h, shards: 9, on_store_error: reject }\n";
    let builder = Limits::builder().redis(cluster.url()).limits_yaml(yaml);
    let limits = builder.build().await.unwrap();
    let lost = cluster.master_of_key("hot:~shard-0");
    let parts =
        (0..9).filter(|n| cluster.master_of_key(&format!("hot:~shard-{n}")) == lost).count();
    cluster.node(lost).stop();
    let got = granted(&limits, 30).await;
    assert_eq!(got, 9 - parts, "{parts} parts are lost");
    cluster.node(lost).cont();
}

#[tokio::test]
async fn without_nodes_nothing_is_split() {
    let limits = Limits::builder().memory().limits_yaml(hot("shards: 3")).build().await.unwrap();
    assert!(limits.configured("hot").try_acquire(10).await.is_ok());
}

#[rate_limit(key = "bulk", rate = 100, per = "1h", permits = 30, wait = "none")]
async fn bulk() -> Result<(), Rejection> {
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_split_is_refused_at_startup() {
    bulk().await.unwrap();
    for (entry, problem) in [
        (
            "shards: 4",
            "`bulk`: `permits` is 30, but 4 shards split a `rate` of 100, so no call can succeed; lower `permits`, or raise `rate` (`shards` is set at limits:2:19)",
        ),
        (
            "shards: 101",
            "limits:2:19: `bulk`: `shards: 101` leaves a shard without permits; write at most 100, which is the `rate` (`rate` is set at tests/shards.rs:",
        ),
    ] {
        let yaml = format!("limiters:\n  bulk: {{ {entry} }}\n");
        let error = Limits::builder().memory().limits_yaml(&yaml).build().await.unwrap_err();
        assert!(error.to_string().contains(problem), "{error}");
    }
    let yaml = "limiters:\n  bulk: { shards: 3 }\n";
    assert!(Limits::builder().memory().limits_yaml(yaml).build().await.is_ok());
}

#[tokio::test]
async fn in_shadow_mode_a_call_tries_all_parts_too() {
    let server = RedisServer::start();
    let yaml = "limiters:\n  hot: { rate: 6, per: 1h, shards: 2, shadow: true }\n";
    let limits = on(&server.url(), yaml).await;
    let limiter = limits.configured("hot");
    for permits in [2, 1, 2, 1] {
        let permit = limiter.try_acquire(permits).await.unwrap();
        assert_eq!((permit.permits(), permit.shadowed()), (permits, None));
    }
    let permit = limiter.try_acquire(1).await.unwrap();
    assert_eq!((permit.permits(), permit.shadowed()), (0, Some(Reason::Limited)));
    assert_eq!(limits.report().limiter("hot").unwrap().shadowed, 1);
}

#[tokio::test]
async fn all_parts_pay_for_a_cost_that_is_known_afterwards() {
    let server = RedisServer::start();
    let limits = on(&server.url(), &hot("shards: 4")).await;
    let limiter = limits.configured("hot");
    let settled = limiter.try_acquire(1).await.unwrap().settle(8).await.unwrap();
    assert_eq!((settled.taken, settled.debt, settled.excess), (7, 0, 0));
    limiter.release(10).await.unwrap();

    for _ in 0..8 {
        let charged = limiter.charge(1).await.unwrap();
        assert_eq!((charged.taken, charged.excess), (1, 0), "not one part pays it all");
    }
    // What one part cannot owe, another one does.
    let charged = limiter.charge(10).await.unwrap();
    assert_eq!((charged.taken, charged.debt, charged.excess), (2, 8, 0));
    let charged = limiter.charge(3).await.unwrap();
    assert_eq!((charged.taken, charged.debt, charged.excess), (0, 10, 1));
}

#[tokio::test]
async fn whoever_waits_gets_what_another_call_gives_back() {
    let server = RedisServer::start();
    let limits = on(&server.url(), &hot("shards: 2")).await;
    let limiter = limits.configured("hot");
    let mut permits = Vec::new();
    for _ in 0..10 {
        permits.push(limiter.try_acquire(1).await.unwrap());
    }
    let waiting = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.acquire(1).await.map(drop) }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(permits.swap_remove(0).give_back().await.unwrap(), 1);
    // Without being woken it looks again after a tenth of its wait.
    tokio::time::timeout(Duration::from_secs(60), waiting).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn a_decision_tells_of_the_rate_that_was_set() {
    let server = RedisServer::start();
    let limits = on(&server.url(), &hot("shards: 2")).await;
    let limiter = limits.configured("hot");
    let hourly = |rate| Quota::new(rate, Duration::from_secs(3600)).unwrap();
    limiter.set_rate(hourly(100)).await.unwrap();
    let permit = limiter.try_acquire(40).await.unwrap();
    assert_eq!(permit.quota().unwrap(), hourly(100), "a part has 50");
    assert_eq!(limiter.quotas().unwrap()[0], hourly(100));
    limiter.set_rate(hourly(3)).await.unwrap();
    let rejection = limiter.try_acquire(3).await.unwrap_err();
    assert_eq!(rejection.reason(), Reason::ExceedsCapacity);
    assert!(
        rejection.to_string().ends_with("requested 3, quota 3 per 1h in 2 shards"),
        "{rejection}"
    );
    assert!(limiter.try_acquire(2).await.is_ok());
    let rejection = limiter.try_acquire(2).await.unwrap_err();
    assert_eq!(rejection.violated(), [hourly(3)]);

    for (quota, why) in [
        (hourly(50).leaky_bucket().unwrap(), "its permits are spaced; use another algorithm"),
        (
            hourly(50).token_bucket(1).unwrap(),
            "a shard would hold no permits; use a burst of at least 2",
        ),
    ] {
        let error = limiter.set_rate(quota).await.unwrap_err().to_string();
        let expected =
            format!("`{quota}` cannot be divided among the 2 shards of `hot`, because {why}");
        assert_eq!(error, expected);
    }
    assert_eq!(stored_rate(&limiter).await, 3);
}

#[tokio::test]
async fn a_cost_that_another_process_made_possible_is_granted() {
    let server = RedisServer::start();
    let processes =
        [on(&server.url(), &hot("shards: 3")).await, on(&server.url(), &hot("shards: 3")).await];
    let [limiter, operator] = processes.each_ref().map(|limits| limits.configured("hot"));
    assert!(limiter.try_acquire(3).await.is_ok());
    let hourly = |rate| Quota::new(rate, Duration::from_secs(3600)).unwrap();
    operator.set_rate(hourly(40)).await.unwrap();
    assert!(limiter.peek(13).await.is_ok());
    assert!(limiter.try_acquire(13).await.is_ok());
    assert_eq!(limiter.quotas().unwrap()[0].rate(), 40);
    let rejection = limiter.try_acquire(14).await.unwrap_err();
    assert!(
        rejection.to_string().ends_with("requested 14, quota 40 per 1h in 3 shards"),
        "{rejection}"
    );
}

#[rate_limit(key = "hot:{user}", rate = 1, per = "1h", wait = "none")]
async fn of_a_user(user: &str) -> Result<(), Rejection> {
    Ok(())
}

#[tokio::test]
async fn no_value_in_a_key_makes_the_name_of_a_part() {
    let server = RedisServer::start();
    let limits = on(&server.url(), &hot("shards: 2")).await;
    assert_eq!(granted(&limits, 20).await, 10);
    let parts: Vec<String> = server.cli(&["KEYS", "hot:*"]);
    for part in &parts {
        let user = part.strip_prefix("hot:").unwrap();
        assert!(limits.scope(of_a_user(user)).await.is_ok(), "{part} is no limiter of its own");
        assert_ne!(limits.configured(part).name(), part);
    }
    assert_eq!(granted(&limits, 20).await, 0);
    assert_eq!(server.cli::<Vec<String>>(&["KEYS", "hot:*"]).len(), 2 * parts.len());
}

#[tokio::test]
async fn a_change_is_one_of_all_parts_though_one_has_expired() {
    let server = RedisServer::start();
    let limits = on(&server.url(), &hot("shards: 4")).await;
    let limiter = limits.configured("hot");
    let hourly = |rate| Quota::new(rate, Duration::from_secs(3600)).unwrap();
    assert_eq!(granted(&limits, 4).await, 4);
    let rates = || {
        let rate = |n| server.cli(&["HGET", &format!("hot:~shard-{n}"), "rate"]);
        (0..4).map(rate).collect::<Vec<Option<u32>>>()
    };
    let expire = || server.cli::<i64>(&["DEL", "hot:~shard-1", "{hot:~shard-1}:value"]);
    assert_eq!(expire(), 2);
    assert!(!limiter.try_set_rate(hourly(40)).await.unwrap(), "it is stored");
    assert_eq!(rates(), [Some(3), None, Some(2), Some(2)]);
    assert!(limiter.update_rate(hourly(20)).await.unwrap());
    assert_eq!(rates(), [Some(5); 4]);
    assert!(limiter.delete().await.unwrap());
    assert!(!limiter.update_rate(hourly(20)).await.unwrap());
    assert!(limiter.try_set_rate(hourly(40)).await.unwrap());
    assert_eq!(rates(), [Some(10); 4]);
}

#[tokio::test]
async fn what_is_done_to_a_limiter_is_done_to_all_parts() {
    let server = RedisServer::start();
    let limits = on(&server.url(), &hot("shards: 4")).await;
    let limiter = limits.configured("hot");
    assert!(!limiter.exists().await.unwrap() && limiter.config().await.unwrap().is_none());
    assert_eq!(granted(&limits, 7).await, 7);
    assert_eq!(limiter.available_permits().await.unwrap(), 3);
    assert_eq!(stored_rate(&limiter).await, 10);
    assert_eq!(limiter.release(5).await.unwrap(), 5);
    assert_eq!(limiter.available_permits().await.unwrap(), 8);
    assert_eq!(limiter.peek(1).await.unwrap().remaining(), 8);
    assert_eq!(limiter.release(5).await.unwrap(), 2, "no more were in use");

    let twenty = Quota::new(20, Duration::from_secs(3600)).unwrap();
    assert!(limiter.update_rate(RateChange::new(twenty).carry()).await.unwrap());
    assert_eq!(stored_rate(&limiter).await, 20);
    assert_eq!(granted(&limits, 30).await, 20);
    let parts: Vec<String> = server.cli(&["KEYS", "hot:~shard-*"]);
    let rates: Vec<u32> = parts.iter().map(|key| server.cli(&["HGET", key, "rate"])).collect();
    assert_eq!(rates, [5; 4]);

    assert!(limiter.expire(Duration::from_secs(40)).await.unwrap());
    assert!(limiter.ttl().await.unwrap().unwrap() <= Duration::from_secs(40));
    assert!(limiter.delete().await.unwrap());
    assert!(!limiter.exists().await.unwrap() && limiter.ttl().await.unwrap().is_none());
    assert_eq!(server.cli::<usize>(&["DBSIZE"]), 0, "nothing is left");
}

#[tokio::test]
async fn the_stored_configuration_is_that_of_the_whole_before_all_parts_are_used() {
    let server = RedisServer::start();
    let limits = on(&server.url(), &hot("shards: 4")).await;
    for _ in 0..4 {
        assert_eq!(granted(&limits, 1).await, 1);
        assert_eq!(stored_rate(&limits.configured("hot")).await, 10);
    }
}

#[tokio::test]
async fn a_shard_that_cannot_be_written_leaves_no_other_as_it_was() {
    let server = RedisServer::start();
    let limits = on(&server.url(), &hot("shards: 4")).await;
    let limiter = limits.configured("hot");
    assert_eq!(granted(&limits, 4).await, 4);
    let foreign = "hot:~shard-1";
    server.cli::<()>(&["SET", foreign, "x"]);
    let hourly = |rate| Quota::new(rate, Duration::from_secs(3600)).unwrap();
    let error = limiter.set_rate(hourly(40)).await.unwrap_err().to_string();
    assert!(error.contains("WRONGTYPE"), "{error}");
    let rate = |n| server.cli::<u32>(&["HGET", &format!("hot:~shard-{n}"), "rate"]);
    assert_eq!([0, 2, 3].map(rate), [10; 3]);
    assert!(limiter.update_rate(hourly(80)).await.is_err());
    assert_eq!([0, 2, 3].map(rate), [20; 3], "it is stored");
    server.cli::<i64>(&["DEL", foreign]);
    limiter.set_rate(hourly(40)).await.unwrap();
    assert_eq!(granted(&limits, 50).await, 40);
}
