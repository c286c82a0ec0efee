//! An axum server under load from a real client, over HTTP/1 and HTTP/2.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use ::bytes::Bytes;
use axum::{
    Router, ServiceExt,
    body::Body as AxumBody,
    extract::DefaultBodyLimit,
    middleware::map_request,
    response::IntoResponse,
    routing::{get, post},
};
use http::{Method, Request, StatusCode, Version};
use http_body::{Body, Frame};
use http_body_util::Full;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use ratelimit_runtime::{Limits, Rejection, rate_limit, tower::Limit, web::Headers};
use tests::redis_server::RedisServer;
use tokio::{net::TcpListener, task::JoinSet};
use tower::ServiceBuilder;

use crate::{SECOND, header, quota, structured::list, text};

pub(crate) type HttpClient = Client<HttpConnector, Full<Bytes>>;

pub(crate) fn client(version: Version) -> HttpClient {
    let mut builder = Client::builder(TokioExecutor::new());
    builder.http2_only(version == Version::HTTP_2).build_http()
}

/// Serves until the test ends.
async fn serve(app: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    format!("http://{address}")
}

pub(crate) async fn ask(
    client: &HttpClient,
    url: String,
    body: Bytes,
) -> http::Response<hyper::body::Incoming> {
    let request = Request::post(url).body(Full::new(body)).unwrap();
    client.request(request).await.expect("no connection is dropped")
}

#[rate_limit(key = "handler", rate = 40, per = "1h", wait = "none")]
async fn handler() -> Result<&'static str, Rejection> {
    Ok("ok")
}

/// Both a layer and an annotated handler admit exactly what the limit says, and each answer is described.
async fn admits_exactly_the_limit(limits: &Limits) {
    let layer = Limit::new("layer:{ip}", quota(40, 3_600 * SECOND));
    let inside = limits.clone();
    let app = Router::new()
        .route("/layer", post(async || "ok").layer(layer.limits(limits)))
        .route("/handler", post(async move || inside.scope(handler()).await))
        .layer(Headers::Ietf);
    let url = serve(app).await;
    admits_forty(&format!("{url}/layer"), Version::HTTP_11).await;
    admits_forty(&format!("{url}/handler"), Version::HTTP_2).await;
}

/// Sends 200 requests to what admits 40 in an hour.
pub(crate) async fn admits_forty(url: &str, version: Version) {
    let client = client(version);
    let mut asked = JoinSet::new();
    for _ in 0..200 {
        let (client, url) = (client.clone(), url.to_owned());
        asked.spawn(async move { ask(&client, url, Bytes::new()).await });
    }
    let (mut left, mut rejected) = (BTreeMap::new(), 0);
    while let Some(answer) = asked.join_next().await {
        let answer = answer.unwrap();
        assert_eq!(answer.version(), version);
        let told = list(&header(&answer, "ratelimit").unwrap());
        let [(_, parameters)] = &told[..] else { panic!("{told:?}") };
        let (r, t) = (parameters[0].1, parameters[1].1);
        assert!((3_590..=3_600).contains(&t), "{told:?}");
        assert!(header(&answer, "ratelimit-policy").unwrap().ends_with(";q=40;w=3600"));
        match answer.status() {
            StatusCode::OK => *left.entry(r).or_insert(0) += 1,
            StatusCode::TOO_MANY_REQUESTS => {
                let wait: u64 = header(&answer, "retry-after").unwrap().parse().unwrap();
                assert!(r == 0 && (3_590..=3_600).contains(&wait), "{told:?}");
                rejected += 1;
            }
            other => panic!("{other} from {url}"),
        }
    }
    let each_once: BTreeMap<i64, i32> = (0..40).map(|left| (left, 1)).collect();
    assert_eq!((left, rejected), (each_once, 160), "{url}");
}

/// Runs a test with limits of the embedded store, then with limits of a real Redis.
pub(crate) async fn on_each_store(test: impl AsyncFn(&Limits)) {
    let embedded = Limits::builder().memory().no_limits_file().build().await.unwrap();
    test(&embedded).await;
    let server = RedisServer::start();
    let builder = Limits::builder().redis(server.url()).no_limits_file().deadline(20 * SECOND);
    test(&builder.build().await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_admits_exactly_the_limit() {
    on_each_store(admits_exactly_the_limit).await;
}

/// A body that counts the bytes that are read of it.
struct Counted {
    body: AxumBody,
    read: Arc<AtomicU64>,
}

impl Body for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &frame {
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            self.read.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        frame
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_rejected_upload_is_read() {
    const SIZE: u64 = 10 << 20;

    let limits = Limits::builder().memory().no_limits_file().build().await.unwrap();
    let read = Arc::new(AtomicU64::new(0));
    let counts = Arc::clone(&read);
    let count = move |request: Request<AxumBody>| {
        let read = Arc::clone(&counts);
        async move { request.map(|body| AxumBody::new(Counted { body, read })) }
    };
    let limit = Limit::new("uploads", quota(1, 3_600 * SECOND)).limits(&limits);
    let app = Router::new()
        .route("/", post(async |body: Bytes| body.len().to_string()))
        .layer(DefaultBodyLimit::disable())
        .layer(limit)
        .layer(map_request(count));
    let url = serve(app).await;
    let upload = Bytes::from(vec![7; usize::try_from(SIZE).unwrap()]);
    for version in [Version::HTTP_2, Version::HTTP_11] {
        let client = client(version);
        if version == Version::HTTP_2 {
            let answer = ask(&client, url.clone(), upload.clone()).await;
            assert_eq!((answer.status(), read.swap(0, Ordering::Relaxed)), (StatusCode::OK, SIZE));
        }
        let request = Request::post(&url).body(Full::new(upload.clone())).unwrap();
        // An HTTP/1 client may see the connection end while it still sends.
        if let Ok(answer) = client.request(request).await {
            assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
        }
        assert_eq!(read.load(Ordering::Relaxed), 0, "{version:?}");
    }
}

/// An HTTP/2 client resets a stream whose response to `HEAD` has a body. A router removes bodies itself, of what is inside.
#[tokio::test]
async fn a_rejected_head_request_gets_the_length_of_the_body_alone() {
    let limits = Limits::builder().memory().no_limits_file().build().await.unwrap();
    let limit = Limit::new("heads", quota(1, 3_600 * SECOND)).limits(&limits);
    let around = ServiceBuilder::new().map_response(IntoResponse::into_response).layer(limit);
    let app = around.service(Router::new().route("/", get(async || "ok")));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        axum::serve(listener, ServiceExt::<Request<AxumBody>>::into_make_service(app)).await
    });
    let of = |method: Method| Request::builder().method(method).uri(&url).body(Full::default());
    for version in [Version::HTTP_2, Version::HTTP_11] {
        let client = client(version);
        let ask = async |method| client.request(of(method).unwrap()).await.unwrap();
        ask(Method::HEAD).await;
        let answers = [ask(Method::HEAD).await, ask(Method::GET).await];
        let [head, get] = answers.map(|answer| {
            assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
            (header(&answer, "content-length").unwrap(), answer)
        });
        assert_eq!(head.0, get.0, "{version:?}");
        assert_eq!(text(head.1).await, "", "{version:?}");
        assert_eq!(text(get.1).await.len().to_string(), get.0, "{version:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_policy_makes_a_lost_redis_an_error() {
    let server = RedisServer::start();
    let limits = with_policies(&server).await;
    let limit = |name| Limit::new(name, quota(1_000_000, SECOND)).limits(&limits);
    let app = Router::new()
        .route("/pay", get(async || "ok").post(async || "ok").layer(limit("pay")))
        .route("/browse", post(async || "ok").layer(limit("browse")))
        .route("/search", post(async || "ok").layer(limit("search")));
    let url = serve(app).await;
    pay_alone_is_unavailable(&url, Version::HTTP_2, &server).await;
}

pub(crate) async fn with_policies(server: &RedisServer) -> Limits {
    let yaml =
        "limiters:\n  pay: { on_store_error: reject }\n  browse: { on_store_error: allow }\n";
    Limits::builder().redis(server.url()).limits_yaml(yaml).build().await.unwrap()
}

/// Sends requests before and after Redis is killed.
pub(crate) async fn pay_alone_is_unavailable(url: &str, version: Version, server: &RedisServer) {
    let client = client(version);
    let began = Instant::now();
    let mut killed = false;
    let mut unavailable = 0;
    while began.elapsed() < Duration::from_millis(1_500) {
        if !killed && began.elapsed() > Duration::from_millis(500) {
            server.kill_hard();
            killed = true;
        }
        for path in ["pay", "browse", "search"] {
            let answer = ask(&client, format!("{url}/{path}"), Bytes::new()).await;
            if answer.status() == StatusCode::SERVICE_UNAVAILABLE {
                assert!(killed && path == "pay", "{path}");
                assert_eq!(header(&answer, "retry-after").unwrap(), "1");
                unavailable += 1;
            } else {
                assert_eq!(answer.status(), StatusCode::OK, "{path}");
            }
        }
    }
    assert!(unavailable > 10, "{unavailable} requests to pay were rejected");
}
