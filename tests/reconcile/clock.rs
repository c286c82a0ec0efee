//! Configurations are dated by the server's clock, which may be set while a connection is open.

use std::time::{Duration, Instant};

use ratelimit_runtime::{Limits, LimitsBuilder, Quota, RateChange};
use tests::{limits_file::LimitsFile, proxy::Proxy, redis_server::RedisServer};

const HOUR: Duration = Duration::from_secs(3600);
const HOUR_S: i64 = 3600;
const HOUR_MS: u64 = 3_600_000;

fn yaml(rate: u64) -> String {
    format!("limiters:\n  x: {{ rate: {rate}, per: 1h, on_drift: carry }}\n")
}

fn on(url: String) -> LimitsBuilder {
    Limits::builder().redis(url).deadline(Duration::from_secs(5))
}

/// What is younger than something has to be so by the server's clock, which is read as precisely as a round trip is short.
async fn later() {
    tokio::time::sleep(Duration::from_millis(200)).await;
}

/// The quota that decides a call.
async fn in_force(limits: &Limits) -> u64 {
    let permit = limits.configured("x").try_acquire(1).await.unwrap();
    permit.quota().unwrap().rate()
}

#[tokio::test]
async fn a_change_from_outside_stays_though_the_clock_was_set_since() {
    for ahead_s in [-HOUR_S, HOUR_S] {
        let server = RedisServer::start();
        let proxy = Proxy::start(server.port());
        proxy.shift_time(ahead_s);
        let [busy, idle] = [on(proxy.url()), on(proxy.url())];
        let busy = busy.limits_yaml(yaml(100)).build().await.unwrap();
        let idle = idle.limits_yaml(yaml(100)).build().await.unwrap();
        assert_eq!(in_force(&busy).await, 100);
        later().await;
        let operator = on(server.url()).no_limits_file().build().await.unwrap();
        let change = Quota::new(50, HOUR).unwrap();
        operator.configured("x").set_rate(change).await.unwrap();
        for limits in [&busy, &idle, &busy] {
            assert_eq!(in_force(limits).await, 50, "the clock was {ahead_s} s ahead");
        }
    }
}

#[tokio::test]
async fn a_reload_replaces_what_is_older_though_the_clock_was_set_since() {
    for ahead_s in [-HOUR_S, HOUR_S] {
        let server = RedisServer::start();
        let proxy = Proxy::start(server.port());
        proxy.shift_time(ahead_s);
        let file = LimitsFile::new(&yaml(100));
        let limits = on(proxy.url()).limits_file(file.path()).build().await.unwrap();
        let asked = Instant::now();
        assert_eq!(in_force(&limits).await, 100);
        // This reply says that the clock was set, and the process may have read it as late as this.
        let late = asked.elapsed();
        later().await;
        let operator = on(server.url()).no_limits_file().build().await.unwrap();
        let change = Quota::new(50, HOUR).unwrap();
        operator.configured("x").set_rate(change).await.unwrap();
        tokio::time::sleep(late).await;
        later().await;
        for rate in [200, 300] {
            file.write(&yaml(rate));
            limits.reload().unwrap();
            assert_eq!(in_force(&limits).await, rate, "the clock was {ahead_s} s ahead");
            later().await;
        }
    }
}

/// A process that announced its configuration, a rate of 100, while the clock was an hour ahead.
async fn started_an_hour_ahead() -> (RedisServer, Proxy, Limits) {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    proxy.shift_time(HOUR_S);
    let before = on(proxy.url()).limits_yaml(yaml(100)).build().await.unwrap();
    assert_eq!(in_force(&before).await, 100);
    later().await;
    (server, proxy, before)
}

#[tokio::test]
async fn the_process_that_starts_last_decides_though_the_clock_was_set_back() {
    let (server, _proxy, before) = started_an_hour_ahead().await;
    let after = on(server.url()).limits_yaml(yaml(200)).build().await.unwrap();
    for limits in [&after, &before, &after] {
        assert_eq!(in_force(limits).await, 200);
    }
}

/// The clock was an hour ahead when a limiter was changed from outside.
fn date_an_hour_later(server: &RedisServer) {
    let changed: String = server.cli(&["HGET", "x", "changed"]);
    let mut parts = changed.splitn(3, ':');
    let made_us: u64 = parts.next().unwrap().parse().unwrap();
    let held_ms: u64 = parts.next().unwrap().parse().unwrap();
    let (made_us, held_ms) = (made_us + HOUR_MS * 1000, held_ms + HOUR_MS);
    let changed = format!("{made_us}:{held_ms}:{}", parts.next().unwrap());
    let _: i64 = server.cli(&["HSET", "x", "changed", &changed]);
}

/// For as long as the step, no start, no reload and no greater revision replaced the change, even if it was held for
/// a moment only.
#[tokio::test]
async fn a_change_from_outside_can_be_replaced_though_the_clock_was_set_back() {
    let hold = Duration::from_secs(3);
    let (server, _proxy, before) = started_an_hour_ahead().await;
    let operator = on(server.url()).no_limits_file().build().await.unwrap().configured("x");
    let change = RateChange::new(Quota::new(50, HOUR).unwrap()).hold(hold);
    operator.set_rate(change).await.unwrap();
    date_an_hour_later(&server);
    let held_for = async || operator.config().await.unwrap().unwrap().held_for;
    assert!(held_for().await <= Some(hold), "{:?}", held_for().await);
    assert_eq!(in_force(&before).await, 50, "it stays in force until a process is newer");
    let after = on(server.url()).limits_yaml(yaml(200)).build().await.unwrap();
    assert_eq!(in_force(&after).await, 50, "it is held");
    assert!(held_for().await <= Some(hold), "{:?}", held_for().await);
    tokio::time::sleep(hold).await;
    for limits in [&after, &before, &after] {
        assert_eq!(in_force(limits).await, 200);
    }
}
