//! Processes that share a store know which of them live.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use ratelimit_runtime::{Event, Limits, report::Reconciled};
use tests::redis_server::RedisServer;

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
    let members: Vec<String> = server.cli(&["ZRANGE", "ratelimit:members", "0", "-1"]);
    assert_eq!(members.len(), 2, "{members:?}");
    for member in &members {
        let key = format!("{{ratelimit:members}}:{}", &member[8..]);
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
