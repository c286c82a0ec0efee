//! Shadow mode while the store is away, or set up wrongly.

use std::process::Command;

use super::{counted, functions::forever, granted, on_redis, overruled, reason};
use ratelimit_runtime::Reason;
use tests::redis_server::RedisServer;
use tokio::time::{Duration, timeout};

#[tokio::test]
async fn a_store_that_is_away_refuses_nobody() {
    let server = RedisServer::start();
    let yaml = "shadow: true\ndefault: { rate: 2, per: 1h }\nlimiters:\n  r: { on_store_error: reject }\n  \
                l: { on_store_error: local }\n  a: { on_store_error: allow }\n";
    let limits = on_redis(&server, yaml).build().await.unwrap();
    for name in ["r", "l", "a"] {
        assert!(!granted(limits.configured(name).try_acquire(1).await).is_degraded());
    }
    server.shut_down();
    for _ in 0..3 {
        let decision = overruled(limits.configured("r").acquire(1).await);
        assert_eq!((decision.is_degraded(), decision.retry_after()), (true, None));
        assert_eq!(decision.quota().unwrap().rate(), 2);
    }
    assert!(overruled(limits.configured("r").peek(1).await).is_degraded());
    let local = limits.configured("l");
    assert!(granted(local.acquire(1).await).is_degraded());
    let decision = overruled(local.acquire(1).await);
    assert!(decision.is_degraded() && decision.retry_after().is_some(), "{decision:?}");
    assert!(granted(limits.configured("a").acquire(1).await).is_degraded());
    for (name, expected) in [("r", [4, 0, 0, 3]), ("l", [3, 0, 0, 1]), ("a", [2, 0, 0, 0])] {
        assert_eq!(counted(&limits, name), expected, "{name}");
    }
}

#[tokio::test]
async fn a_store_that_is_set_up_wrongly_is_an_error() {
    let server = RedisServer::start();
    let yaml = "shadow: true\nlimiters:\n  x: { rate: 1, per: 1h }\n";
    let limits = on_redis(&server, yaml).build().await.unwrap();
    for key in ["x", "shadow-forever"] {
        let _: String = server.cli(&["SET", key, "somebody else's"]);
    }
    assert_eq!(reason(limits.configured("x").acquire(1).await), Reason::StoreMisconfigured);
    assert_eq!(reason(limits.configured("x").peek(1).await), Reason::StoreMisconfigured);
    // A function that cannot refuse is counted locally then, and not held up.
    let calls = limits.scope(async {
        for _ in 0..5 {
            forever().await;
        }
    });
    timeout(Duration::from_secs(10), calls).await.expect("nobody waits");
    assert_eq!(counted(&limits, "shadow-forever")[3], 4, "one of five was free");
}

#[test]
fn a_file_with_a_mistake_is_an_error_whatever_it_says_of_shadow() {
    let name = format!("ratelimit-shadow-broken-{}.yaml", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, "shadow: true\nlimiters:\n  unattended: { rat: 1 }\n").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_unattended"))
        .env_remove("REDIS_URL")
        .env_remove("RATELIMIT_STORE")
        .env("RATELIMIT_LIMITS", &path)
        .output();
    std::fs::remove_file(path).unwrap();
    let expected = ["first", "second", "third", "fourth"]
        .map(|call| format!("{call} StoreMisconfigured, StoreMisconfigured\n"));
    assert_eq!(String::from_utf8_lossy(&output.unwrap().stdout), expected.concat());
}
