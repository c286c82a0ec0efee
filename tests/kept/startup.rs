//! What is found out before traffic.

use std::{
    io::Write,
    net::TcpListener,
    sync::{Arc, Mutex},
    thread,
};

use ratelimit_runtime::Limits;
use tests::{
    ports::Port, redis_cluster::RedisCluster, redis_sentinel::RedisSentinel,
    redis_server::RedisServer,
};

use super::calls::{DEADLINE, HOUR, admitted_of, quota};

/// The commands that the documentation of the store says a user needs.
const NEEDED: [&str; 21] = [
    "TIME",
    "HMGET",
    "HGET",
    "HSET",
    "HDEL",
    "EXISTS",
    "GET",
    "SET",
    "ZADD",
    "ZCARD",
    "ZRANGE",
    "ZRANGEBYSCORE",
    "ZREM",
    "ZREMRANGEBYRANK",
    "PTTL",
    "PEXPIRE",
    "PERSIST",
    "DEL",
    "UNLINK",
    "EVAL",
    "EVALSHA",
];

const PASSWORD: &str = "s3cr3t-canary";

/// Starts as a user who may run these commands, and no others.
async fn start_with(server: &RedisServer, user: &str, commands: &[&str]) -> Result<Limits, String> {
    create_user(server, user, commands);
    start(server.url_for(user, PASSWORD)).await
}

async fn start(url: String) -> Result<Limits, String> {
    let builder = Limits::builder().redis(url).no_limits_file();
    builder.deadline(DEADLINE).build().await.map_err(|error| error.to_string())
}

fn create_user(server: &RedisServer, user: &str, commands: &[&str]) {
    let mut acl = redis::cmd("ACL");
    acl.arg("SETUSER").arg(user).arg("on").arg(format!(">{PASSWORD}")).arg("~*").arg("-@all");
    for command in commands {
        acl.arg(format!("+{}", command.to_lowercase()));
    }
    acl.exec(&mut server.connect().unwrap()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn each_documented_command_that_a_user_may_not_run_is_found_at_startup() {
    // Startup tried a few of them; the others failed in the middle of a script, later.
    let server = RedisServer::start();
    for missing in NEEDED {
        // A server that has just started knows no scripts yet.
        let _: String = server.cli(&["SCRIPT", "FLUSH"]);
        let others: Vec<_> = NEEDED.into_iter().filter(|command| *command != missing).collect();
        let started = start_with(&server, &format!("without-{missing}"), &others).await;
        let Err(error) = started else { panic!("it starts without {missing}") };
        assert!(error.contains("grant"), "it says what to do without {missing}: {error}");
        let named = error.to_uppercase();
        assert!(named.contains(missing), "it names {missing}: {error}");
        assert!(!error.contains(PASSWORD), "the password shows: {error}");
    }
}

/// Only one of the nodes was tried, and calls to the others were rejected later.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_user_lacks_on_any_node_of_a_cluster_is_found_at_startup() {
    let cluster = RedisCluster::start();
    let commands = [&NEEDED[..], &["CLUSTER|SLOTS"]].concat();
    let without = |missing: &str| -> Vec<_> {
        commands.iter().copied().filter(|command| *command != missing).collect()
    };
    for node in cluster.nodes() {
        create_user(node, "app", &commands);
    }
    let url = cluster.url().replace("://", &format!("://app:{PASSWORD}@"));
    start(url.clone()).await.unwrap();
    for node in cluster.nodes() {
        create_user(node, "app", &without("ZADD"));
        let of_node = format!("redis at {}: ", node.address());
        let error = start(url.clone()).await.unwrap_err();
        assert!(error.contains(&of_node), "{error}");
        assert!(error.contains("grant these commands: ZADD"), "{error}");
        let _: () = node.cli(&["ACL", "DELUSER", "app"]);
        let error = start(url.clone()).await.unwrap_err();
        assert!(error.contains(&of_node), "{error}");
        assert!(error.contains("correct the user or the password"), "{error}");
        create_user(node, "app", &commands);
    }
    for node in cluster.nodes() {
        create_user(node, "app", &without("ZADD"));
    }
    let error = start(url).await.unwrap_err();
    assert!(error.starts_with("redis: ") && !error.contains("redis at"), "of all nodes: {error}");
}

/// The advice was to add a password that was there, and to grant commands for a lack of keys. Without `SELECT`, the
/// program started, and its server was unavailable.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_user_lacks_is_an_error_that_says_so() {
    let server = RedisServer::start();
    start_with(&server, "app", &NEEDED).await.unwrap();
    let mut acl = redis::cmd("ACL");
    acl.arg(&[
        "SETUSER",
        "confined",
        "on",
        &format!(">{PASSWORD}"),
        "+@all",
        "~shop:*",
        "~{shop:*",
    ]);
    acl.exec(&mut server.connect().unwrap()).unwrap();
    // As `requirepass` does.
    let mut requirepass = redis::cmd("ACL");
    requirepass.arg(&["SETUSER", "default", "resetpass", &format!(">{PASSWORD}")]);
    requirepass.exec(&mut server.connect().unwrap()).unwrap();
    for (url, advice) in [
        (server.url_for("app", "wrong"), "; correct the user or the password in the store URL"),
        (
            server.url(),
            "; add `:password@` to the store URL, or `user:password@` for an ACL user; to a `unix://` URL, add \
             `?pass=password`, or `?user=name&pass=password`",
        ),
        (
            server.url_for("confined", PASSWORD),
            "; let the Redis user access all keys that begin with the `key_prefix`, with and without a brace in \
             front: `~PREFIX*` and `~{PREFIX*`",
        ),
        (
            format!("redis://app:{PASSWORD}@{}/1", server.address()),
            "; grant the Redis user the commands listed in docs/outages.md",
        ),
    ] {
        let builder = Limits::builder().redis(url).no_limits_file().deadline(DEADLINE);
        let error = builder.build().await.map(drop).unwrap_err().to_string();
        assert!(error.ends_with(advice), "{error}");
    }
}

/// The advice was to add `:password@` and `/0`, which no address of a socket has: with `/0` at its end the program
/// started, and its server was unavailable.
#[tokio::test(flavor = "multi_thread")]
async fn the_advice_about_an_address_holds_for_a_socket() {
    let server = RedisServer::builder().config("unixsocket", "redis.sock").start();
    let [_, dir]: [String; 2] = server.cli(&["CONFIG", "GET", "dir"]);
    let url = format!("unix://{dir}/redis.sock");
    create_user(&server, "app", &[&NEEDED[..], &["SELECT"]].concat());
    let url_for = |db| format!("{url}?user=app&pass={PASSWORD}&db={db}");
    start(url_for(1)).await.unwrap();

    let error = start(url_for(99)).await.unwrap_err();
    assert!(error.ends_with("such as `/0`; of a `unix://` address, `?db=0`"), "{error}");
    let () = server.cli(&["ACL", "SETUSER", "default", "resetpass", &format!(">{PASSWORD}")]);
    let error = start(url).await.unwrap_err();
    let advice = "; to a `unix://` URL, add `?pass=password`, or `?user=name&pass=password`";
    assert!(error.ends_with(advice), "{error}");
}

/// The error was that the user lacks permissions, and advised to grant them.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_the_server_renamed_is_an_error_that_says_so() {
    for renamed in ["PERSIST", "EVALSHA"] {
        let server =
            RedisServer::builder().config("rename-command", &format!("{renamed} \"\"")).start();
        let builder = Limits::builder().redis(server.url()).no_limits_file().deadline(DEADLINE);
        let error = builder.build().await.map(drop).unwrap_err().to_string();
        assert!(error.contains(renamed) && error.contains("`rename-command`"), "{error}");
        assert!(!error.contains("permissions") && !error.contains("grant"), "{error}");
    }
}

/// The program started, and calls were rejected once several limiters were in use at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_a_cluster_in_place_of_a_server_is_an_error_that_says_so() {
    let cluster = RedisCluster::start();
    for node in cluster.nodes() {
        let error = start(node.url()).await.unwrap_err();
        assert!(error.contains("; write `redis-cluster://` in the store's address"), "{error}");
    }
}

/// The program started, and its server was unavailable because of a broken pipe.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_in_protected_mode_is_an_error_that_says_so() {
    // Only a client of another host sees this.
    let denied = "-DENIED Redis is running in protected mode because protected mode is enabled and no password is \
                  set for the default user. In this mode connections are only accepted from the loopback \
                  interface.\r\n";
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    thread::spawn(move || {
        // A client may be gone.
        server.incoming().for_each(|client| _ = client.unwrap().write_all(denied.as_bytes()));
    });
    for url in [format!("redis://{address}"), format!("redis-cluster://{address}")] {
        let error = start(url).await.unwrap_err();
        let expected = "redis: DENIED Redis is running in protected mode; give the server a password, and write it in \
                        the store's address; only if no untrusted host can reach the server, set \
                        `protected-mode no` on it instead";
        assert_eq!(error, expected);
    }
}

/// The advice was to end a `rename-command` that no one wrote.
#[tokio::test(flavor = "multi_thread")]
async fn a_sentinel_in_place_of_a_server_is_an_error_that_says_so() {
    let sentinel = RedisSentinel::start();
    let builder = Limits::builder().redis(&*sentinel.sentinel_urls()[0]).no_limits_file();
    let error = builder.deadline(DEADLINE).build().await.map(drop).unwrap_err().to_string();
    let advice = "; if this is a sentinel, write a `redis-sentinel://` address";
    assert!(error.contains("TIME") && error.contains(advice), "{error}");
}

/// The driver's text said what is wrong, and nothing said what to write.
#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_the_driver_refuses_is_an_error_with_advice() {
    let server = RedisServer::start();
    let in_place_of_sentinel = format!("redis-sentinel://{}?master=main", server.address());
    let insecure = format!("rediss://{}/#insecure", server.address());
    for (url, advice) in [
        (
            in_place_of_sentinel,
            "; write the addresses of the sentinels, or `redis://` and the address of the server",
        ),
        (
            insecure,
            "; remove `#insecure` from the store's address, and set `tls_ca` to a file with the \
             authority's certificate",
        ),
    ] {
        let builder = Limits::builder().redis(url).no_limits_file().deadline(DEADLINE);
        let error = builder.build().await.map(drop).unwrap_err().to_string();
        assert!(error.ends_with(advice), "{error}");
    }
}

/// Sentinels reply the same during a failover, so the program starts, without Redis.
#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_no_sentinel_knows_or_that_is_out_of_reach_shows_with_advice() {
    let group = RedisSentinel::start();
    let port = Port::reserve().number().to_string();
    for sentinel in group.sentinels() {
        let _: () = sentinel.cli(&["SENTINEL", "MONITOR", "gone", "127.0.0.1", &port, "2"]);
        // As if only clients could not reach it.
        let _: () =
            sentinel.cli(&["SENTINEL", "SET", "gone", "down-after-milliseconds", "3600000"]);
    }
    let unreached = format!(
        "redis: master at 127.0.0.1:{port}: Connection refused (os error 111); if it is up, make the sentinels monitor \
         it at an address that clients can reach"
    );
    for (name, advice) in [
        (
            "other",
            "; if this is not a failover, correct the `master` in the store's address, or let the sentinels reach \
             that master",
        ),
        ("gone", &unreached),
    ] {
        let first = first_event(group.url().replace(RedisSentinel::MASTER_NAME, name)).await;
        assert!(first.ends_with(advice), "{first}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there_shows_with_its_address() {
    let port = Port::reserve().number();
    let at = format!("127.0.0.1:{port}");
    for (url, at) in [
        (format!("redis://:{PASSWORD}@{at}/1"), at),
        (format!("unix:///no/such.sock?pass={PASSWORD}"), "/no/such.sock".to_owned()),
    ] {
        let first = first_event(url).await;
        let expected = format!("rate limit store is unavailable: redis at {at}: ");
        assert!(first.starts_with(&expected) && !first.contains(PASSWORD), "{first}");
    }
    let at = format!("127.0.0.1:{port}");
    let first = first_event(format!("redis-sentinel://:{PASSWORD}@{at}?master=main")).await;
    let expected =
        format!("rate limit store is unavailable: redis: sentinel at {at}: Connection refused");
    assert!(first.starts_with(&expected) && !first.contains("master"), "{first}");
}

/// Starts with a store at this address, and returns what is reported first.
async fn first_event(url: String) -> String {
    let events = Arc::<Mutex<Vec<String>>>::default();
    let seen = Arc::clone(&events);
    let builder = Limits::builder().redis(url).no_limits_file().deadline(DEADLINE);
    let builder = builder.on_event(move |event| seen.lock().unwrap().push(event.to_string()));
    builder.build().await.unwrap();
    let events = events.lock().unwrap();
    events[0].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_commands_are_enough_for_every_rule() {
    // What is not documented was not missing, since no test counted by such a user.
    let server = RedisServer::start();
    let limits = start_with(&server, "enough", &NEEDED).await.unwrap();
    let quota = quota(2, HOUR);
    for (name, quota) in [
        ("sliding", quota),
        ("bucket", quota.token_bucket(2).unwrap()),
        ("fixed", quota.fixed_window()),
    ] {
        let limiter = limits.limiter(name, quota);
        assert_eq!(admitted_of(&limiter, 4).await, 2, "{name}");
        assert_eq!(limiter.release(1).await.unwrap(), 1, "{name}");
        assert_eq!(admitted_of(&limiter, 4).await, 1, "{name}");
        assert!(limiter.expire(HOUR).await.unwrap(), "{name}");
        assert!(limiter.ttl().await.unwrap().is_some(), "{name}");
        assert!(limiter.clear_expire().await.unwrap(), "{name}");
        assert!(limiter.config().await.unwrap().is_some(), "{name}");
        assert!(limiter.delete().await.unwrap(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_found_missing_on_a_server_that_knows_the_scripts_too() {
    // Startup ran scripts by name, which does without `EVAL` until the server restarts.
    let server = RedisServer::start();
    start_with(&server, "before", &NEEDED).await.unwrap();
    for missing in NEEDED {
        let others: Vec<_> = NEEDED.into_iter().filter(|command| *command != missing).collect();
        let started = start_with(&server, &format!("later-without-{missing}"), &others).await;
        assert!(started.is_err(), "it starts without {missing}");
    }
}
