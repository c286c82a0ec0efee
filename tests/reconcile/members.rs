//! Processes that share a store know which of them live.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use ratelimit_runtime::{
    __private::{self, Counts, Member},
    Event, Limits, Rejection, rate_limit,
    report::Reconciled,
};
use tests::{eventually, proxy::Proxy, redis_server::RedisServer};

/// A process with this rate, and what it reconciled.
async fn process(server: &RedisServer, rate: u64) -> (Limits, Arc<Mutex<Vec<Reconciled>>>) {
    let outcomes = Arc::<Mutex<Vec<_>>>::default();
    let told = Arc::clone(&outcomes);
    let yaml = format!("limiters:\n  shared: {{ rate: {rate}, per: 1s, on_drift: carry }}\n");
    let builder = Limits::builder().redis(server.url()).limits_yaml(yaml).on_event(move |event| {
        if let Event::Reconciled { outcome, .. } = event {
            told.lock().unwrap().push(*outcome);
        }
    });
    (builder.deadline(Duration::from_secs(2)).build().await.unwrap(), outcomes)
}

fn rate(server: &RedisServer) -> u64 {
    server.cli(&["HGET", "shared", "rate"])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_stays_while_its_process_lives_however_seldom_it_calls() {
    let server = RedisServer::start();
    let (older, older_told) = process(&server, 10).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let (newer, newer_told) = process(&server, 16).await;
    older.configured("shared").try_acquire(1).await.unwrap();
    newer.configured("shared").try_acquire(1).await.unwrap();
    let start = Instant::now();
    // All the time, while the newer process calls every forty seconds.
    for seconds in [40, 50] {
        while start.elapsed() < Duration::from_secs(seconds) {
            let _ = older.configured("shared").try_acquire(1).await;
            assert_eq!(rate(&server), 16, "after {:?}", start.elapsed());
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        newer.configured("shared").try_acquire(1).await.ok();
    }
    assert_eq!(*older_told.lock().unwrap(), [Reconciled::Followed]);
    assert_eq!(*newer_told.lock().unwrap(), [Reconciled::Carried]);
    let members: Vec<String> = server.cli(&["ZRANGE", "ratelimit:~members", "0", "-1"]);
    assert_eq!(members.len(), 2, "{members:?}");
    for member in &members {
        let key = format!("{{ratelimit:~members}}:{}", &member[8..]);
        let of: Vec<String> = server.cli(&["HMGET", &key, "id", "pid", "version"]);
        assert_eq!(of[..2], [member.clone(), std::process::id().to_string()]);
        assert!((1..=30_000).contains(&server.cli::<i64>(&["PTTL", &key])));
    }

    // It ends, and is forgotten.
    drop(newer);
    let gone = Instant::now();
    while rate(&server) == 16 {
        assert!(gone.elapsed() < Duration::from_secs(60), "still that of a process that is gone");
        let _ = older.configured("shared").try_acquire(1).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(gone.elapsed() > Duration::from_secs(5), "it was alive: {:?}", gone.elapsed());
    assert_eq!(older_told.lock().unwrap().last(), Some(&Reconciled::Carried));
}

/// A process that was gone counted as alive, and its configuration as in use, until the clock caught up.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_set_back_keeps_no_process_alive() {
    let server = RedisServer::start();
    let now_ms = || {
        let (seconds, _): (u64, u64) = server.cli(&["TIME"]);
        seconds * 1000
    };
    let gone = "00000007000000ff";
    let later_ms = (now_ms() + 3_600_000).to_string();
    server.cli::<()>(&["ZADD", "ratelimit:~members", &later_ms, gone]);
    let (_limits, _) = process(&server, 10).await;
    eventually("it counts from now on", Duration::from_secs(15), || {
        server.cli::<u64>(&["ZSCORE", "ratelimit:~members", gone]) <= now_ms() + 1000
    });
}

#[rate_limit(key = "ratelimit:{user}", rate = 1, per = "1h", wait = "none")]
async fn of_a_user(user: &str) -> Result<(), Rejection> {
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_value_in_a_key_makes_the_name_of_the_members() {
    let server = RedisServer::start();
    let (limits, _) = process(&server, 10).await;
    eventually("a heartbeat", Duration::from_secs(5), || {
        server.cli::<Vec<String>>(&["KEYS", "ratelimit:*"]).len() == 1
    });
    let name = server.cli::<Vec<String>>(&["KEYS", "ratelimit:*"]).remove(0);
    let user = name.strip_prefix("ratelimit:").unwrap();
    let (first, second) =
        limits.scope(async { (of_a_user(user).await, of_a_user(user).await) }).await;
    assert!(first.is_ok() && second.is_err());
    assert_eq!(server.cli::<Vec<String>>(&["KEYS", "ratelimit:*"]).len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_may_not_read_the_members_loses_nothing_else() {
    let server = RedisServer::start();
    let mut acl = redis::cmd("ACL");
    acl.arg("SETUSER").arg("app").arg("on").arg(">pass").arg("~shared*").arg("~{shared*");
    acl.arg("~ratelimit-check*").arg("~{ratelimit-check*").arg("+@all");
    acl.exec(&mut server.connect().unwrap()).unwrap();
    let errors = Arc::<Mutex<Vec<_>>>::default();
    let told = Arc::clone(&errors);
    let builder = Limits::builder().redis(server.url_for("app", "pass")).no_limits_file();
    let builder = builder.on_event(move |event| told.lock().unwrap().push(event.to_string()));
    let limits = builder.deadline(Duration::from_secs(2)).build().await.unwrap();
    let quota = ratelimit_runtime::Quota::new(1_000_000, Duration::from_secs(60)).unwrap();
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(22) {
        let permit = limits.limiter("shared", quota).try_acquire(1).await.unwrap();
        assert!(!permit.is_degraded());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let told = errors.lock().unwrap();
    let members: Vec<_> = told.iter().filter(|text| text.contains("unknown")).collect();
    assert_eq!(members.len(), 1, "{told:?}");
    assert!(!told.iter().any(|text| text.contains("unavailable: ")), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_tells_what_its_busiest_limiters_did() {
    let server = RedisServer::start();
    let entries: String = (0..70).map(|n| format!("  x{n}: {{ rate: 5, per: 1h }}\n")).collect();
    let yaml = format!("key_prefix: \"shop:\"\nlimiters:\n{entries}");
    let process = async || {
        let builder = Limits::builder().redis(server.url()).limits_yaml(yaml.clone());
        builder.deadline(Duration::from_secs(2)).build().await.unwrap()
    };
    let (busy, idle) = (process().await, process().await);
    // More templates than are listed, each once; one that is refused, and one that is waited for.
    for n in 0..70 {
        busy.configured(&format!("x{n}")).try_acquire(1).await.unwrap();
    }
    for n in 0..9 {
        assert_eq!(busy.configured("x69").try_acquire(1).await.is_ok(), n < 4);
    }
    let x68 = busy.configured("x68");
    x68.try_acquire(4).await.unwrap();
    let waiting = tokio::spawn(async move { x68.acquire(1).await.map(drop) });
    let mut members = Vec::new();
    // A heartbeat of a moment before lists fewer calls.
    let waits = |(template, counts): &(String, Counts)| template == "x68" && counts.waiting == 1;
    let is_last =
        |member: &Member| member.limiters.len() == 64 && member.limiters.iter().any(waits);
    let start = Instant::now();
    while !(members.len() == 2 && members.iter().any(is_last)) {
        assert!(start.elapsed() < Duration::from_secs(20), "{members:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
        members = __private::members(&idle).await.unwrap();
    }
    waiting.abort();
    members.sort_by_key(|member| member.limiters.len());
    let [quiet, member] = &members[..] else { panic!("{members:?}") };
    assert_eq!((quiet.pid, &quiet.limiters[..]), (std::process::id(), &[][..]));
    assert!(member.program.starts_with("reconcile-") && member.since_us > 0, "{member:?}");
    let counts = |key: &str| {
        let (_, counts) = member.limiters.iter().find(|(template, _)| template == key).unwrap();
        (counts.admitted, counts.rejected, counts.waiting, counts.degraded)
    };
    assert_eq!(member.limiters[0].0, "x69", "the busiest one is the first");
    assert_eq!(
        (counts("x69"), counts("x68"), counts("x0")),
        ((5, 5, 0, 0), (2, 0, 1, 0), (1, 0, 0, 0))
    );

    assert_eq!(__private::members(&busy).await.unwrap().len(), 2);
    busy.shutdown().await;
    assert_eq!(__private::members(&idle).await.unwrap().len(), 1, "one has left");
    let embedded = Limits::builder().memory().no_limits_file().build().await.unwrap();
    assert_eq!(__private::members(&embedded).await.unwrap(), []);
}

/// Each took a round trip of its own, and those of a large fleet took longer than the deadline.
#[tokio::test(flavor = "multi_thread")]
async fn the_members_of_a_large_fleet_are_read_in_few_round_trips() {
    const OTHERS: usize = 300;
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let builder = Limits::builder().redis(proxy.url()).no_limits_file();
    let limits = builder.deadline(Duration::from_secs(10)).build().await.unwrap();
    let join = "for n = 1, tonumber(ARGV[1]) do
        local process = string.format('%08x', n)
        redis.call('ZADD', 'ratelimit:~members', n, '00000000' .. process)
        redis.call('HSET', '{ratelimit:~members}:' .. process,
            'program', 'p' .. n, 'version', '1', 'host', 'h', 'pid', n, 'since', n, 'limiters', '')
    end";
    let read = async || {
        let members = __private::members(&limits).await;
        let mut members = members.map_err(|error| error.to_string()).unwrap();
        members.retain(|member| member.host == "h");
        members.into_iter().map(|member| (member.program, member.pid)).collect::<Vec<_>>()
    };
    // It opens the connection.
    read().await;
    server.cli::<()>(&["EVAL", join, "0", &OTHERS.to_string()]);
    proxy.delay(Duration::from_millis(50));
    let all: Vec<_> = (1..=OTHERS).map(|n| (format!("p{n}"), u32::try_from(n).unwrap())).collect();
    assert_eq!(read().await, all);
}
