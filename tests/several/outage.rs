//! Redis gone and back.

use ratelimit_runtime::web;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn all_limits_hold_locally_while_redis_is_away() {
    let server = RedisServer::start();
    let builder = Limits::builder().redis(server.url()).deadline(2 * SECOND).no_limits_file();
    let limits = builder.instances(2).build().await.unwrap();
    let limiter = limits.limiter("x", both(quota(4, Duration::from_millis(300)), quota(6, HOUR)));
    assert!(!limiter.try_acquire(1).await.unwrap().is_degraded());
    server.kill_hard();
    let mut admitted = 0;
    let end = tokio::time::Instant::now() + 2 * SECOND;
    while tokio::time::Instant::now() < end {
        match limiter.try_acquire(1).await {
            Ok(decision) => {
                assert!(decision.is_degraded());
                admitted += 1;
            }
            Err(rejection) => assert!(!rejection.violated().is_empty(), "{rejection}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(admitted, 2, "half of the 5 that are left of 6 an hour, at most half of 4 at once");
    server.restart();
    let back = async {
        loop {
            if limiter.peek(1).await.is_ok_and(|decision| !decision.is_degraded()) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(10 * SECOND, back).await.unwrap();
    // Until the other process must have found it too, this one keeps to its half.
    let mut after = asked(&limiter).await;
    let start = tokio::time::Instant::now();
    while after.is_err() && start.elapsed() < 5 * SECOND {
        tokio::time::sleep(Duration::from_millis(20)).await;
        after = asked(&limiter).await;
    }
    assert_eq!(after, Ok(3), "an empty server knows of the outage alone");
}

/// What a process counts itself is its share, but its limits are still those of all processes: clients know them by
/// their numbers.
#[tokio::test(flavor = "multi_thread")]
async fn limits_have_their_own_quotas_while_a_share_is_counted() {
    let builder = Limits::builder().redis("redis://127.0.0.1:1/").no_limits_file().instances(3);
    let limits = builder.build().await.unwrap();
    let (short, long) = (quota(10, MINUTE), quota(20, HOUR));
    let limiter = limits.limiter("x", both(short, long));
    let decision = limiter.try_acquire(3).await.unwrap();
    assert!(decision.is_degraded());
    assert_eq!((decision.quota(), decision.remaining()), (Some(short), 0));
    let parts: Vec<_> = decision.parts().iter().map(|part| part.quota().unwrap()).collect();
    assert_eq!(parts, [short, long]);
    let rejection = limiter.try_acquire(1).await.unwrap_err();
    assert_eq!(rejection.violated(), [short]);
    let answer = web::response(&rejection, web::Headers::Ietf);
    let policies = r#""x: 10 per 1m";q=10;w=60, "x: 20 per 1h";q=20;w=3600"#;
    assert_eq!(answer.headers()["ratelimit-policy"], policies);
    assert!(answer.body().contains(r#""violated-policies":["x: 10 per 1m"]"#), "{answer:?}");
    let rare = limits.limiter("rare", quota(1, MINUTE));
    assert_eq!(rare.try_acquire(1).await.unwrap().quota(), Some(quota(1, MINUTE)));
    assert_eq!(rare.try_acquire(1).await.unwrap_err().violated(), [quota(1, MINUTE)]);
    assert_eq!(rare.peek(1).await.unwrap_err().violated(), [quota(1, MINUTE)]);
}

/// Applies an operation to a limiter with a limit that the user may not use, and to one that it may.
async fn fails_for_one(limits: &Limits, what: &str) {
    let of = |name: &str| limits.limiter(name, both(quota(4, MINUTE), quota(6, HOUR)));
    let (hidden, one, two) = (of("hidden"), of("open:1"), of("open:2"));
    let first = (hidden.clone().and(one.clone()), one);
    for (limiter, open) in [first, (two.clone().and(hidden), two)] {
        let error = match what {
            "charge" => limiter.charge(1).await.map(drop),
            "release" => limiter.release(1).await.map(drop),
            "delete" => limiter.delete().await.map(drop),
            "expire" => limiter.expire(HOUR).await.map(drop),
            _ => limiter.set_keep_alive(Some(HOUR)).await.map(drop),
        }
        .expect_err(what);
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{what}: {error}");
        let name = open.name();
        let (free, expires) = (open.available_permits().await, open.ttl().await.unwrap().is_some());
        let expected = match what {
            "charge" => 1,
            "release" => 3,
            "delete" => 4,
            _ => 2,
        };
        assert_eq!(free.unwrap(), expected, "{what} of {name}");
        assert_eq!(expires, matches!(what, "expire" | "set_keep_alive"), "{what} of {name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_that_fails_keeps_no_other_from_an_operation() {
    for what in ["charge", "release", "delete", "expire", "set_keep_alive"] {
        let server = RedisServer::start();
        let user = |rules: &[&str]| {
            let mut acl = redis::cmd("ACL");
            acl.arg("SETUSER").arg("app").arg(rules);
            acl.exec(&mut server.connect().unwrap()).unwrap();
        };
        user(&["on", ">pass", "~*", "+@all"]);
        let limits = Limits::builder().redis(server.url_for("app", "pass")).no_limits_file();
        let limits = limits.deadline(20 * SECOND).build().await.unwrap();
        for name in ["hidden", "open:1", "open:2"] {
            let quotas = both(quota(4, MINUTE), quota(6, HOUR));
            limits.limiter(name, quotas).try_acquire(2).await.unwrap();
        }
        user(&["resetkeys", "~open*", "~{open*", "~ratelimit*", "~{ratelimit*"]);
        fails_for_one(&limits, what).await;
    }
}
