//! Requests that a service between two layers sends again.

use std::convert::Infallible;

use axum::{Router, body::Body, response::Response, routing::get};
use http::{Request, StatusCode};
use ratelimit_runtime::{
    Decision, Rejection, rate_limit, test_util::ManualClock, tower::Limit, web::Headers,
};
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::{MINUTE, SECOND, header, limits, quota};

#[rate_limit(key = "retried", rate = 1, per = "1m", wait = "none")]
async fn found() -> Result<&'static str, Rejection> {
    Ok("found")
}

/// Sends each rejected request again, once its wait is over.
fn with_retries(
    inner: Router,
    time: ManualClock,
) -> impl Service<Request<Body>, Response = Response, Error = Infallible, Future: Send> {
    service_fn(move |request: Request<Body>| {
        let (inner, time) = (inner.clone(), time.clone());
        async move {
            loop {
                let again = Request::get(request.uri()).body(Body::empty()).unwrap();
                let answer = inner.clone().oneshot(again).await?;
                let Some(wait) = header(&answer, "retry-after") else { return Ok(answer) };
                time.advance(wait.parse::<u32>().unwrap() * SECOND);
            }
        }
    })
}

#[tokio::test]
async fn an_admitted_retry_is_described_instead_of_the_attempt_before_it() {
    let (limits, time) = limits().await;
    let limit = Limit::new("limit", quota(1, MINUTE)).limits(&limits);
    let limited = get(async || "found").layer(limit);
    let app = Router::new().route("/limit", limited).route("/attribute", get(found));
    let mut app = Headers::Ietf.layer(with_retries(app, time.clone()));
    for (path, described) in
        [("/limit", r#""limit";r=0;t=60"#), ("/attribute", r#""retried";r=0;t=60"#)]
    {
        for attempts in 1..=2 {
            let request = Request::get(path).body(Body::empty()).unwrap();
            let answer = limits.scope(app.call(request)).await.unwrap();
            let case = format!("{path}, {attempts} attempts: {answer:?}");
            assert_eq!(answer.status(), StatusCode::OK, "{case}");
            assert_eq!(header(&answer, "ratelimit").unwrap(), described, "{case}");
            let decision = answer.extensions().get::<Decision>().unwrap();
            assert_eq!(decision.retry_after(), None, "{case}");
            time.advance(20 * SECOND);
        }
    }
}

#[rate_limit(
    key = "retried:{id}",
    rate = 20,
    per = "1s",
    algorithm = "leaky_bucket",
    wait = "none"
)]
async fn one(id: u64) -> Result<(), Rejection> {
    Ok(())
}

/// A handler that goes on after a rejection may still respond by it.
#[tokio::test]
async fn a_late_rejection_asks_to_retry() {
    let (limits, time) = limits().await;
    let handler = async move || {
        let (first, second) = (one(1).await, one(1).await);
        time.advance(SECOND);
        let rejected = first.and(second).and(one(2).await).is_err();
        if rejected { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::OK }
    };
    let app = Router::new().route("/", get(handler)).layer(Headers::Ietf);
    let request = Request::new(Body::empty());
    let answer = limits.scope(app.oneshot(request)).await.unwrap();
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(header(&answer, "retry-after").unwrap(), "1");
}
