//! Random names do not fill the store: `max_keys`.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{Request, Response};
use ratelimit_runtime::{
    Event, Limits, Quota, Rejection, limiter, rate_limit, test_util::ManualClock, tower::Limit,
};
use tests::{limits_file::LimitsFile, redis_server::RedisServer};
use tower::{Layer, ServiceExt, service_fn};

use crate::{DEADLINE, SECOND};

#[rate_limit(key = "mail:{user}", rate = 5, per = "1h", wait = "none")]
async fn send_mail(user: &str) -> Result<(), Rejection> {
    Ok(())
}

const YAML: &str = "unmatched: ignore
limiters:
  \"mail:{user}\": { max_keys: 100 }
prefixes:
  - { prefix: \"visit:\", rate: 5, per: 1h, algorithm: token_bucket, max_keys: 100 }
";

type Reported = Arc<Mutex<Vec<Event>>>;

async fn each(server: &RedisServer, yaml: &str) -> [(Limits, Reported); 2] {
    let builders =
        [Limits::builder().redis(server.url()).deadline(DEADLINE), Limits::builder().memory()];
    let [redis, memory] = builders.map(|builder| async {
        let events = Reported::default();
        let seen = Arc::clone(&events);
        let on_event = move |event: &Event| seen.lock().unwrap().push(event.clone());
        let limits = builder.limits_yaml(yaml).on_event(on_event).build().await.unwrap();
        (limits, events)
    });
    [redis.await, memory.await]
}

/// The limiters whose state is in Redis.
fn limiters(server: &RedisServer) -> BTreeSet<String> {
    let name = |key: String| {
        let key = key.trim_start_matches('{');
        key.split("}:").next().unwrap_or_default().to_owned()
    };
    server.limiter_keys().into_iter().map(name).collect()
}

#[tokio::test]
async fn ten_thousand_names_leave_as_many_limiters_as_are_allowed() {
    let server = RedisServer::start();
    for (limits, events) in each(&server, YAML).await {
        let mut admitted = (0, 0);
        for n in 0..10_000 {
            let name = format!("{n:x}-{}", n * 7919);
            admitted.0 += u32::from(limits.scope(send_mail(&name)).await.is_ok());
            let visit = limits.configured(&format!("visit:{name}"));
            admitted.1 += u32::from(visit.try_acquire(1).await.is_ok());
        }
        assert_eq!(admitted, (105, 105), "100 of their own, and 5 of the limiter of the others");
        let report = limits.report();
        for key in ["mail:{user}", "visit:*"] {
            assert_eq!(report.limiter(key).unwrap().shared, 9_900, "{key}");
        }
        assert!(report.to_string().contains("\n  9900 calls with keys beyond `max_keys`"));
        let events = events.lock().unwrap();
        let shared = events.iter().filter(|event| matches!(event, Event::KeysShared { .. }));
        let shared: Vec<String> = shared.map(ToString::to_string).collect();
        assert_eq!(
            shared,
            ["mail:{user}", "visit:*"].map(|key| format!(
                "rate limit `{key}` has 100 keys, the most that `max_keys` allows; new keys share one \
                 limiter"
            ))
        );
    }
    let stored = limiters(&server);
    let of = |prefix: &str| stored.iter().filter(|name| name.starts_with(prefix)).count();
    assert_eq!((of("mail:"), of("visit:"), stored.len()), (101, 101, 202));
    assert!(stored.contains("mail:~others") && stored.contains("visit:~others"));
    for key in server.limiter_keys() {
        assert!(server.cli::<i64>(&["PTTL", &key]) > 0, "{key} expires when it is idle");
    }
}

#[tokio::test]
async fn keys_that_were_there_first_keep_their_own_limiters() {
    let yaml = "limiters:
  \"mail:{user}\": { max_keys: 10, overrides: [{ key: \"mail:vip\", rate: 7 }] }
";
    let server = RedisServer::start();
    for (limits, _) in each(&server, yaml).await {
        let users: Vec<String> = (0..10).map(|n| format!("user-{n}")).collect();
        let calls = async |user: &str, calls: u32| {
            let mut admitted = 0;
            for _ in 0..calls {
                admitted += u32::from(limits.scope(send_mail(user)).await.is_ok());
            }
            admitted
        };
        for user in &users {
            assert_eq!(calls(user, 1).await, 1);
        }
        for n in 0..1_000 {
            calls(&format!("attack-{n}"), 1).await;
        }
        for user in &users {
            assert_eq!(calls(user, 9).await, 4, "4 of 5 were left");
        }
        assert_eq!(calls("vip", 9).await, 7, "the limits file names it");
        assert_eq!(calls("late", 1).await, 0, "the others have used up their limiter");
        let handle = |user| limits.scope(async move { limiter!("mail:{user}", user = user) });
        assert_eq!(handle("user-3").await.name(), "mail:user-3");
        assert_eq!(handle("later").await.name(), "mail:~others");
    }
}

#[tokio::test]
async fn a_key_that_the_limits_file_names_takes_no_place_of_another() {
    let yaml = "limiters:
  \"mail:{user}\": { max_keys: 1, overrides: [{ key: \"mail:vip\", rate: 7 }] }
";
    let limits = Limits::builder().memory().limits_yaml(yaml).build().await.unwrap();
    for (user, name) in [("vip", "mail:vip"), ("a", "mail:a"), ("b", "mail:~others")] {
        let handle = limits.scope(async { limiter!("mail:{user}") }).await;
        assert_eq!(handle.name(), name);
    }
    assert_eq!(limits.report().limiter("mail:{user}").unwrap().shared, 1);
}

#[tokio::test]
async fn a_new_key_gets_a_limiter_of_its_own_once_another_was_idle() {
    let yaml = "limiters:
  \"mail:{user}\": { per: 1s, keep_alive: 2s, max_keys: 2 }
";
    let server = RedisServer::start();
    let clock = ManualClock::new();
    let redis = Limits::builder().redis(server.url()).deadline(DEADLINE).limits_yaml(yaml);
    let memory = Limits::builder().memory().clock(clock.clone()).limits_yaml(yaml);
    for limits in [redis.build().await.unwrap(), memory.build().await.unwrap()] {
        let is_redis = limits.report().store != "memory";
        let pass = async |time: Duration| match is_redis {
            true => tokio::time::sleep(time).await,
            false => clock.advance(time),
        };
        let name = async |user: &str| {
            let _ = limits.scope(send_mail(user)).await;
            limits.scope(async { limiter!("mail:{user}").name().to_owned() }).await
        };
        assert_eq!(name("a").await, "mail:a");
        assert_eq!(name("b").await, "mail:b");
        assert_eq!(name("c").await, "mail:~others");
        // One stays in use, the other does not.
        for _ in 0..4 {
            pass(SECOND * 7 / 10).await;
            assert_eq!(name("a").await, "mail:a");
        }
        assert_eq!(name("c").await, "mail:c");
        assert_eq!(name("b").await, "mail:~others");
        if is_redis {
            let stored = limiters(&server);
            assert!(!stored.contains("mail:b"), "it expired with its place: {stored:?}");
        }
    }
}

#[tokio::test]
async fn a_reload_sets_and_removes_the_bound() {
    let text = |more: &str| format!("limiters: {{ \"mail:{{user}}\": {{ rate: 5{more} }} }}\n");
    let file = LimitsFile::new(&text(""));
    let limits = Limits::builder().memory().limits_file(file.path()).build().await.unwrap();
    let name = async |user: &str| {
        let _ = limits.scope(send_mail(user)).await;
        limits.scope(async { limiter!("mail:{user}").name().to_owned() }).await
    };
    for user in ["a", "b", "c"] {
        assert_eq!(name(user).await, format!("mail:{user}"));
    }
    file.write(&text(", max_keys: 2"));
    limits.reload().unwrap();
    assert_eq!(
        [name("a").await, name("b").await, name("d").await],
        ["mail:a", "mail:b", "mail:~others"]
    );
    file.write(&text(""));
    limits.reload().unwrap();
    assert_eq!(name("d").await, "mail:d");
    let report = limits.report();
    assert_eq!(report.limiter("mail:{user}").unwrap().setting("max_keys"), None);
}

#[tokio::test]
async fn a_name_without_a_template_is_not_bounded() {
    let yaml = "default: { max_keys: 1 }\nprefixes: [{ prefix: \"visit:\" }]\n";
    let limits = Limits::builder().memory().limits_yaml(yaml).build().await.unwrap();
    let quota = Quota::per_second(5);
    for n in 0..3 {
        assert_eq!(limits.limiter(&format!("x:{n}"), quota).name(), format!("x:{n}"));
    }
    assert_eq!(limits.limiter("visit:1", quota).name(), "visit:1");
    assert_eq!(limits.limiter("visit:2", quota).name(), "visit:~others");
}

#[tokio::test]
async fn the_shared_limiter_takes_no_name_of_the_log_of_another() {
    let keys = ["{{shop}}:{path}", "{{shop}}:{path}:permits"];
    let entries = keys.map(|key| format!("  \"{key}\": {{ rate: 1, per: 1h, max_keys: 1 }}\n"));
    let server = RedisServer::start();
    for (limits, _) in each(&server, &format!("limiters:\n{}", entries.concat())).await {
        for (path, admitted) in [("/a", true), ("/b", true), ("/c", false)] {
            for key in keys {
                let limit = Limit::configured(key).limits(&limits);
                let limit = limit.key("path", |request| request.uri.path().to_owned());
                let service = limit.layer(service_fn(async |_: Request<()>| {
                    Ok::<_, Infallible>(Response::new(String::new()))
                }));
                let request = Request::get(path).body(()).unwrap();
                let status = service.oneshot(request).await.unwrap().status().as_u16();
                assert_eq!(status, if admitted { 200 } else { 429 }, "{path} of {key}");
            }
        }
    }
}
