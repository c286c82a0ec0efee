//! Pauses that an upstream asks for.

use std::{
    convert::Infallible,
    time::{Duration, Instant},
};

use http::{Request, Response};
use ratelimit_runtime::{
    Limits, Reason, Rejection,
    client::{Throttle, ThrottleError},
    test_util::ManualClock,
};
use tokio::time::timeout;
use tonic::transport::{Channel, Server};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tower::{Layer, ServiceExt, service_fn};

use crate::{MINUTE, SECOND, embedded, quota, upstream::Upstream};

/// An answer with this status and these headers.
fn says(status: u16, headers: &[(&str, &str)]) -> Response<String> {
    let response = Response::builder().status(status);
    let add = |response: http::response::Builder, (name, value): &(&str, &str)| {
        response.header(*name, *value)
    };
    headers.iter().fold(response, add).body(String::new()).unwrap()
}

/// A status whose `RetryInfo` has the smallest number of seconds.
const EARLIEST: &str =
    "CAgaOQoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLlJldHJ5SW5mbxINCgsIgICAgICAgICAAQ";

type Headers = &'static [(&'static str, &'static str)];

/// What is left of the pause after an upstream gave this answer, by a request that waits for nothing.
async fn paused_by(status: u16, headers: Headers) -> Option<Duration> {
    let time = ManualClock::new();
    let builder = Limits::builder().memory().no_limits_file().clock(time.clone());
    let partner = builder.build().await.unwrap().limiter("partner", quota(100, SECOND));
    let throttle = Throttle::new(move |_: &Request<()>| partner.clone()).timeout(Duration::ZERO);
    let upstream =
        service_fn(move |_: Request<()>| async move { Ok::<_, Infallible>(says(status, headers)) });
    let client = throttle.layer(upstream);
    let answer = client.clone().oneshot(Request::new(())).await.unwrap();
    assert_eq!(answer.status(), status, "answers are passed on");
    let ThrottleError::Rejected(rejection) =
        client.clone().oneshot(Request::new(())).await.err()?
    else {
        panic!("the service does not fail")
    };
    assert_eq!(rejection.reason(), Reason::WaitTooLong);
    let pause = rejection.retry_after().unwrap();
    time.advance(pause);
    client.oneshot(Request::new(())).await.expect("the pause is over");
    Some(pause)
}

#[tokio::test]
async fn answers_say_how_long_to_pause() {
    let cases: &[(u16, Headers, u64)] = &[
        (429, &[("retry-after", "3")], 3),
        (503, &[("retry-after", "120")], 120),
        (429, &[("retry-after", "99999999")], 86_400),
        (429, &[("retry-after", "99999999999999999999")], 86_400),
        (200, &[("retry-after", "3")], 0),
        (301, &[("retry-after", "3")], 0),
        (429, &[], 0),
        (429, &[("retry-after", "0")], 0),
        (429, &[("retry-after", "-1")], 0),
        (429, &[("retry-after", "soon")], 0),
        // By the clock of the upstream, or else by ours, which stands at 22:13:20.
        (
            429,
            &[
                ("date", "Sun, 22 Nov 2026 08:00:00 GMT"),
                ("retry-after", "Sun, 22 Nov 2026 08:00:07 GMT"),
            ],
            7,
        ),
        (429, &[("retry-after", "Tue, 14 Nov 2023 22:13:25 GMT")], 5),
        (429, &[("retry-after", "Tue, 14 Nov 2023 22:13:15 GMT")], 0),
        // On any answer, if nothing is left.
        (429, &[("ratelimit", r#""default";r=0;t=4"#)], 4),
        (200, &[("ratelimit", r#""default";r=0;t=4"#)], 4),
        (200, &[("ratelimit", r#""default";r=1;t=4"#)], 0),
        (200, &[("ratelimit", r#""burst";r=0;t=4,"daily";r=0;t=50"#)], 50),
        (200, &[("ratelimit", r#""burst";r=0;t=4"#), ("ratelimit", r#""daily";r=7;t=50"#)], 4),
        (200, &[("ratelimit", r#""default";r=0"#)], 0),
        (200, &[("ratelimit", r#""default";r=0;t=-4"#)], 0),
        (200, &[("ratelimit", "limit=100, remaining=0, reset=50")], 0),
        // What is malformed is ignored, and `Retry-After` takes precedence.
        (200, &[("ratelimit", r#""default;r=0;t=4"#)], 0),
        (200, &[("grpc-status", "8"), ("grpc-status-details-bin", "no base64!")], 0),
        (200, &[("grpc-status", "8"), ("grpc-status-details-bin", "bm8gbWVzc2FnZQ")], 0),
        (200, &[("grpc-status", "8"), ("grpc-status-details-bin", EARLIEST)], 0),
        (200, &[("grpc-status", "8"), ("retry-after", "3")], 3),
        (200, &[("grpc-status", "5"), ("retry-after", "3")], 0),
        (429, &[("retry-after", "2"), ("ratelimit", r#""default";r=0;t=9"#)], 2),
        (200, &[("retry-after", "2"), ("ratelimit", r#""default";r=0;t=9"#)], 9),
    ];
    for (status, headers, seconds) in cases {
        let pause = paused_by(*status, headers).await.unwrap_or_default();
        assert_eq!(pause, Duration::from_secs(*seconds), "{status} {headers:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_arrives_during_a_pause() {
    let limits = embedded().await;
    let upstream = Upstream::start([says(429, &[("retry-after", "1")])]).await;
    let partner = limits.limiter("partner", quota(2, SECOND / 5));
    let free = partner.clone();
    let throttle = Throttle::new(move |_: &reqwest::Request| partner.clone());
    // Services of one throttle share the pause, and so do requests that were in line when it began.
    let mut sent = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let client = throttle.layer(reqwest::Client::new());
        let request = reqwest::Request::new(reqwest::Method::GET, upstream.url.parse().unwrap());
        sent.spawn(async move { client.oneshot(request).await.unwrap().status().as_u16() });
    }
    let mut statuses = sent.join_all().await;
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 429], "the refused request is not repeated");
    let arrivals = upstream.arrivals();
    let since_first: Vec<_> = arrivals.iter().map(|at| *at - arrivals[0]).collect();
    // One more was under way together with the first.
    let during = |at: &&Duration| (SECOND / 10..SECOND - SECOND / 50).contains(*at);
    assert_eq!(since_first.iter().filter(during).count(), 0, "{since_first:?}");
    assert!(since_first[2] >= SECOND - SECOND / 50, "{since_first:?}");
    assert!(since_first[5] < 3 * SECOND, "{since_first:?}");
    tokio::time::sleep(SECOND / 4).await;
    assert_eq!(free.available_permits().await.unwrap(), 2);
}

#[tokio::test]
async fn a_pause_is_of_one_limiter() {
    let limits = embedded().await;
    let throttle = Throttle::new(move |request: &Request<()>| {
        limits.limiter(request.uri().path(), quota(100, SECOND))
    });
    let refuses = service_fn(async |request: Request<()>| {
        let headers: &[_] =
            if request.uri().path() == "/a" { &[("retry-after", "9")] } else { &[] };
        Ok::<_, Infallible>(says(429, headers))
    });
    let client = throttle.timeout(Duration::ZERO).layer(refuses);
    let ask = async |path: &str| {
        let request = Request::get(path).body(()).unwrap();
        client.clone().oneshot(request).await.map(|answer: Response<String>| answer.status())
    };
    assert_eq!(ask("/a").await.unwrap(), 429);
    assert!(matches!(ask("/a").await, Err(ThrottleError::Rejected(_))));
    assert_eq!(ask("/b").await.unwrap(), 429);
}

/// The shared limiter comes first, so the pause of one host was one of all hosts.
#[tokio::test]
async fn a_pause_is_of_limiters_that_are_joined() {
    let limits = embedded().await;
    let throttle = Throttle::new(move |request: &Request<()>| {
        let [all, host, order] = ["all", request.uri().path(), "order"]
            .map(|name| limits.limiter(name, quota(100, SECOND)));
        match request.method().as_str() {
            "GET" => all.and(host).and(order),
            _ => order.and(host).and(all),
        }
    });
    let refuses = service_fn(async |request: Request<()>| {
        let headers: &[_] =
            if request.uri().path() == "/a" { &[("retry-after", "9")] } else { &[] };
        Ok::<_, Infallible>(says(429, headers))
    });
    let client = throttle.timeout(Duration::ZERO).layer(refuses);
    let ask = async |method: &str, path: &str| {
        let request = Request::builder().method(method).uri(path).body(()).unwrap();
        client.clone().oneshot(request).await.map(|answer: Response<String>| answer.status())
    };
    assert_eq!(ask("GET", "/a").await.unwrap(), 429);
    assert_eq!(ask("GET", "/b").await.unwrap(), 429, "another host is not paused");
    for method in ["GET", "POST"] {
        let rejected = ask(method, "/a").await;
        assert!(matches!(rejected, Err(ThrottleError::Rejected(_))), "in any order");
    }
}

/// A request that sat out one pause learned of a longer one only at the end of the first.
#[tokio::test]
async fn a_longer_pause_rejects_a_request_that_cannot_sit_it_out() {
    let limits = embedded().await;
    let partner = limits.limiter("partner", quota(100, MINUTE));
    let throttle = Throttle::new(move |_: &Request<()>| partner.clone()).timeout(10 * SECOND);
    let client = throttle.layer(service_fn(async |request: Request<()>| {
        let is_slow = request.uri().path() == "/slow";
        tokio::time::sleep(if is_slow { SECOND / 5 } else { Duration::ZERO }).await;
        let after = if is_slow { "60" } else { "5" };
        Ok::<_, Infallible>(says(429, &[("retry-after", after)]))
    }));
    let send = |path: &str| client.clone().oneshot(Request::get(path).body(()).unwrap());
    let slow = tokio::spawn(send("/slow"));
    tokio::time::sleep(SECOND / 20).await;
    send("/").await.unwrap();
    let waiting = timeout(2 * SECOND, send("/")).await.expect("it is rejected at once");
    let Err(ThrottleError::Rejected(rejection)) = waiting else { panic!("it was sent") };
    assert_eq!(rejection.reason(), Reason::WaitTooLong);
    assert_eq!(slow.await.unwrap().unwrap().status(), 429);
}

#[tokio::test]
async fn a_caller_that_hangs_up_during_a_pause_takes_nothing() {
    let limits = embedded().await;
    let partner = limits.limiter("partner", quota(2, MINUTE));
    let free = partner.clone();
    let throttle = Throttle::new(move |_: &Request<()>| partner.clone());
    let refuses =
        service_fn(async |_: Request<()>| Ok::<_, Infallible>(says(503, &[("retry-after", "60")])));
    let client = throttle.layer(refuses);
    client.clone().oneshot(Request::new(())).await.unwrap();
    let waiting = client.oneshot(Request::new(()));
    assert!(timeout(SECOND / 20, waiting).await.is_err());
    assert_eq!(free.available_permits().await.unwrap(), 1);
}

#[tokio::test]
async fn a_shutdown_ends_a_pause() {
    let limits = embedded().await;
    let partner = limits.limiter("partner", quota(2, MINUTE));
    let throttle = Throttle::new(move |_: &Request<()>| partner.clone());
    let refuses =
        service_fn(async |_: Request<()>| Ok::<_, Infallible>(says(503, &[("retry-after", "60")])));
    let client = throttle.layer(refuses);
    client.clone().oneshot(Request::new(())).await.unwrap();
    let waiting = tokio::spawn(client.clone().oneshot(Request::new(())));
    tokio::time::sleep(SECOND / 20).await;
    limits.shutdown().await;
    for sent in [waiting, tokio::spawn(client.oneshot(Request::new(())))] {
        let answer = timeout(SECOND, sent).await.expect("no pause is sat out").unwrap();
        let Err(ThrottleError::Rejected(rejection)) = answer else { panic!("it was sent") };
        assert_eq!(rejection.reason(), Reason::StoreUnavailable);
    }
}

/// A health service whose answers are rejected by a limit of the server.
struct Service;

#[tonic::async_trait]
impl tonic_health::pb::health_server::Health for Service {
    type WatchStream =
        tokio_stream::Empty<Result<tonic_health::pb::HealthCheckResponse, tonic::Status>>;

    async fn check(
        &self,
        _: tonic::Request<HealthCheckRequest>,
    ) -> Result<tonic::Response<tonic_health::pb::HealthCheckResponse>, tonic::Status> {
        let limits = embedded().await;
        let closed = limits.limiter("closed", quota(1, 2 * SECOND));
        closed.try_acquire(1).await.map_err(tonic::Status::from)?;
        let rejection: Rejection = closed.try_acquire(1).await.unwrap_err();
        Err(rejection.into())
    }

    async fn watch(
        &self,
        _: tonic::Request<HealthCheckRequest>,
    ) -> Result<tonic::Response<Self::WatchStream>, tonic::Status> {
        Ok(tonic::Response::new(tokio_stream::empty()))
    }
}

#[tokio::test]
async fn a_channel_of_tonic_pauses_by_the_retry_info() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
    let service = tonic_health::pb::health_server::HealthServer::new(Service);
    tokio::spawn(Server::builder().add_service(service).serve_with_incoming(incoming));
    let limits = embedded().await;
    let partner = limits.limiter("partner", quota(100, SECOND));
    let throttle = Throttle::new(move |_: &Request<tonic::body::Body>| partner.clone());
    let channel = Channel::from_shared(url).unwrap().connect().await.unwrap();
    let mut client = HealthClient::new(throttle.layer(channel));
    let mut check = async || client.check(HealthCheckRequest::default()).await.unwrap_err();
    assert_eq!(check().await.code(), tonic::Code::ResourceExhausted);
    let paused = Instant::now();
    check().await;
    let pause = paused.elapsed();
    assert!((SECOND * 3 / 2..4 * SECOND).contains(&pause), "{pause:?}");
}
