//! Passwords, and the values of keys, appear in no message: for any form of address, and after any failure.

use std::{
    error::Error,
    fmt::Write as _,
    sync::{Arc, Mutex},
    time::Duration,
};

use ratelimit_runtime::{Event, Limits, LimitsBuilder, Quota, Reason};
use tests::{
    eventually, redis_cluster::RedisCluster, redis_sentinel::RedisSentinel,
    redis_server::RedisServer,
};

const SECRET: &str = "s3cr3t-canary";

/// Addresses that are accepted; no server answers there.
const ACCEPTED: &[&str] = &[
    "redis://app:s3cr3t-canary@127.0.0.1:1/0",
    "redis://:s3cr3t-canary@127.0.0.1:1",
    "redis://:s3cr3t-canary%40x@127.0.0.1:1?protocol=resp3",
    "rediss://app:s3cr3t-canary@127.0.0.1:1/0",
    "unix:///nowhere.sock?user=app&pass=s3cr3t-canary",
    "unix:///nowhere.sock?pass=s3cr3t-canary%40x&db=1",
    "unix:///nowhere.sock?pass=x@s3cr3t-canary",
    "redis+unix:///nowhere.sock?pass=s3cr3t-canary",
    "redis-cluster://:s3cr3t-canary@127.0.0.1:1,127.0.0.1:2",
    "rediss-cluster://app:s3cr3t-canary@127.0.0.1:1",
    "redis-sentinel://app:s3cr3t-canary@127.0.0.1:1,127.0.0.1:2/0?master=main",
    "rediss-sentinel://:s3cr3t-canary@127.0.0.1:1/0?master=main",
    "redis-sentinel://127.0.0.1:1/0?master=main&sentinel_user=watch&sentinel_password=s3cr3t-canary",
    "redis-sentinel://127.0.0.1:1/0?master=main&sentinel_password=x@s3cr3t-canary",
];

/// Addresses with mistakes.
const REFUSED: &[&str] = &[
    "redis://:s3cr3t-canary@",
    "redis://app:s3cr3t-canary",
    "redis://:s3cr3t-canary@127.0.0.1:port",
    "redis://s3cr3t-canary@127.0.0.1:1",
    "redis://app:s3cr3t-canary@127.0.0.1:1/database",
    "redis://app:x@s3cr3t-canary@127.0.0.1:port",
    "redis://app:x/s3cr3t-canary@127.0.0.1:1",
    "redis://app:x?s3cr3t-canary@127.0.0.1:1",
    "redis://app:x#s3cr3t-canary@127.0.0.1:1",
    "reddis://app:s3cr3t-canary@127.0.0.1:1",
    "app:s3cr3t-canary@127.0.0.1:1",
    "redis://127.0.0.1:1?pass=s3cr3t-canary",
    "redis://127.0.0.1:1?pass=x@s3cr3t-canary",
    "unix:///nowhere.sock?pass=s3cr3t-canary&db=x",
    "unix:///nowhere.sock?password=s3cr3t-canary",
    "redis-cluster://127.0.0.1:1?password=s3cr3t-canary",
    "redis-sentinel://app:x?s3cr3t-canary=y@127.0.0.1:1/0?master=main",
    "redis-cluster://:s3cr3t-canary@a:port",
    "redis-sentinel://:s3cr3t-canary@127.0.0.1:1",
    "redis-sentinel://127.0.0.1:1?sentinel_password=s3cr3t-canary",
    "redis-sentinel://127.0.0.1:1?master=main&sentinel_pasword=s3cr3t-canary",
    "redis-sentinel://127.0.0.1:port?master=main&sentinel_password=s3cr3t-canary",
    // A socket has no login in front of its path.
    "unix://:s3cr3t-canary@/nowhere.sock",
    "unix://app:s3cr3t-canary@nowhere.sock?db=1",
    // A wrong separator in front of the parameter.
    "unix:///nowhere.sock?db=1?pass=s3cr3t-canary",
    "unix:///nowhere.sock?db=1;pass=s3cr3t-canary",
    "redis://127.0.0.1:1?db=1?pass=s3cr3t-canary",
    "redis://127.0.0.1:1/0&pass=s3cr3t-canary",
    "redis://127.0.0.1&pass=s3cr3t-canary",
    "127.0.0.1:1?pass=s3cr3t-canary",
    "unix:///nowhere.sock&pass=s3cr3t-canary",
    "redis+unix:///nowhere.sock;pasword=s3cr3t-canary?db=1",
    // The place of the server would be what is in front.
    "redis://s3cr3t-canary?x@127.0.0.1:1",
    "redis://s3cr3t-canary#x@127.0.0.1:1/0?x=1",
    "redis-cluster://s3cr3t-canary?x@127.0.0.1:1",
    // The same, and the password has an `@`.
    "redis://127.0.0.1:1/0&pass=x@s3cr3t-canary",
    "redis://127.0.0.1:port#pass=x@s3cr3t-canary",
    "redis-cluster://127.0.0.1:1;pass=x@s3cr3t-canary:port",
    // A part of the password in front of a `:`, where the name of the user would be.
    "redis://x@s3cr3t-canary:y@127.0.0.1:port",
    "redis://s3cr3t-canary:@127.0.0.1:port",
    // A password in front of the `://`.
    "redis:/app:s3cr3t-canary://x@127.0.0.1:1",
];

/// Everything that can be read of limits with this builder.
async fn texts(builder: LimitsBuilder) -> (bool, String) {
    let events = Arc::new(Mutex::new(String::new()));
    let seen = Arc::clone(&events);
    let builder = builder.deadline(Duration::from_millis(20)).on_event(move |event| {
        let _ = writeln!(seen.lock().unwrap(), "{event} {event:?}");
    });
    let mut text = format!("{builder:?} {builder:#?}");
    let built = builder.build().await;
    let accepted = built.is_ok();
    match &built {
        Ok(limits) => {
            let _ = writeln!(text, "{limits:?} {limits:#?} {0} {0:?}", limits.report());
            let limiter = limits.limiter("k", Quota::new(5, Duration::from_secs(1)).unwrap());
            let _ = writeln!(text, "{limiter:?} {:?}", limiter.try_acquire(1).await);
            let error = limiter.config().await.unwrap_err();
            let _ = writeln!(
                text,
                "{error} {error:?} {:?}",
                error.source().map(<dyn Error>::to_string)
            );
        }
        Err(error) => {
            let _ = writeln!(text, "{error} {error:?}");
        }
    }
    text.push_str(&events.lock().unwrap());
    (accepted, text)
}

#[tokio::test]
async fn the_password_of_an_address_appears_nowhere() {
    let builders: [fn(&str) -> LimitsBuilder; 2] = [
        |url| Limits::builder().redis(url).no_limits_file(),
        |url| Limits::builder().limits_yaml(format!("store: \"{url}\"\n")),
    ];
    for builder in builders {
        for (urls, accepted) in [(ACCEPTED, true), (REFUSED, false)] {
            for url in urls {
                let (was, text) = texts(builder(url)).await;
                assert_eq!(was, accepted, "`{url}`: {text}");
                assert!(!text.contains(SECRET), "`{url}` shows in: {text}");
            }
        }
    }
}

#[tokio::test]
async fn the_text_of_a_limits_file_is_not_echoed() {
    for yaml in [
        "redis://:s3cr3t-canary@h\n",
        "s3cr3t-canary\n",
        "- s3cr3t-canary\n",
        "store: \"redis://:s3cr3t-canary@h\n",
        "store: redis://:s3cr3t-canary@h: 6379\n",
        "store: [redis://:s3cr3t-canary@h]\n",
        "store: { redis: s3cr3t-canary }\n",
        "  store: redis://:s3cr3t-canary@h\nlimiters: {}\n}",
    ] {
        let (_, text) = texts(Limits::builder().limits_yaml(yaml)).await;
        assert!(!text.contains(SECRET), "{yaml:?} shows in: {text}");
    }
}

/// What may be shown helps: who and where, but not how.
#[tokio::test]
async fn the_rest_of_an_address_is_shown() {
    for (url, shown) in [
        ("redis://app:s3cr3t-canary@127.0.0.1:1/0", "redis://app:***@127.0.0.1:1/0"),
        ("redis://s3cr3t-canary@127.0.0.1:1", "redis://***@127.0.0.1:1"),
        (" redis://:s3cr3t-canary@127.0.0.1:1/0\n", "store redis://:***@127.0.0.1:1/0"),
        ("unix:///a.sock?pass=s3cr3t-canary&db=1", "unix:///a.sock?pass=***&db=1"),
        (
            "redis-sentinel://127.0.0.1:1/0?master=main&sentinel_password=s3cr3t-canary",
            "redis-sentinel://127.0.0.1:1/0?master=main&sentinel_password=***",
        ),
    ] {
        let (_, text) = texts(Limits::builder().redis(url).no_limits_file()).await;
        assert!(text.contains(shown), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_have_a_login_of_their_own() {
    let group = RedisSentinel::builder().sentinel_password("s3cr3t@canary").start();
    let limits = |login: &str| {
        let url = format!("{}{login}", group.url());
        Limits::builder().redis(url).no_limits_file().deadline(Duration::from_secs(2)).build()
    };
    for login in [
        "&sentinel_password=s3cr3t%40canary",
        "&sentinel_user=default&sentinel_password=s3cr3t%40canary",
    ] {
        let limits = limits(login).await.expect("the sentinels accept the login");
        let limiter = limits.limiter("k", Quota::new(5, Duration::from_secs(1)).unwrap());
        assert!(!limiter.try_acquire(1).await.unwrap().is_degraded(), "{login}");
    }
    // Without one, the advice was to correct it.
    for (login, advice) in [
        ("", "or if a sentinel requires a login, add `&sentinel_password=`"),
        (
            "&sentinel_password=wrong",
            "or if a sentinel refuses the login, correct `sentinel_password`",
        ),
    ] {
        let refused = limits(login).await.map(drop).unwrap_err().to_string();
        assert!(!refused.contains("wrong"), "{refused}");
        // That of the servers, which an operator would correct first, is right.
        assert!(refused.ends_with(advice), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_without_a_node_is_reported_without_the_key() {
    let cluster = RedisCluster::builder().config("cluster-require-full-coverage", "no").start();
    let slot = cluster.slot_of("user:ann").to_string();
    // A node can hear of the slot from another one, also after it has removed it.
    eventually("all nodes agree", Duration::from_secs(30), || {
        cluster.nodes().iter().all(|node| {
            let _ = node.try_cli::<()>(&["CLUSTER", "DELSLOTS", &slot]);
            let info: String = node.cli(&["CLUSTER", "INFO"]);
            info.contains("cluster_slots_assigned:16383\r")
        })
    });
    let down = Arc::<Mutex<Vec<_>>>::default();
    let seen = Arc::clone(&down);
    let builder = Limits::builder().redis(cluster.url()).deadline(Duration::from_millis(500));
    let builder = builder.on_event(move |event| {
        if let Event::StoreDown { .. } = event {
            seen.lock().unwrap().push(event.to_string());
        }
    });
    let limits = builder.build().await.unwrap();
    let limiter = limits.limiter("user:ann", Quota::per_second(10));
    assert!(limiter.try_acquire(1).await.unwrap().is_degraded());
    let down = down.lock().unwrap();
    let expected = format!("no node serves slot {slot}");
    assert!(down.iter().any(|event| event.contains(&expected)), "{down:?}");
    assert!(down.iter().all(|event| !event.contains("ann")), "{down:?}");
}

/// The server repeats the arguments of a command that it does not know.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_the_server_lacks_is_reported_without_the_key() {
    // Of a short key, it repeats the binary arguments too, and the driver cannot read that.
    for key in [format!("zoe{}", "-".repeat(60)), "zoe".to_owned()] {
        let server = RedisServer::builder().config("rename-command", "EVALSHA other").start();
        server.kill_hard();
        let limits = Limits::builder().redis(server.url()).no_limits_file().build().await.unwrap();
        server.restart();
        let limiter = limits.limiter(&key, Quota::per_second(10));
        let look = async {
            loop {
                match limiter.try_acquire(1).await {
                    Err(it) if it.reason() == Reason::StoreMisconfigured => break it,
                    _ => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
        };
        let rejection = tokio::time::timeout(Duration::from_secs(10), look).await.unwrap();
        let error = rejection.source().unwrap().to_string();
        assert!(error.contains("unknown command 'EVALSHA'; let the server run"), "{error}");
        assert!(!chain(rejection.source()).contains("zoe"), "{}", chain(rejection.source()));
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let rejection = limiter.try_acquire(1).await.unwrap_err();
            assert_eq!(rejection.reason(), Reason::StoreMisconfigured, "{rejection}");
        }
    }
}

fn chain(error: Option<&dyn Error>) -> String {
    error.map_or_else(String::new, |error| format!("{error}: {}", chain(error.source())))
}
