//! Requests that wait for their permits.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use ratelimit_runtime::{
    Limits, Reason,
    client::{Throttle, ThrottleError},
};
use tests::redis_server::RedisServer;
use tokio::{task::JoinSet, time::timeout};
use tower::{Layer, Service, ServiceExt};

use crate::{MINUTE, SECOND, embedded, quota, upstream::Upstream};

/// What arrives at a server depends on the network too, so that a window may be a little shorter there.
const JITTER: Duration = Duration::from_millis(150);

fn get(url: &str) -> reqwest::Request {
    reqwest::Request::new(reqwest::Method::GET, url.parse().unwrap())
}

/// Sends 30 requests at the same time, by a client of each of these limits, and looks at what arrives.
async fn keeps_the_pace(processes: &[Limits]) {
    let upstream = Upstream::start([]).await;
    let began = Instant::now();
    let mut sent = JoinSet::new();
    for limits in processes {
        let partner = limits.limiter("partner", quota(10, SECOND));
        let throttle = Throttle::new(move |_: &reqwest::Request| partner.clone());
        let client = throttle.layer(reqwest::Client::new());
        for _ in 0..30 / processes.len() {
            let (client, request) = (client.clone(), get(&upstream.url));
            sent.spawn(async move { client.oneshot(request).await.unwrap().status() });
        }
    }
    for status in sent.join_all().await {
        assert_eq!(status, 200);
    }
    assert_eq!(upstream.arrivals().len(), 30);
    assert!(upstream.worst_window(SECOND - JITTER) <= 10, "{:?}", upstream.arrivals());
    let took = began.elapsed();
    assert!((2 * SECOND..5 * SECOND).contains(&took), "{took:?} for 30 requests at 10 a second");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_sees_as_many_requests_as_the_limit_says() {
    keeps_the_pace(&[embedded().await]).await;
    let server = RedisServer::start();
    let shared = || Limits::builder().redis(server.url()).no_limits_file().deadline(20 * SECOND);
    keeps_the_pace(&[shared().build().await.unwrap(), shared().build().await.unwrap()]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_have_limits_of_their_own() {
    let limits = embedded().await;
    let (one, other) = (Upstream::start([]).await, Upstream::start([]).await);
    let throttle = Throttle::new(move |request: &Request<Full<Bytes>>| {
        limits.limiter(&format!("host:{}", request.uri().authority().unwrap()), quota(1, MINUTE))
    });
    let client = Client::builder(TokioExecutor::new()).build_http();
    let client = throttle.timeout(SECOND).layer(client);
    let ask = async |url: &str| {
        let request = Request::get(url).body(Full::default()).unwrap();
        client.clone().oneshot(request).await
    };
    assert_eq!(ask(&one.url).await.unwrap().status(), 200);
    assert_eq!(ask(&other.url).await.unwrap().status(), 200);
    let Err(ThrottleError::Rejected(rejection)) = ask(&one.url).await else { panic!("admitted") };
    assert_eq!(rejection.reason(), Reason::WaitTooLong, "it cannot be sent in time");
    assert_eq!((one.arrivals().len(), other.arrivals().len()), (1, 1));
}

#[tokio::test]
async fn a_request_that_is_dropped_in_line_takes_nothing() {
    let limits = embedded().await;
    let partner = limits.limiter("partner", quota(1, SECOND / 2));
    let throttle = Throttle::new({
        let partner = partner.clone();
        move |_: &Request<()>| partner.clone()
    });
    let sent = Arc::new(AtomicU64::new(0));
    let counts = Arc::clone(&sent);
    let upstream = tower::service_fn(move |_: Request<()>| {
        counts.fetch_add(1, Ordering::Relaxed);
        async { Ok::<_, Infallible>(Response::new(())) }
    });
    let client = throttle.layer(upstream);
    client.clone().oneshot(Request::new(())).await.unwrap();
    for _ in 0..3 {
        let waiting = client.clone().oneshot(Request::new(()));
        assert!(timeout(SECOND / 50, waiting).await.is_err());
    }
    timeout(SECOND, client.oneshot(Request::new(()))).await.expect("first in line").unwrap();
    assert_eq!(sent.load(Ordering::Relaxed), 2);
}

/// An upstream that is never ready, and counts who asks.
#[derive(Clone, Default)]
struct Busy(Arc<AtomicU64>);

impl Service<Request<()>> for Busy {
    type Response = Response<()>;
    type Error = Infallible;
    type Future = std::future::Pending<Result<Response<()>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Poll::Pending
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        panic!("it is not ready")
    }
}

#[tokio::test]
async fn a_request_in_line_occupies_nothing_of_the_inner_service() {
    let limits = embedded().await;
    let partner = limits.limiter("partner", quota(1, MINUTE));
    let busy = Busy::default();
    let throttle = Throttle::new({
        let partner = partner.clone();
        move |_: &Request<()>| partner.clone()
    });
    let mut client = throttle.layer(busy.clone());
    let polled = || busy.0.load(Ordering::Relaxed);
    partner.try_acquire(1).await.unwrap();
    timeout(SECOND, client.ready()).await.expect("ready at once").unwrap();
    assert!(timeout(SECOND / 20, client.call(Request::new(()))).await.is_err());
    assert_eq!(polled(), 0);
    partner.release(1).await.unwrap();
    assert!(timeout(SECOND / 20, client.call(Request::new(()))).await.is_err());
    assert!(polled() > 0, "once it has its permit");
}

#[tokio::test]
async fn errors_keep_their_kinds() {
    use std::error::Error;

    let limits = embedded().await;
    let partner = limits.limiter("partner", quota(1, MINUTE));
    let throttle = Throttle::new(move |_: &reqwest::Request| partner.clone());
    let client = throttle.timeout(Duration::ZERO).layer(reqwest::Client::new());
    let unreachable = client.clone().oneshot(get("http://127.0.0.1:1/")).await.unwrap_err();
    assert!(matches!(&unreachable, ThrottleError::Service(error) if error.is_connect()));
    assert!(unreachable.source().is_some(), "{unreachable}");
    let rejected = client.oneshot(get("http://127.0.0.1:1/")).await.unwrap_err();
    assert!(rejected.to_string().starts_with("rate limit `partner` exceeded"), "{rejected}");
}
