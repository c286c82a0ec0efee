//! Redis slow, gone, emptied, misused: what a caller sees, and what is left behind.
#![allow(clippy::disallowed_methods, reason = "real servers live in real time")]

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant, UNIX_EPOCH},
};

use ratelimit_runtime::{Decision, Event, Limiter, Limits, Quota, Reason, Rejection};
use tests::{
    Lateness, eventually,
    monitor::monitor,
    proxy::{Proxy, Then},
    redis_cluster::RedisCluster,
    redis_sentinel::RedisSentinel,
    redis_server::RedisServer,
    window::worst_window,
};

/// Long enough that no decision misses it because the machine is busy.
const DEADLINE: Duration = Duration::from_secs(2);
const SECOND: Duration = Duration::from_secs(1);

fn quota(rate: u32, per: Duration) -> Quota {
    Quota::new(rate.into(), per).unwrap()
}

async fn limits(url: &str, yaml: &str) -> Limits {
    Limits::builder().redis(url).limits_yaml(yaml).deadline(DEADLINE).build().await.unwrap()
}

async fn limiter(url: &str, rate: u32, per: Duration) -> Limiter {
    limits(url, "").await.limiter("x", quota(rate, per))
}

fn reason<T: std::fmt::Debug>(result: Result<T, Rejection>) -> Reason {
    result.unwrap_err().reason()
}

/// Admissions by the server's clock, of a caller that tries all the time.
async fn load(limiter: Limiter, run: Duration) -> Vec<(u64, u64)> {
    let end = Instant::now() + run;
    let mut admitted = Vec::new();
    while Instant::now() < end {
        match limiter.try_acquire(1).await {
            Ok(decision) if !decision.is_degraded() => {
                let at = decision.at().duration_since(UNIX_EPOCH).unwrap().as_millis();
                admitted.push((u64::try_from(at).unwrap(), 1));
            }
            Ok(_) => {}
            Err(rejection) => {
                assert_eq!(rejection.reason(), Reason::Limited, "{rejection}");
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }
    admitted
}

/// An operator looked for a call that is too expensive.
#[tokio::test]
async fn a_quota_that_only_the_lost_store_has_is_unknown() {
    let limits = limits("redis://127.0.0.1:1/", "").await;
    let rejection = limits.configured("x").try_acquire(1).await.unwrap_err();
    assert_eq!(rejection.reason(), Reason::StoreUnavailable);
    let text = rejection.to_string();
    assert!(text.ends_with("is unavailable, and this process does not know the quota"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_notices_a_lost_script_or_a_lost_key() {
    let server = RedisServer::start();
    let limiter = limiter(&server.url(), 20, Duration::from_millis(400)).await;
    let task = tokio::spawn(load(limiter, 6 * SECOND));
    for _ in 0..3 {
        // Losing any one key must not refill the limiter. What a lost log knew counts anew, so
        // each loss may cost a window and never grants one.
        for key in ["x", "{x}:value", "{x}:permits"] {
            tokio::time::sleep(Duration::from_millis(630)).await;
            let _: i64 = server.cli(&["DEL", key]);
            let _: String = server.cli(&["SCRIPT", "FLUSH"]);
        }
    }
    let admitted = task.await.unwrap();
    let worst = worst_window(&admitted, 400).unwrap();
    assert_eq!(worst.permits, 20, "{worst:?}");
    assert!(admitted.len() >= 200, "and it goes on: {} of 300 admitted", admitted.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flush_costs_one_more_window_and_no_error() {
    let server = RedisServer::start();
    let limiter = limiter(&server.url(), 20, 2 * SECOND).await;
    let task = tokio::spawn(load(limiter, 3 * SECOND));
    tokio::time::sleep(SECOND).await;
    let _: String = server.cli(&["FLUSHALL"]);
    let admitted = task.await.unwrap();
    let worst = worst_window(&admitted, 2000).unwrap();
    assert_eq!(worst.permits, 40, "a window before and a window after");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_and_restarted_empty_limits_again_at_once() {
    let server = RedisServer::start();
    let limiter = limiter(&server.url(), 10, 2 * SECOND).await;
    let task = tokio::spawn(load(limiter.clone(), 5 * SECOND));
    tokio::time::sleep(SECOND).await;
    server.kill_hard();
    tokio::time::sleep(Duration::from_millis(500)).await;
    server.restart();
    let restarted = Instant::now();
    loop {
        // The load may have taken all permits by then.
        let degraded = match limiter.peek(1).await {
            Ok(decision) => decision.is_degraded(),
            Err(rejection) => rejection.decision().is_none_or(Decision::is_degraded),
        };
        if !degraded {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert!(restarted.elapsed() < Duration::from_millis(1500), "it found the server again");
    }
    let admitted = task.await.unwrap();
    let worst = worst_window(&admitted, 2000).unwrap();
    assert!(worst.permits <= 20, "one more window for the data that was lost: {worst:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hung_server_costs_no_more_than_the_deadline() {
    let server = RedisServer::start();
    let yaml = "limiters:\n  l: { rate: 5, per: 1m }\n  a: { rate: 5, per: 1m, on_store_error: allow }\n  \
                r: { rate: 5, per: 1m, on_store_error: reject }\n";
    let deadline = Duration::from_millis(500);
    let builder = Limits::builder().redis(server.url()).limits_yaml(yaml).deadline(deadline);
    let limits = builder.build().await.unwrap();
    for name in ["l", "a", "r"] {
        assert!(!limits.configured(name).try_acquire(1).await.unwrap().is_degraded());
    }
    server.stop();
    let machine = Lateness::of_threads();
    let timed = async |name: &str| {
        let start = Instant::now();
        let result = limits.configured(name).try_acquire(1).await;
        machine.assert_within(deadline + deadline / 10, start);
        result
    };
    assert!(timed("a").await.unwrap().is_degraded(), "`allow` admits, and says so");
    for _ in 0..4 {
        assert!(timed("l").await.unwrap().is_degraded(), "`local` admits what was left");
    }
    assert_eq!(reason(timed("l").await), Reason::Limited);
    assert_eq!(reason(timed("r").await), Reason::StoreUnavailable);
    for _ in 0..200 {
        timed("a").await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.cont();
    let recovered = Instant::now();
    while limits.configured("a").try_acquire(1).await.is_ok_and(|decision| decision.is_degraded()) {
        assert!(recovered.elapsed() < Duration::from_secs(3), "it never came back");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The network lost a reply while the connection was set up, and no other attempt began as long as it was waited for.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_hangs_while_it_is_set_up_is_given_up() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let limiter = limiter(&proxy.url(), 1_000_000, 60 * SECOND).await;
    assert!(!limiter.try_acquire(1).await.unwrap().is_degraded());
    proxy.swallow_replies_to("TIME", 2, Then::Hang);
    proxy.drop_connections();
    let start = Instant::now();
    tokio::time::sleep(SECOND / 10).await;
    while limiter.try_acquire(1).await.unwrap().is_degraded() {
        assert!(start.elapsed() < 15 * SECOND, "it never connected again");
        tokio::time::sleep(SECOND / 100).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_away_at_startup_is_found_later() {
    let server = RedisServer::start();
    server.kill_hard();
    let events = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&events);
    let limits = Limits::builder()
        .redis(server.url())
        .no_limits_file()
        .deadline(DEADLINE)
        .on_event(move |event| seen.lock().unwrap().push(event.clone()))
        .build()
        .await
        .expect("a server that is away is no reason not to start");
    let limiter = limits.limiter("x", quota(5, SECOND));
    assert!(limiter.try_acquire(1).await.unwrap().is_degraded());
    server.restart();
    eventually("the store is up", 3 * SECOND, || {
        events.lock().unwrap().iter().any(|event| matches!(event, Event::StoreUp { .. }))
    });
    assert!(!limiter.try_acquire(1).await.unwrap().is_degraded());
    let downs =
        events.lock().unwrap().iter().filter(|e| matches!(e, Event::StoreDown { .. })).count();
    assert_eq!(downs, 1, "told once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_local_share_is_divided_by_the_instances() {
    let server = RedisServer::start();
    let limits = Limits::builder()
        .redis(server.url())
        .no_limits_file()
        .deadline(DEADLINE)
        .instances(4)
        .build()
        .await
        .unwrap();
    let limiter = limits.limiter("x", quota(10, 60 * SECOND));
    server.kill_hard();
    let mut admitted = 0;
    for _ in 0..20 {
        admitted += usize::from(limiter.try_acquire(1).await.is_ok());
    }
    assert_eq!(admitted, 2, "a quarter of 10, rounded down");
    // No share can ever grant so many at once.
    assert_eq!(reason(limiter.try_acquire(3).await), Reason::StoreUnavailable);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_belongs_to_somebody_else_is_never_touched() {
    let server = RedisServer::start();
    let limits = limits(&server.url(), "").await;
    let _: String = server.cli(&["SET", "config", "theirs"]);
    let _: i64 = server.cli(&["LPUSH", "{counter}:value", "theirs"]);
    let _: String = server.cli(&["SET", "{text}:value", "theirs"]);
    let _: String = server.cli(&["SET", "{log}:permits", "theirs"]);
    let _: i64 = server.cli(&["ZADD", "{member}:permits", "1", "theirs"]);
    for name in ["config", "counter", "text", "log", "member"] {
        let limiter = limits.limiter(name, quota(5, SECOND));
        for _ in 0..3 {
            let rejection = limiter.try_acquire(1).await.unwrap_err();
            assert_eq!(rejection.reason(), Reason::StoreMisconfigured, "{name}: {rejection}");
        }
    }
    assert_eq!(server.cli::<String>(&["GET", "config"]), "theirs");
    assert_eq!(server.cli::<Vec<String>>(&["LRANGE", "{counter}:value", "0", "-1"]), ["theirs"]);
    assert_eq!(server.cli::<String>(&["GET", "{text}:value"]), "theirs");
    assert_eq!(server.cli::<String>(&["GET", "{log}:permits"]), "theirs");
    assert_eq!(server.cli::<Vec<String>>(&["ZRANGE", "{member}:permits", "0", "-1"]), ["theirs"]);
    // One limiter's trouble is not the store's.
    assert!(!limits.limiter("fine", quota(5, SECOND)).try_acquire(1).await.unwrap().is_degraded());
}

#[tokio::test]
async fn a_database_that_the_server_lacks_is_refused_at_startup() {
    let server = RedisServer::start();
    for database in [99, -1] {
        let address = format!("redis://{}/{database}", server.address());
        let error = Limits::builder().redis(address).no_limits_file().build().await.unwrap_err();
        let said = error.to_string();
        assert!(said.contains("index is out of range; write a database that the server"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_and_permissions_are_checked_at_startup() {
    let server = RedisServer::builder().password("s3cr3t-canary").start();
    let start = async |url: String| {
        let error = Limits::builder().redis(url).no_limits_file().build().await.unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(!text.contains("s3cr3t-canary"), "the password shows: {text}");
        text
    };
    let wrong = start(server.url_for("default", "wrong")).await;
    assert!(
        wrong.contains("WRONGPASS") || wrong.contains("Password authentication failed"),
        "{wrong}"
    );
    assert!(!wrong.contains(".;"), "the server's sentence goes on: {wrong}");

    let user = |name: &str, commands: &[&str]| {
        let mut connection = redis::Client::open(server.url_for("default", "s3cr3t-canary"))
            .unwrap()
            .get_connection()
            .unwrap();
        let mut acl = redis::cmd("ACL");
        acl.arg("SETUSER").arg(name).arg("on").arg(">s3cr3t-canary").arg("~*").arg("-@all");
        acl.arg(commands).exec(&mut connection).unwrap();
    };
    let all = [
        "+time",
        "+hmget",
        "+hget",
        "+hset",
        "+hdel",
        "+exists",
        "+get",
        "+set",
        "+zadd",
        "+zcard",
        "+zrange",
        "+zrangebyscore",
        "+zrem",
        "+zremrangebyrank",
        "+pttl",
        "+pexpire",
        "+persist",
        "+del",
        "+unlink",
        "+eval",
        "+evalsha",
    ];
    user("enough", &all);
    let limits = Limits::builder()
        .redis(server.url_for("enough", "s3cr3t-canary"))
        .no_limits_file()
        .deadline(DEADLINE)
        .build()
        .await
        .expect("the documented commands are enough");
    let limiter = limits.limiter("x", quota(1, 60 * SECOND));
    assert!(!limiter.try_acquire(1).await.unwrap().is_degraded());
    assert_eq!(reason(limiter.try_acquire(1).await), Reason::Limited);

    for missing in ["+time", "+hdel", "+zadd", "+pexpire", "+evalsha"] {
        let some: Vec<_> = all.iter().copied().filter(|command| *command != missing).collect();
        user("short", &some);
        let limits = Limits::builder()
            .redis(server.url_for("short", "s3cr3t-canary"))
            .no_limits_file()
            .build()
            .await;
        let error = limits.map(|_| ()).expect_err(missing).to_string();
        assert!(error.contains("grant"), "without {missing}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_decision_is_one_command() {
    let server = RedisServer::start();
    let limits = limits(&server.url(), "").await;
    let handle = tokio::runtime::Handle::current();
    let entries = monitor(&server, || {
        tokio::task::block_in_place(|| {
            handle.block_on(async {
                let limiter = limits.limiter("fresh", quota(3, 60 * SECOND));
                for _ in 0..3 {
                    limiter.try_acquire(1).await.unwrap();
                }
                // The answer to the third told when a fourth can be granted.
                limiter.try_acquire(1).await.unwrap_err();
                limiter.try_acquire(2).await.unwrap_err();
                limiter.try_acquire(2).await.unwrap_err();
            });
        });
    });
    let sent: Vec<_> = entries.iter().filter(|entry| !entry.is_from_script()).collect();
    let commands: Vec<_> = sent.iter().map(|entry| entry.command()).collect();
    assert_eq!(commands, ["EVALSHA"; 4], "no extra one for the first use, none for what is known");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_is_never_charged_twice() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let limiter = limiter(&proxy.url(), 10, 60 * SECOND).await;
    assert_eq!(limiter.try_acquire(1).await.unwrap().remaining(), 9);
    proxy.swallow_replies_to("EVALSHA", 1, Then::Cut);
    assert!(limiter.try_acquire(1).await.unwrap().is_degraded());
    proxy.restore();
    let start = Instant::now();
    let decision = loop {
        let decision = limiter.peek(1).await.unwrap();
        if !decision.is_degraded() {
            break decision;
        }
        assert!(start.elapsed() < 3 * SECOND);
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert_eq!(decision.remaining(), 8, "charged once, though its answer was lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sentinel_failover_is_followed_and_admits_nothing_twice() {
    let sentinel = RedisSentinel::start();
    let limiter = limiter(&sentinel.url(), 10, 60 * SECOND).await;
    for _ in 0..10 {
        assert!(!limiter.try_acquire(1).await.unwrap().is_degraded());
    }
    sentinel.wait_until_synced();
    sentinel.failover();
    let start = Instant::now();
    loop {
        match limiter.peek(1).await {
            Ok(decision) => assert!(decision.is_degraded(), "all 10 are taken: {decision:?}"),
            Err(rejection) if rejection.decision().is_some_and(|found| !found.is_degraded()) => {
                break assert_eq!(rejection.reason(), Reason::Limited);
            }
            Err(_) => {}
        }
        assert!(start.elapsed() < 15 * SECOND, "it never found the new master");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_without_one_node_limits_on_the_others() {
    let cluster = RedisCluster::builder().config("cluster-require-full-coverage", "no").start();
    let url = format!("redis-cluster://{}", cluster.addresses().join(","));
    let limits = limits(&url, "").await;
    let limiters: Vec<_> =
        (0..60).map(|n| limits.limiter(&format!("key-{n}"), quota(1000, 60 * SECOND))).collect();
    for limiter in &limiters {
        assert!(!limiter.try_acquire(1).await.unwrap().is_degraded());
    }
    cluster.node(0).kill_hard();
    tokio::time::sleep(SECOND).await;
    let mut degraded = Vec::new();
    for limiter in &limiters {
        let _ = limiter.try_acquire(1).await;
        let answer = limiter.try_acquire(1).await.unwrap();
        degraded.push((cluster.master_of_key(limiter.name()) == 0, answer.is_degraded()));
    }
    for (on_dead_node, degraded) in degraded {
        assert_eq!(degraded, on_dead_node, "the keys of the dead node, and no others");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_names_work_on_a_cluster_and_never_meet() {
    let cluster = RedisCluster::start();
    let url = format!("redis-cluster://{}", cluster.addresses().join(","));
    let limits = limits(&url, "").await;
    let names = [
        "a{b",
        "a}b",
        "{}x",
        "x{}",
        "}{",
        "{{u}}",
        "a\0b",
        "a\nb",
        "",
        " ",
        "a:b",
        "a",
        "b",
        "%",
        "~",
        "{x}:value",
        "x",
        &"y".repeat(65_536),
        &"{".repeat(65_536),
        "ключ",
        "t:{acme}:7",
    ];
    for name in names {
        let limiter = limits.limiter(name, quota(1, 60 * SECOND));
        let decision = limiter.try_acquire(1).await.unwrap_or_else(|e| panic!("{name:.20?}: {e}"));
        assert!(!decision.is_degraded(), "{name:.20?}");
        assert!(limiter.name().len() <= 512);
        assert_eq!(reason(limiter.try_acquire(1).await), Reason::Limited, "{name:.20?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_moves_is_followed_without_a_degraded_call() {
    let cluster = RedisCluster::start();
    let limits = Limits::builder()
        .redis(cluster.url())
        .no_limits_file()
        .deadline(2 * SECOND)
        .build()
        .await
        .unwrap();
    let limiter = limits.limiter("{move}:me", quota(100, 60 * SECOND));
    let mut left = 100;
    let mut take = async |when: &str| {
        let decision = limiter.try_acquire(1).await.unwrap();
        left -= 1;
        assert_eq!((decision.is_degraded(), decision.remaining()), (false, left), "{when}");
    };
    take("before").await;
    let slot = cluster.slot_of("{move}:me");
    let to = (cluster.master_of(slot) + 1) % 3;
    cluster.start_migration(slot, to);
    take("while the slot migrates").await;
    for key in ["{move}:me", "{move}:me:value", "{move}:me:permits"] {
        cluster.migrate_key(key, to);
    }
    take("when its keys are over there").await;
    cluster.finish_migration(slot, to);
    take("when it has moved").await;
    take("and after").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_loads_its_data_is_waited_for_in_the_background() {
    let server = RedisServer::builder()
        .config("key-load-delay", "1000")
        .config("rdbcompression", "no")
        .start();
    // Much shorter than the loading takes.
    let builder = Limits::builder().redis(server.url()).no_limits_file();
    let limits = builder.deadline(Duration::from_millis(200)).build().await.unwrap();
    let limiter = limits.limiter("x", quota(3, 60 * SECOND));
    limiter.try_acquire(2).await.unwrap();
    server.cli::<()>(&["DEBUG", "POPULATE", "1000", "key", "16384"]);
    server.cli::<()>(&["SAVE"]);
    server.restart_loading();
    assert!(limiter.try_acquire(1).await.unwrap().is_degraded());
    let start = Instant::now();
    loop {
        match limiter.peek(1).await {
            Err(rejection) if rejection.decision().is_some_and(|found| !found.is_degraded()) => {
                break;
            }
            Err(_) => {}
            // A peek may come before the charge of the third.
            Ok(decision) => assert!(!decision.is_degraded(), "all 3 are taken"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(start.elapsed() < 20 * SECOND, "it never came back");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_still_refuses_and_degrades_the_rest() {
    let server = RedisServer::start();
    let limits = limits(&server.url(), "").await;
    let limiter = limits.limiter("full", quota(1, 60 * SECOND));
    limiter.try_acquire(1).await.unwrap();
    let _: String = server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let answer = limits.limiter("new", quota(1, 60 * SECOND)).try_acquire(1).await.unwrap();
    assert!(answer.is_degraded(), "a server without memory is a server that is away");
    let _: String = server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    let start = Instant::now();
    while limiter.peek(1).await.is_ok_and(|decision| decision.is_degraded()) {
        assert!(start.elapsed() < 3 * SECOND);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(reason(limiter.try_acquire(1).await), Reason::Limited);
}
