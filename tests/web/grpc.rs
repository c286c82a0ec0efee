//! A tonic server and a tonic client.

use std::{convert::Infallible, error::Error, time::Duration};

use ratelimit_runtime::{
    Limiter, Limits, Rejection,
    client::{Throttle, ThrottleError},
    rate_limit,
    tower::Limit,
    web::Headers,
};
use tokio::net::TcpListener;
use tokio_stream::{Empty, empty, wrappers::TcpListenerStream};
use tonic::{
    Code, Request, Response, Status,
    transport::{self, Channel, Server},
};
use tonic_health::pb::{
    HealthCheckRequest, HealthCheckResponse,
    health_client::HealthClient,
    health_server::{Health, HealthServer},
};
use tonic_types::StatusExt;
use tower::{Layer, ServiceExt, service_fn};

use crate::{MINUTE, quota};

struct Service {
    limits: Limits,
    region: &'static str,
}

impl Service {
    #[rate_limit(key = "health:{self.region}", rate = 2, per = "1m", wait = "none")]
    async fn limited(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let status = i32::from(request.into_inner().service.is_empty());
        Ok(Response::new(HealthCheckResponse { status }))
    }
}

#[tonic::async_trait]
impl Health for Service {
    type WatchStream = Empty<Result<HealthCheckResponse, Status>>;

    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        self.limits.scope(self.limited(request)).await
    }

    #[rate_limit(key = "watch", rate = 1, per = "1m", wait = "none")]
    async fn watch(
        &self,
        _: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        Ok(Response::new(empty()))
    }
}

/// Serves until the test ends.
async fn serve(limits: &Limits, rate: u64) -> HealthClient<Channel> {
    HealthClient::new(connect(limits, rate).await)
}

async fn connect(limits: &Limits, rate: u64) -> Channel {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let service = HealthServer::new(Service { limits: limits.clone(), region: "eu" });
    let server = Server::builder()
        .layer(Headers::Ietf)
        .layer(Limit::new("rpc:{ip}", quota(rate, MINUTE)).limits(limits))
        .add_service(service)
        .serve_with_incoming(TcpListenerStream::new(listener));
    tokio::spawn(server);
    Channel::from_shared(url).unwrap().connect().await.unwrap()
}

fn assert_exhausted(status: &Status) {
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert_eq!(status.message(), "Request cannot be satisfied as assigned quota has been exceeded");
    let retry = status.get_details_retry_info().and_then(|info| info.retry_delay).unwrap();
    assert!((Duration::from_secs(50)..=MINUTE).contains(&retry), "{retry:?}");
}

#[tokio::test]
async fn annotated_methods_answer_by_a_status() {
    let limits = Limits::builder().memory().no_limits_file().build().await.unwrap();
    let mut client = serve(&limits, 100).await;
    for left in [1, 0] {
        let answer = client.check(HealthCheckRequest::default()).await.unwrap();
        let told = answer.metadata().get("ratelimit").unwrap().to_str().unwrap();
        assert!(told.starts_with(&format!("\"health:{{self.region}}\";r={left};t=")), "{told}");
        assert_eq!(answer.into_inner().status, 1);
    }
    let status = client.check(HealthCheckRequest::default()).await.unwrap_err();
    assert_exhausted(&status);
    let retry = status.metadata().get("retry-after").unwrap().to_str().unwrap();
    assert!((50..=60).contains(&retry.parse::<u64>().unwrap()), "{retry}");
}

#[tokio::test]
async fn a_layer_answers_by_a_status_without_a_body() {
    let limits = Limits::builder().memory().no_limits_file().build().await.unwrap();
    let mut client = serve(&limits, 1).await;
    client.check(HealthCheckRequest::default()).await.unwrap();
    let status = client.check(HealthCheckRequest::default()).await.unwrap_err();
    assert_exhausted(&status);
    let told = status.metadata().get("ratelimit").unwrap().to_str().unwrap();
    assert!(told.starts_with(r#""rpc:{ip}";r=0;t="#), "{told}");
    assert!(status.metadata().contains_key("retry-after"));
    let status = client.watch(HealthCheckRequest::default()).await.unwrap_err();
    assert_exhausted(&status);
}

/// The limit of the method admits again after ten seconds, that of the layer after a minute.
#[tokio::test]
async fn no_status_asks_to_retry_before_all_limits_admit() {
    let limits = Limits::builder().memory().no_limits_file().build().await.unwrap();
    let limit = Limit::new("rpc", quota(1, MINUTE)).limits(&limits);
    let method = service_fn(async |_: http::Request<()>| {
        own().await.unwrap();
        let status = own().await.unwrap_err();
        Ok::<http::Response<String>, Infallible>(status.into_http())
    });
    let response = limit.layer(method).oneshot(http::Request::new(())).await.unwrap();
    assert_eq!(response.headers()["retry-after"], "60");
    assert_exhausted(&Status::from_header_map(response.headers()).unwrap());
}

#[rate_limit(key = "own", rate = 1, per = "10s", wait = "none")]
async fn own() -> Result<(), Status> {
    Ok(())
}

/// A client decides by the code whether it tries again.
#[tokio::test]
async fn a_call_that_a_throttle_rejects_returns_a_status() {
    let limits = Limits::builder().memory().no_limits_file().build().await.unwrap();
    let channel = connect(&limits, 100).await;
    let partner = limits.limiter("partner", quota(1, MINUTE));
    let throttle = Throttle::new(move |_: &http::Request<tonic::body::Body>| partner.clone());
    let mut client = HealthClient::new(throttle.timeout(Duration::ZERO).layer(channel));
    client.check(HealthCheckRequest::default()).await.unwrap();
    let status = client.check(HealthCheckRequest::default()).await.unwrap_err();
    assert_exhausted(&status);
    let error = status.source().unwrap().downcast_ref::<ThrottleError<transport::Error>>();
    assert!(matches!(error, Some(ThrottleError::Rejected(_))), "{status:?}");
}

#[tokio::test]
async fn only_a_lost_store_is_unavailable() {
    let yaml = "limiters:\n  pay: { rate: 5, per: 1m, on_store_error: reject }\n";
    let builder = Limits::builder().redis("redis://127.0.0.1:1/").limits_yaml(yaml);
    let limits = builder.build().await.unwrap();
    let rejection = async |permits| rejected(&limits.configured("pay"), permits).await;
    let unavailable = Status::from(rejection(1).await);
    assert_eq!(unavailable.code(), Code::Unavailable);
    assert!(!unavailable.message().contains("127.0.0.1"), "{unavailable:?}");
    let too_many = Status::from(rejection(6).await);
    assert_eq!(too_many.code(), Code::ResourceExhausted);
    assert!(too_many.get_details_retry_info().is_none(), "no wait helps");
    let unknown = Limits::builder().memory().no_limits_file().build().await.unwrap();
    let status = Status::from(rejected(&unknown.configured("none"), 1).await);
    assert_eq!(status.code(), Code::Internal);
}

async fn rejected(limiter: &Limiter, permits: u64) -> Rejection {
    limiter.try_acquire(permits).await.unwrap_err()
}
