//! What clients see of rate limits: status, headers, bodies, and who they are taken for.
#![allow(clippy::disallowed_methods, reason = "real servers live in real time")]

#[path = "web/actix.rs"]
mod actix;
#[path = "web/bytes.rs"]
mod bytes;
#[path = "web/client_ip.rs"]
mod client_ip;
#[path = "web/grpc.rs"]
mod grpc;
#[path = "web/handlers.rs"]
mod handlers;
#[path = "web/layer.rs"]
mod layer;
#[path = "web/retried.rs"]
mod retried;
#[path = "web/served.rs"]
mod served;
#[path = "web/settled.rs"]
mod settled;
#[path = "web/structured.rs"]
mod structured;

use std::{convert::Infallible, sync::mpsc, time::Duration};

use ::bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty, Full};
use ratelimit_runtime::{
    Event, Limits, Quota,
    test_util::ManualClock,
    tower::{Limit, LimitBody},
};
use tower::{Layer, Service, ServiceExt};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

fn quota(rate: u64, per: Duration) -> Quota {
    Quota::new(rate, per).unwrap()
}

/// Limits of their own, and a clock that stands still.
async fn limits() -> (Limits, ManualClock) {
    by_file("").await
}

/// Limits of their own, and what they report of a wrong configuration.
async fn reporting() -> (Limits, mpsc::Receiver<String>) {
    let (sender, events) = mpsc::channel();
    let builder = Limits::builder().memory().no_limits_file().on_event(move |event| {
        if matches!(event, Event::Misconfigured { .. } | Event::LayersDiffer { .. }) {
            sender.send(event.to_string()).unwrap();
        }
    });
    (builder.build().await.unwrap(), events)
}

async fn by_file(yaml: &str) -> (Limits, ManualClock) {
    let time = ManualClock::new();
    let builder = Limits::builder().memory().limits_yaml(yaml).clock(time.clone());
    (builder.build().await.unwrap(), time)
}

type Answer = Response<LimitBody<Full<Bytes>>>;

fn request() -> Request<Empty<Bytes>> {
    Request::new(Empty::new())
}

/// Sends a request through a limit to a service that says `ok`.
async fn send(limit: &Limit, request: Request<Empty<Bytes>>) -> Answer {
    let ok = tower::service_fn(|_| async {
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"ok"))))
    });
    through(limit, ok, request).await
}

async fn through<S, B>(limit: &Limit, service: S, request: Request<B>) -> Answer
where
    S: Service<Request<B>, Response = Response<Full<Bytes>>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
    B: Send + 'static,
{
    limit.layer(service).oneshot(request).await.unwrap()
}

fn header<B>(answer: &Response<B>, name: &str) -> Option<String> {
    let value = answer.headers().get(name)?;
    Some(value.to_str().unwrap().to_owned())
}

async fn text<B>(answer: Response<B>) -> String
where
    B: http_body::Body<Data = Bytes, Error: std::fmt::Debug>,
{
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}
