//! axum handlers of each return type that is accepted, and the client as an extractor.

use std::net::SocketAddr;

use axum::{
    Json, Router,
    body::Body,
    extract::{ConnectInfo, Path, Query, connect_info::MockConnectInfo},
    response::{Html, IntoResponse, Response},
    routing::{get, post},
};
use http::{Method, Request, StatusCode};
use ratelimit_runtime::{
    Decision, Limits, Rejection, rate_limit,
    tower::Limit,
    web::{ClientIp, Headers},
};
use serde_json::{Value, json};
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::{MINUTE, SECOND, header, limits, quota, reporting, text};

#[rate_limit(key = "response:{id}", rate = 1, per = "1m", wait = "none")]
async fn response(Path(id): Path<u64>) -> Response {
    id.to_string().into_response()
}

#[rate_limit(key = "impl:{id}", rate = 1, per = "1m", wait = "none")]
async fn impl_into_response(Path(id): Path<u64>) -> Result<impl IntoResponse, Rejection> {
    Ok((StatusCode::CREATED, Html(id.to_string())))
}

#[rate_limit(key = "json:{id}", rate = 1, per = "1m", wait = "none")]
async fn json_or_rejection(Path(id): Path<u64>) -> Result<Json<Value>, Rejection> {
    Ok(Json(json!({ "id": id })))
}

#[rate_limit(key = "own:{id}", rate = 1, per = "1m", wait = "none")]
async fn own_error(Path(id): Path<u64>) -> Result<&'static str, ShopError> {
    if id == 0 { Err(ShopError::Unknown) } else { Ok("found") }
}

#[rate_limit(key = "response_error:{id}", rate = 1, per = "1m", wait = "none")]
async fn response_as_error(Path(id): Path<u64>) -> axum::response::Result<&'static str> {
    let _ = id;
    Ok("found")
}

#[rate_limit(key = "fallback:{id}", rate = 1, per = "1m", wait = "none", fallback = |rejection| {
    (StatusCode::OK, format!("from the cache: {}", rejection.limiter()))
})]
async fn fallback(Path(id): Path<u64>) -> (StatusCode, String) {
    (StatusCode::OK, id.to_string())
}

#[rate_limit(key = "near:{id}", rate = 1, per = "1m", wait = "none")]
async fn near(id: u64) -> Result<&'static str, Rejection> {
    let _ = id;
    Ok("near")
}

#[rate_limit(key = "far:{id}", rate = 1, per = "1h", wait = "none")]
async fn far(id: u64) -> Result<&'static str, Rejection> {
    let _ = id;
    Ok("far")
}

/// Asks the far service while the near one is limited, and a second time while both are.
async fn near_or_far(Path(id): Path<u64>) -> Result<&'static str, ShopError> {
    if let Ok(found) = near(id).await {
        return Ok(found);
    }
    if let Ok(found) = far(id).await {
        return Ok(found);
    }
    Ok(far(id).await?)
}

enum ShopError {
    Unknown,
    Busy,
}

impl From<Rejection> for ShopError {
    fn from(_: Rejection) -> Self {
        Self::Busy
    }
}

impl IntoResponse for ShopError {
    fn into_response(self) -> Response {
        match self {
            Self::Unknown => StatusCode::NOT_FOUND.into_response(),
            Self::Busy => (StatusCode::TOO_MANY_REQUESTS, "the shop is busy").into_response(),
        }
    }
}

fn shop() -> Router {
    Router::new()
        .route("/response/{id}", get(response))
        .route("/impl/{id}", get(impl_into_response))
        .route("/json/{id}", get(json_or_rejection))
        .route("/own/{id}", get(own_error))
        .route("/error/{id}", get(response_as_error))
        .route("/fallback/{id}", get(fallback))
        .route("/near_or_far/{id}", get(near_or_far))
        .route("/batch", post(batch))
        .route("/mine", get(mine))
        .route("/nested/{id}", get(own_error))
}

async fn ask(app: &Router, limits: &Limits, request: Request<Body>) -> Response {
    limits.scope(app.clone().oneshot(request)).await.unwrap()
}

async fn get_path(app: &Router, limits: &Limits, path: &str) -> Response {
    ask(app, limits, Request::get(path).body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn handlers_of_every_return_type_reject_alike() {
    let (limits, _) = limits().await;
    let app = shop().layer(Headers::Ietf);
    for (path, admitted) in [
        ("/response/1", 200),
        ("/impl/1", 201),
        ("/json/1", 200),
        ("/own/1", 200),
        ("/error/1", 200),
    ] {
        let answer = get_path(&app, &limits, path).await;
        assert_eq!(answer.status().as_u16(), admitted, "{path}");
        let told = header(&answer, "ratelimit").unwrap();
        assert!(told.ends_with(":{id}\";r=0;t=60"), "{path}: {told}");
        let answer = get_path(&app, &limits, path).await;
        assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS, "{path}");
        assert_eq!(header(&answer, "ratelimit").unwrap(), told, "{path}");
        assert_eq!(header(&answer, "retry-after").unwrap(), "60", "{path}");
        assert!(header(&answer, "ratelimit-policy").unwrap().ends_with(";q=1;w=60"), "{path}");
    }
    assert_eq!(text(get_path(&app, &limits, "/fallback/1").await).await, "1");
    let answer = get_path(&app, &limits, "/fallback/1").await;
    assert_eq!((answer.status().as_u16(), header(&answer, "retry-after")), (200, None));
    assert_eq!(text(answer).await, "from the cache: fallback:{id}");
    let answer = get_path(&app, &limits, "/own/0").await;
    assert_eq!(answer.status(), StatusCode::NOT_FOUND);
    assert_eq!(header(&answer, "ratelimit").unwrap(), "\"own:{id}\";r=0;t=60");
}

#[tokio::test]
async fn a_response_is_about_the_rejection_that_ended_the_request() {
    let (limits, _) = limits().await;
    let app = shop().layer(Headers::Ietf);
    for found in ["near", "far"] {
        assert_eq!(text(get_path(&app, &limits, "/near_or_far/1").await).await, found);
    }
    let answer = get_path(&app, &limits, "/near_or_far/1").await;
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(header(&answer, "retry-after").unwrap(), "3600");
}

/// Looks near only, and goes on without what it would have found there.
async fn near_or_nothing(Path(id): Path<u64>) -> Result<&'static str, StatusCode> {
    near(id).await.map_err(|_| StatusCode::NOT_FOUND)
}

#[tokio::test]
async fn an_error_about_something_else_does_not_ask_to_retry() {
    let (limits, _) = limits().await;
    let app = Router::new().route("/{id}", get(near_or_nothing)).layer(Headers::Ietf);
    assert_eq!(text(get_path(&app, &limits, "/1").await).await, "near");
    let answer = get_path(&app, &limits, "/1").await;
    assert_eq!((answer.status().as_u16(), header(&answer, "retry-after")), (404, None));
    assert_eq!(header(&answer, "ratelimit").unwrap(), "\"near:{id}\";r=0;t=60");
}

#[tokio::test]
async fn a_rejection_is_a_response_without_any_layer() {
    let (limits, _) = limits().await;
    let app = shop();
    let answer = get_path(&app, &limits, "/json/1").await;
    assert_eq!((answer.status().as_u16(), header(&answer, "ratelimit")), (200, None));
    let answer = get_path(&app, &limits, "/json/1").await;
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(header(&answer, "ratelimit").unwrap(), "\"json:{id}\";r=0;t=60");
    assert_eq!(header(&answer, "content-type").unwrap(), "application/problem+json");
    let problem: Value = serde_json::from_str(&text(answer).await).unwrap();
    assert_eq!(problem["violated-policies"], json!(["json:{id}"]));
}

#[derive(serde::Deserialize)]
struct Batch {
    items: u64,
}

#[rate_limit(key = "batch", rate = 10, per = "1m", wait = "none", permits = batch.items)]
async fn batch(Query(batch): Query<Batch>) -> Result<String, Rejection> {
    Ok(batch.items.to_string())
}

#[tokio::test]
async fn a_cost_out_of_a_request_is_never_an_error_of_the_service() {
    let (limits, _) = limits().await;
    let app = shop().layer(Headers::Ietf);
    for (items, expected) in [
        ("0", 200),
        ("10", 200),
        ("1", 429),
        ("11", 422),
        ("4294967296", 422),
        ("18446744073709551615", 422),
        ("-1", 400),
    ] {
        let request = Request::post(format!("/batch?items={items}")).body(Body::empty());
        let answer = ask(&app, &limits, request.unwrap()).await;
        assert_eq!(answer.status().as_u16(), expected, "{items} items");
        if expected == 422 {
            assert!(answer.extensions().get::<Decision>().is_none(), "nothing was counted");
            assert_eq!(header(&answer, "ratelimit-policy").unwrap(), r#""batch";q=10;w=60"#);
            let problem: Value = serde_json::from_str(&text(answer).await).unwrap();
            let title = problem["title"].as_str().unwrap();
            assert!(title.contains("more permits than its rate limit"), "{title}");
        }
    }
}

#[rate_limit(key = "mine:{ip}", rate = 1, per = "1m", wait = "none")]
async fn mine(ip: ClientIp) -> Result<String, Rejection> {
    Ok(ip.to_string())
}

#[tokio::test]
async fn the_client_is_an_extractor() {
    let (limits, _) = limits().await;
    let from = |peer: [u8; 4]| {
        let mut request = Request::get("/mine").body(Body::empty()).unwrap();
        request.extensions_mut().insert(ConnectInfo(SocketAddr::from((peer, 4711))));
        request
    };
    let app = shop();
    let answer = ask(&app, &limits, from([203, 0, 113, 7])).await;
    assert_eq!(text(answer).await, "203.0.113.7");
    assert_eq!(ask(&app, &limits, from([203, 0, 113, 7])).await.status().as_u16(), 429);
    assert_eq!(ask(&app, &limits, from([203, 0, 113, 8])).await.status().as_u16(), 200);

    // A layer with the same template counts the same clients.
    let layered = Router::new()
        .route("/mine", get(async || "ok"))
        .layer(Limit::new("mine:{ip}", quota(1, MINUTE)));
    assert_eq!(ask(&layered, &limits, from([203, 0, 113, 8])).await.status().as_u16(), 429);

    let mock = shop().layer(MockConnectInfo(SocketAddr::from(([203, 0, 113, 9], 1))));
    assert_eq!(text(get_path(&mock, &limits, "/mine").await).await, "203.0.113.9");
    let (limits, events) = reporting().await;
    let answer = get_path(&app, &limits, "/mine").await;
    assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR, "nobody knows the peer");
    let event = events.try_recv().expect("it is reported");
    assert!(event.starts_with("rate limit `{ip}` cannot be enforced as configured: "), "{event}");
}

#[rate_limit(key = "anyone:{ip?}", rate = 1, per = "1m", wait = "none")]
async fn anyone(ip: Option<ClientIp>) -> Result<String, Rejection> {
    Ok(ip.map_or_else(String::new, |ip| ip.to_string()))
}

#[tokio::test]
async fn clients_whose_peer_is_unknown_share_a_limiter_if_the_handler_lets_them() {
    let (limits, events) = reporting().await;
    let app = Router::new().route("/", get(anyone));
    let peer = MockConnectInfo(SocketAddr::from(([203, 0, 113, 7], 80)));
    for (app, client) in [(app.clone(), ""), (app.layer(peer), "203.0.113.7")] {
        assert_eq!(text(get_path(&app, &limits, "/").await).await, client);
        assert_eq!(get_path(&app, &limits, "/").await.status(), StatusCode::TOO_MANY_REQUESTS);
    }
    assert!(events.try_recv().is_err(), "nothing is misconfigured");
}

#[tokio::test]
async fn a_limit_is_a_layer_of_routes_and_of_routers() {
    let (limits, _) = limits().await;
    let route = Limit::new("route", quota(1, MINUTE));
    let nested = Limit::new("nested", quota(2, MINUTE));
    let all = Limit::new("app", quota(4, MINUTE)).limits(&limits);
    let inside = Router::new().route("/one", get(async || "one")).layer(nested);
    let app = Router::new()
        .route("/limited", get(async || "limited").layer(route))
        .nest("/nested", inside)
        .layer(all)
        .route("/free", get(async || "free"));
    let status = async |path| get_path(&app, &limits, path).await.status().as_u16();
    assert_eq!([status("/limited").await, status("/limited").await], [200, 429]);
    assert_eq!([status("/nested/one").await, status("/nested/one").await], [200, 200]);
    assert_eq!([status("/nested/one").await, status("/free").await], [429, 200]);
    let answer = get_path(&app, &limits, "/limited").await;
    assert!(text(answer).await.contains(r#""violated-policies":["app"]"#));
}

/// Responds to a preflight by an empty body, as layers for CORS do.
fn with_preflights<S, B: Default>(
    inner: S,
) -> impl Service<Request<Body>, Response = http::Response<B>, Error = S::Error>
where
    S: Service<Request<Body>, Response = http::Response<B>> + Clone,
{
    service_fn(move |request: Request<Body>| {
        let inner = inner.clone();
        async move {
            match *request.method() {
                Method::OPTIONS => Ok(http::Response::default()),
                _ => inner.oneshot(request).await,
            }
        }
    })
}

#[tokio::test]
async fn a_layer_outside_may_respond_by_an_empty_body() {
    let (limits, _) = limits().await;
    let limit = Limit::new("search", quota(1, MINUTE)).limits(&limits);
    let mut app = with_preflights(limit.layer(Router::new().route("/", get(async || "found"))));
    for (method, status, body) in
        [("OPTIONS", 200, ""), ("GET", 200, "found"), ("OPTIONS", 200, "")]
    {
        let request = Request::builder().method(method).uri("/").body(Body::empty()).unwrap();
        let answer = app.call(request).await.unwrap();
        assert_eq!((answer.status().as_u16(), text(answer).await.as_str()), (status, body));
    }
    assert_eq!(app.call(Request::new(Body::empty())).await.unwrap().status(), 429);
}

/// A limit outside admits the request with its last permit, and the handler rejects it for a shorter time.
#[tokio::test]
async fn a_rejected_request_is_not_repeated_before_every_limit_admits_it() {
    for headers in [Headers::Ietf, Headers::Off] {
        let (limits, time) = limits().await;
        let hourly = Limit::new("hourly", quota(2, 60 * MINUTE)).headers(headers).limits(&limits);
        let app = shop().layer(hourly).layer(headers);
        assert_eq!(get_path(&app, &limits, "/json/1").await.status(), StatusCode::OK);
        time.advance(MINUTE / 2);
        let answer = get_path(&app, &limits, "/json/1").await;
        let after = header(&answer, "retry-after");
        assert!(text(answer).await.contains(r#""violated-policies":["json:{id}"]"#));
        assert_eq!(after.unwrap(), "3570", "a minute's limit has a permit after 30 s");
        time.advance(3_570 * SECOND);
        assert_eq!(get_path(&app, &limits, "/json/1").await.status(), StatusCode::OK);
    }
}

#[tokio::test]
async fn a_handler_may_ask_for_a_later_retry() {
    const PAST: &str = "Fri, 31 Dec 1999 23:59:59 GMT";
    const FUTURE: &str = "Thu, 31 Dec 2499 23:59:59 GMT";

    let malformed = [("soon", "60"), ("-1", "60"), ("90.5", "60"), ("", "60")];
    let dates = [(PAST, "60"), (FUTURE, FUTURE)];
    for (own, sent) in [("59", "60"), ("61", "61")].into_iter().chain(dates).chain(malformed) {
        let (limits, _) = limits().await;
        let handler = async move || match own_error(Path(1)).await {
            Ok(_) => StatusCode::OK.into_response(),
            Err(error) => ([("retry-after", own)], error).into_response(),
        };
        let app = Router::new().route("/", get(handler)).layer(Headers::Ietf);
        let _ = get_path(&app, &limits, "/").await;
        let answer = get_path(&app, &limits, "/").await;
        assert_eq!(header(&answer, "retry-after").unwrap(), sent);
    }
}
