//! What stays of what others stored, when this process changes the numbers.

use ratelimit_runtime::Reason;
use tests::redis_server::RedisServer;

use super::calls::{
    HOUR, admitted, admitted_of, carry, free, on_redis, quota, reason, reset, retry_after,
};

fn theirs(server: &RedisServer, key: &str) -> Vec<String> {
    server.cli(&["LRANGE", key, "0", "-1"])
}

const RULES: [&str; 4] = ["sliding_window", "token_bucket", "fixed_window", "leaky_bucket"];

/// A limiter in use, one of whose keys was replaced by a list of somebody else.
async fn replaced(server: &RedisServer, rule: &str, key: &str) {
    let name = format!("{rule}-{key}");
    let key = format!("{{{name}}}:{key}");
    let with =
        |rate| format!("limiters:\n  {name}: {{ algorithm: {rule}, rate: {rate}, per: 1h }}\n");
    let before = on_redis(server.url(), &with(5)).await.configured(&name);
    assert!(admitted(before.try_acquire(1).await));
    let _: i64 = server.cli(&["DEL", &key]);
    let _: i64 = server.cli(&["RPUSH", &key, "theirs", "too"]);

    // A process that starts later with other numbers, and resets by default.
    let after = on_redis(server.url(), &with(7)).await.configured(&name);
    let refused = reason(after.try_acquire(1).await);
    assert_eq!(theirs(server, &key), ["theirs", "too"], "{key}: after a deploy");
    assert_eq!(refused, Some(Reason::StoreMisconfigured), "{key}");
    // A reset on purpose.
    let _ = reset(&after, quota(9, HOUR)).await;
    assert_eq!(theirs(server, &key), ["theirs", "too"], "{key}: after `update_rate`");
    let refused = reason(after.try_acquire(1).await);
    assert_eq!(refused, Some(Reason::StoreMisconfigured), "{key}");
    assert_eq!(theirs(server, &key), ["theirs", "too"], "{key}: after another call");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_leaves_the_list_of_somebody_else_alone() {
    // A reset deleted counter and log whatever they were; only counting looked first.
    let server = RedisServer::start();
    for rule in RULES {
        replaced(&server, rule, "value").await;
    }
    replaced(&server, "sliding_window", "permits").await;
}

/// Writes a limiter of 1000 an hour as a Java service does, with a log of one permit for each of so many.
fn java(server: &RedisServer, name: &str, used: u32) {
    let fields = ["rate", "1000", "interval", "3600000", "type", "0", "keepAliveTime", "0"];
    let _: i64 = server.cli(&[&["HSET", name], fields.as_slice()].concat());
    let left = (1000 - used).to_string();
    let _: String = server.cli(&["SET", &format!("{{{name}}}:value"), &left]);
    let (seconds, micros): (u64, u64) = server.cli(&["TIME"]);
    let now = seconds * 1000 + micros / 1000;
    let mut add = redis::cmd("ZADD");
    add.arg(format!("{{{name}}}:permits"));
    for n in 0..used {
        // The length of the id, the id, the permits.
        let mut member = vec![8];
        member.extend(u64::from(n).to_le_bytes());
        member.extend(1_u32.to_le_bytes());
        add.arg(now - u64::from(used - n)).arg(member);
    }
    add.exec(&mut server.connect().unwrap()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_log_of_a_peer_counts_in_full_when_the_rule_changes() {
    // What one call does not read of a log counted as free: of 300 members the last 44.
    let server = RedisServer::start();
    let mut yaml = "limiters:\n".to_owned();
    for rule in RULES {
        let rate = if rule == "sliding_window" { "rate: 900" } else { "rate: 1000" };
        yaml += &format!("  {rule}: {{ algorithm: {rule}, {rate}, per: 1h, on_drift: carry }}\n");
        java(&server, rule, 300);
    }
    let limits = on_redis(server.url(), &yaml).await;
    // One permit of a token bucket may have flown in meanwhile.
    for (rule, free) in [("sliding_window", 600), ("fixed_window", 700), ("token_bucket", 701)] {
        let limiter = limits.configured(rule);
        assert!(!admitted(limiter.try_acquire(free + 1).await), "{rule}: 300 are in use");
        // A log that is not read to its end may count as more, and never as less.
        assert!(self::free(&limiter).await <= free, "{rule}");
    }
    // Numbers that are changed on purpose.
    java(&server, "changed", 300);
    let limiter = limits.configured("changed");
    carry(&limiter, quota(900, HOUR)).await;
    assert!(!admitted(limiter.try_acquire(601).await), "300 are in use");
    assert!(self::free(&limiter).await <= 600);
    // A leaky bucket lets a permit out every 3.6 s: 300 take 18 minutes.
    let leaky = limits.configured("leaky_bucket");
    assert_eq!(admitted_of(&leaky, 1).await, 0);
    let wait = retry_after(&leaky, 1).await.as_secs();
    assert!(wait >= 1_075, "{wait} s");
}
