//! Algorithms that this version does not support: reported for their limiter alone.

use ratelimit_runtime::StoreErrorKind;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn an_algorithm_of_a_later_version_is_reported_in_each_mode() {
    // With the mode `per_client`, it counted as an outage, and calls were admitted.
    let server = RedisServer::start();
    let limits = limits(&server).await;
    for (mode, algorithm) in
        ["0", "1"].iter().flat_map(|mode| ["gcra", "X-1", ""].map(|of| (mode, of)))
    {
        let limiter = limits.limiter(&format!("{mode}:{algorithm}"), quota(3));
        let permit = limiter.try_acquire(1).await.unwrap();
        let _: i64 = server.cli(&["HSET", limiter.name(), "type", mode, "algorithm", algorithm]);
        let text = format!("`{mode}/{algorithm}`, which this process does not support");
        for rejection in [limiter.try_acquire(1).await.map(drop), limiter.peek(1).await.map(drop)] {
            let rejection = rejection.unwrap_err();
            assert_eq!(rejection.reason(), Reason::StoreMisconfigured, "{text}: {rejection}");
            assert!(rejection.to_string().contains(&text), "{rejection}");
        }
        let errors = [
            limiter.available_permits().await.map(drop),
            limiter.release(1).await.map(drop),
            limiter.charge(1).await.map(drop),
            limiter.config().await.map(drop),
        ];
        for error in errors.map(Result::unwrap_err) {
            assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
            assert!(error.to_string().contains(&text), "{error}");
        }
        // A refund reads no more than it needs.
        if *mode == "0" {
            let _: i64 = server.cli(&["HSET", limiter.name(), "state", "of a later version"]);
            let error = permit.give_back().await.unwrap_err().to_string();
            assert!(error.contains(&text), "{error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_algorithm_that_is_not_text_is_reported_on_one_short_line() {
    // What reads the configuration alone took it for an outage.
    let server = RedisServer::start();
    let limits = limits(&server).await;
    let long = "long".repeat(100_000);
    let stored: [(&[u8], &str); 4] = [
        (b"gcra\n\x1b[31m", "`0/gcra\\n\\u{1b}[31m`"),
        (b"\0", "`0/\\u{0}`"),
        (b"token_bucke\xf4", "`0/token_bucke\u{fffd}`"),
        (long.as_bytes(), "longlo…`"),
    ];
    let mut redis = server.connect().unwrap();
    for (algorithm, shown) in stored {
        let limiter = limits.limiter(&format!("unsupported {shown:.20}"), quota(3));
        limiter.try_acquire(1).await.unwrap();
        let mut stored = redis::cmd("HSET");
        stored.arg(limiter.name()).arg("algorithm").arg(algorithm).exec(&mut redis).unwrap();
        let rejection = limiter.try_acquire(1).await.unwrap_err();
        assert_eq!(rejection.reason(), Reason::StoreMisconfigured, "{rejection}");
        let errors = [
            limiter.available_permits().await.map(drop),
            limiter.config().await.map(drop),
            limiter.try_set_rate(quota(3)).await.map(drop),
            limiter.update_rate(quota(3)).await.map(drop),
        ];
        for error in errors.map(Result::unwrap_err) {
            assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
            let error = error.to_string();
            assert!(error.contains(shown) && error.len() < 400, "{error:.500}");
            assert!(rejection.to_string().ends_with(&error), "{rejection:.500}");
        }
    }
}
