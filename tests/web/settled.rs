//! Headers after a request's own permits were refunded, or its cost was corrected.

use std::convert::Infallible;

use ::bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{Empty, Full};
use ratelimit_runtime::{Limits, Permit, Quota, Rejection, rate_limit, tower::Limit, web::Headers};
use tests::redis_server::RedisServer;
use tower::{Layer, ServiceExt, service_fn};

use crate::{MINUTE, SECOND, header, limits, quota, request, through};

type Plain = Response<Full<Bytes>>;

async fn embedded_and_on(server: &RedisServer) -> [Limits; 2] {
    let redis = Limits::builder().redis(server.url()).no_limits_file();
    [limits().await.0, redis.build().await.unwrap()]
}

/// The `RateLimit` of an answer to one request, behind the layer of handlers.
async fn line_around<F: Future<Output = StatusCode> + Send + 'static>(
    limits: &Limits,
    handler: impl FnOnce() -> F + Clone + Send + 'static,
) -> Option<String> {
    let service = service_fn(move |_: Request<Empty<Bytes>>| {
        let handler = handler.clone();
        async move {
            let status = handler().await;
            Ok::<_, Infallible>(Response::builder().status(status).body(Full::default()).unwrap())
        }
    });
    let service = Headers::Ietf.layer(service);
    let answer: Plain = limits.scope(service.oneshot(request())).await.unwrap();
    header(&answer, "ratelimit")
}

/// The `RateLimit` of an answer through a layer, or of the layer of handlers around it.
async fn line(limit: &Limit, around: bool, status: u16, used: &'static str) -> String {
    let service = service_fn(move |_: Request<Empty<Bytes>>| async move {
        let response = Response::builder().status(status).header("x-used", used);
        Ok::<_, Infallible>(response.body(Full::<Bytes>::default()).unwrap())
    });
    let answer = match around {
        true => Headers::Ietf.layer(limit.layer(service)).oneshot(request()).await.unwrap(),
        false => through(limit, service, request()).await,
    };
    header(&answer, "ratelimit").unwrap()
}

#[tokio::test]
async fn a_refund_of_the_request_is_in_its_headers() {
    let server = RedisServer::start();
    for limits in embedded_and_on(&server).await {
        let login = Limit::new("login", quota(1, MINUTE))
            .refund_if(|response| response.status != StatusCode::UNAUTHORIZED)
            .limits(&limits);
        for around in [false, true] {
            // A `Throttle` pauses for `t` if nothing remains.
            assert_eq!(line(&login, around, 200, "").await, r#""login";r=1"#);
            // The request does not wait for the refund.
            while limits.configured("login").available_permits().await.unwrap() == 0 {
                tokio::time::sleep(SECOND / 500).await;
            }
        }
        assert_eq!(line(&login, true, 401, "").await, r#""login";r=0;t=60"#);
    }
}

#[tokio::test]
async fn a_corrected_cost_of_the_request_is_in_its_headers() {
    let (limits, _) = limits().await;
    let windows = quota(100, MINUTE);
    let bucket = quota(60, MINUTE).token_bucket(100).unwrap();
    let leaky = quota(100, MINUTE).leaky_bucket().unwrap();
    let limit = |name: &str, quota: Quota| {
        let used = |response: &http::response::Parts| {
            response.headers.get("x-used")?.to_str().ok()?.parse().ok()
        };
        Limit::new(name, quota).permits(|_| 20).actual(used).limits(&limits)
    };
    let sliding = limit("sliding", windows);
    assert_eq!(line(&sliding, false, 200, "10").await, r#""sliding";r=90;t=60"#);
    assert_eq!(line(&sliding, true, 200, "20").await, r#""sliding";r=70;t=60"#);
    assert_eq!(line(&sliding, true, 200, "50").await, r#""sliding";r=20;t=60"#);
    assert_eq!(line(&sliding, false, 200, "50").await, r#""sliding";r=0;t=60"#);
    let several = limit("several", windows).and(limit("more", bucket));
    for around in [false, true] {
        let both = line(&several, around, 200, "0").await;
        assert_eq!(both, r#""several";r=100, "more";r=100"#);
    }
    // The first slot of a leaky bucket is never free again.
    let spaced = line(&limit("leaky", leaky), true, 200, "0").await;
    assert_eq!(spaced, r#""leaky";r=0;t=12"#);
}

/// 60 permits a minute: one is free again each second, so a bucket of 100 is full as many seconds later as it lacks permits.
#[tokio::test]
async fn a_bucket_is_full_again_when_the_corrected_cost_has_drained() {
    let (limits, time) = limits().await;
    let bucket = quota(60, MINUTE).token_bucket(100).unwrap();
    let spender = Limit::new("bucket", bucket)
        .permits(|_| 20)
        .actual(|response| response.headers.get("x-used")?.to_str().ok()?.parse().ok())
        .headers(Headers::XRateLimit)
        .limits(&limits);
    let free = async || limits.configured("bucket").available_permits().await.unwrap();
    let mut full = 0_u32;
    for used in ["20", "5", "45", "0", "12"] {
        let service = service_fn(move |_: Request<Empty<Bytes>>| async move {
            let response = Response::builder().header("x-used", used);
            Ok::<_, Infallible>(response.body(Full::<Bytes>::default()).unwrap())
        });
        let answer = through(&spender, service, request()).await;
        full += used.parse::<u32>().unwrap();
        let remaining = (100 - full).to_string();
        assert_eq!(header(&answer, "x-ratelimit-remaining"), Some(remaining), "{used}");
        let reset = (1_700_000_000 + full).to_string();
        assert_eq!(header(&answer, "x-ratelimit-reset"), Some(reset), "{used}");
        // The request does not wait for its settlement.
        while free().await != u64::from(100 - full) {
            tokio::time::sleep(SECOND / 500).await;
        }
    }
    time.advance(full * SECOND);
    assert_eq!(free().await, 100);
}

#[rate_limit(key = "attempts:{user}", rate = 2, per = "1m", wait = "none", refund_if = |_| right)]
async fn attempt(user: &str, right: bool) -> Result<(), Rejection> {
    let _ = user;
    Ok(())
}

#[rate_limit(key = "logins", rate = 1, per = "1m", wait = "none", refund_on = "ok")]
async fn login() -> Result<(), Rejection> {
    Ok(())
}

#[rate_limit(key = "bound", rate = 1, per = "1m", wait = "none", bind = permit)]
async fn bound(keeps: bool) -> Result<Option<Permit>, Rejection> {
    if keeps {
        return Ok(Some(permit));
    }
    permit.give_back().await.unwrap();
    Ok(None)
}

#[rate_limit(key = "settled", rate = 9, per = "1m", permits = 5, wait = "none", bind = permit)]
async fn tokens(used: u64) -> Result<(), Rejection> {
    assert_eq!(permit.settle(used).await.unwrap().debt, 0);
    Ok(())
}

#[tokio::test]
async fn a_refund_of_an_annotated_function_is_in_the_headers() {
    let server = RedisServer::start();
    for limits in embedded_and_on(&server).await {
        let line = line_around(&limits, || async { ok(login().await) }).await;
        assert_eq!(line.unwrap(), r#""logins";r=1"#);
        let line = line_around(&limits, || async { ok(bound(false).await.map(drop)) }).await;
        assert_eq!(line.unwrap(), r#""bound";r=1"#);
        let line = line_around(&limits, || async { ok(tokens(2).await) }).await;
        assert_eq!(line.unwrap(), r#""settled";r=7;t=60"#);
    }
}

fn ok(result: Result<(), Rejection>) -> StatusCode {
    result.expect("permits are free");
    StatusCode::OK
}

/// Both have the same decision, as they are decided at the same time.
#[tokio::test]
async fn the_refund_of_one_key_does_not_free_another() {
    let (limits, _) = limits().await;
    for (order, left) in [(["a", "b"], 1), (["d", "c"], 1)] {
        let line = line_around(&limits, move || async move {
            for user in order {
                ok(attempt(user, user == "a" || user == "c").await);
            }
            StatusCode::OK
        });
        assert_eq!(line.await.unwrap(), format!(r#""attempts:{{user}}";r={left};t=60"#));
    }
    // Refunded last, the stricter one of both is not the strictest in the end.
    let line = line_around(&limits, || async { ok(attempt_both("e", "f").await) }).await;
    assert_eq!(line.unwrap(), r#""attempts:{user}";r=1;t=60"#);
}

#[rate_limit(
    key = "attempts:{user}",
    rate = 2,
    per = "1m",
    wait = "none",
    permits = 2,
    refund_if = Result::is_ok
)]
async fn attempt_both(user: &str, other: &str) -> Result<(), Rejection> {
    let _ = user;
    attempt(other, false).await
}

/// Decisions that no permit can change are combined.
#[tokio::test]
async fn the_strictest_of_many_calls_is_in_the_headers() {
    let (limits, _) = limits().await;
    let line = line_around(&limits, || async {
        for n in 0..50 {
            ok(attempt(&n.to_string(), n != 30).await);
        }
        ok(login().await);
        StatusCode::OK
    });
    assert_eq!(line.await.unwrap(), r#""attempts:{user}";r=1;t=60, "logins";r=1"#);
}

#[tokio::test]
async fn a_permit_that_the_response_keeps_is_in_use() {
    let (limits, _) = limits().await;
    let kept = std::sync::Arc::new(std::sync::Mutex::new(None));
    let keep = std::sync::Arc::clone(&kept);
    let line = line_around(&limits, move || async move {
        *keep.lock().unwrap() = bound(true).await.unwrap();
        StatusCode::OK
    });
    assert_eq!(line.await.unwrap(), r#""bound";r=0;t=60"#);
    let permit = kept.lock().unwrap().take().unwrap();
    assert_eq!(permit.give_back().await.unwrap(), 1);
}

#[tokio::test]
async fn a_refunded_limit_does_not_delay_a_retry() {
    let (limits, _) = limits().await;
    let outer = Limit::new("outer", quota(1, MINUTE))
        .refund_if(|response| response.status == StatusCode::TOO_MANY_REQUESTS)
        .limits(&limits);
    let inner = Limit::new("inner", quota(1, SECOND)).limits(&limits);
    crate::send(&inner, request()).await;
    let ok = service_fn(|_| async { Ok::<_, Infallible>(Response::new(Full::<Bytes>::default())) });
    let answer = outer.layer(inner.layer(ok)).oneshot(request()).await.unwrap();
    assert_eq!(answer.status(), 429);
    assert_eq!(header(&answer, "retry-after").unwrap(), "1");
}
