//! An actix server and a real client.

use std::{
    net::{SocketAddr, TcpListener},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    thread,
};

use ::bytes::Bytes;
use actix_web::{
    App, HttpMessage, HttpRequest, HttpResponse, HttpServer,
    dev::{Payload, ServerHandle, Service, ServiceRequest, ServiceResponse},
    error::{ErrorServiceUnavailable, PayloadError},
    rt::System,
    test::{TestRequest, call_service, init_service, read_body},
    web::{self, ServiceConfig},
};
use http::{StatusCode, Version};
use ratelimit_runtime::{
    Decision, Limits, Rejection, rate_limit,
    tower::Limit,
    web::{ClientIp, Headers},
};
use tests::redis_server::RedisServer;
use tokio_stream::{Stream, StreamExt};

use crate::{
    MINUTE, SECOND, header, quota,
    served::{admits_forty, ask, client, on_each_store, pay_alone_is_unavailable, with_policies},
    text,
};

/// A server that ends with the test.
struct Server {
    url: String,
    handle: ServerHandle,
}

impl Server {
    /// Serves what is configured, with headers in all answers.
    fn start(configure: impl Fn(&mut ServiceConfig) + Clone + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let app = move || App::new().wrap(Headers::Ietf).configure(configure.clone());
        let (started, handle) = std::sync::mpsc::channel();
        thread::spawn(move || {
            System::new().block_on(async move {
                let server = HttpServer::new(app).workers(2).disable_signals();
                let server = server.listen(listener).unwrap().run();
                started.send(server.handle()).unwrap();
                server.await
            })
        });
        Self { url, handle: handle.recv().unwrap() }
    }

    async fn post(&self, path: &str) -> http::Response<hyper::body::Incoming> {
        ask(&client(Version::HTTP_11), format!("{}{path}", self.url), Bytes::new()).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.handle.stop(false));
    }
}

#[rate_limit(key = "actix-handler", rate = 40, per = "1h", wait = "none")]
async fn handler() -> Result<&'static str, Rejection> {
    Ok("ok")
}

async fn admits_exactly_the_limit(limits: &Limits) {
    let layer = Limit::new("actix:{ip}", quota(40, 3_600 * SECOND)).limits(limits);
    let limits = limits.clone();
    let server = Server::start(move |app| {
        let ok = web::post().to(async || "ok");
        app.service(web::resource("/layer").wrap(layer.clone()).route(ok));
        let limits = limits.clone();
        let handler = move || {
            let limits = limits.clone();
            async move { limits.scope(handler()).await }
        };
        app.route("/handler", web::post().to(handler));
    });
    admits_forty(&format!("{}/layer", server.url), Version::HTTP_11).await;
    admits_forty(&format!("{}/handler", server.url), Version::HTTP_11).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_admits_exactly_the_limit() {
    on_each_store(admits_exactly_the_limit).await;
}

/// A payload that counts the bytes that are read of it.
struct Counted {
    payload: Payload,
    read: Arc<AtomicU64>,
}

impl Stream for Counted {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, PayloadError>>> {
        let chunk = Pin::new(&mut self.payload).poll_next(context);
        if let Poll::Ready(Some(Ok(chunk))) = &chunk {
            self.read.fetch_add(chunk.len() as u64, Ordering::Relaxed);
        }
        chunk
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_rejected_upload_is_read() {
    const SIZE: usize = 10 << 20;

    let limits = Limits::builder().memory().no_limits_file().build().await.unwrap();
    let limit = Limit::new("uploads", quota(1, 3_600 * SECOND)).limits(&limits);
    let read = Arc::new(AtomicU64::new(0));
    let counts = Arc::clone(&read);
    let server = Server::start(move |app| {
        let counts = Arc::clone(&counts);
        let uploads = web::resource("/")
            .app_data(web::PayloadConfig::new(2 * SIZE))
            .route(web::post().to(async |body: web::Bytes| body.len().to_string()))
            .wrap(limit.clone())
            .wrap_fn(move |mut request, service| {
                let payload = request.take_payload();
                let payload = Box::pin(Counted { payload, read: Arc::clone(&counts) });
                request.set_payload(Payload::Stream { payload });
                service.call(request)
            });
        app.service(uploads);
    });
    let upload = Bytes::from(vec![7; SIZE]);
    let client = client(Version::HTTP_11);
    let answer = ask(&client, server.url.clone(), upload.clone()).await;
    assert_eq!((answer.status(), read.swap(0, Ordering::Relaxed)), (StatusCode::OK, SIZE as u64));
    // The client may see the connection end while it still sends.
    let request = http::Request::post(&server.url).body(http_body_util::Full::new(upload)).unwrap();
    if let Ok(answer) = client.request(request).await {
        assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
    }
    assert_eq!(read.load(Ordering::Relaxed), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_policy_makes_a_lost_redis_an_error() {
    let redis = RedisServer::start();
    let limits = with_policies(&redis).await;
    let server = Server::start(move |app| {
        for name in ["pay", "browse", "search"] {
            let limit = Limit::new(name, quota(1_000_000, SECOND)).limits(&limits);
            let ok = web::post().to(async || "ok");
            app.service(web::resource(format!("/{name}")).wrap(limit).route(ok));
        }
    });
    pay_alone_is_unavailable(&server.url, Version::HTTP_11, &redis).await;
}

#[rate_limit(key = "actix-login:{ip}", rate = 2, per = "1h", wait = "none", refund_on = "ok")]
async fn sign_in(ip: ClientIp, password: &str) -> HttpResponse {
    if password == "right" {
        HttpResponse::Ok().body(ip.to_string())
    } else {
        HttpResponse::Unauthorized().finish()
    }
}

#[tokio::test]
async fn a_handler_answers_by_responses_and_knows_the_client() {
    let limits = Limits::builder().memory().no_limits_file().build().await.unwrap();
    let server = Server::start(move |app| {
        let limits = limits.clone();
        let handler = move |ip: ClientIp, password: web::Path<String>| {
            let limits = limits.clone();
            async move { limits.scope(sign_in(ip, &password)).await }
        };
        app.route("/login/{password}", web::post().to(handler));
    });
    for (password, status) in
        [("right", 200), ("wrong", 401), ("right", 200), ("wrong", 401), ("right", 429)]
    {
        let answer = server.post(&format!("/login/{password}")).await;
        assert_eq!(answer.status().as_u16(), status, "failures alone count");
        match status {
            200 => assert_eq!(text(answer).await, "127.0.0.1"),
            429 => {
                let kind = header(&answer, "content-type").unwrap();
                assert_eq!(kind, "application/problem+json");
                let problem: serde_json::Value = serde_json::from_str(&text(answer).await).unwrap();
                assert_eq!(problem["violated-policies"], serde_json::json!(["actix-login:{ip}"]));
            }
            _ => {}
        }
    }
}

/// As a program does that listens on a Unix socket, where peers have no address.
#[tokio::test]
async fn a_middleware_may_say_who_the_peer_is() {
    let limits = Limits::builder().memory().no_limits_file().build().await.unwrap();
    let limit = Limit::new("behind-a-socket:{ip}", quota(1, MINUTE)).limits(&limits);
    let server = Server::start(move |app| {
        let from = |request: ServiceRequest, inner: &_| {
            let peer: SocketAddr = request.match_info()["peer"].parse().unwrap();
            request.extensions_mut().insert(peer);
            Service::call(inner, request)
        };
        let peers = web::resource("/{peer}").wrap(limit.clone()).wrap_fn(from);
        app.service(peers.to(async |ip: ClientIp| ip.to_string()));
    });
    for ip in ["192.0.2.1", "192.0.2.2"] {
        assert_eq!(text(server.post(&format!("/{ip}:1")).await).await, ip);
        let answer = server.post(&format!("/{ip}:2")).await;
        assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
    }
}

#[test]
fn the_header_that_is_set_names_the_client() {
    System::new().block_on(async {
        let builder = Limits::builder().memory().no_limits_file();
        let builder = builder.trusted_proxies(["192.0.2.1"]).client_ip_header("x-real-ip");
        let limits = builder.build().await.unwrap();
        let limit = Limit::new("named:{ip}", quota(1, MINUTE)).limits(&limits);
        let resource = web::resource("/").wrap(limit).to(async |ip: ClientIp| ip.to_string());
        let app = init_service(App::new().service(resource)).await;
        for (client, status) in [("203.0.113.1", 200), ("203.0.113.2", 200), ("203.0.113.1", 429)] {
            let request = TestRequest::default().peer_addr("192.0.2.1:1".parse().unwrap());
            let request = request.append_header(("x-real-ip", client)).to_request();
            let answer = call_service(&app, request).await;
            assert_eq!(answer.status(), status);
            if status == 200 {
                assert_eq!(read_body(answer).await, client);
            }
        }
    });
}

/// HTTP/2 bounds their bytes alone, and compresses them: the request of this test is 25 KB long.
#[test]
fn a_request_may_have_any_number_of_lines() {
    System::new().block_on(async {
        let limits = Limits::builder().memory().no_limits_file().build().await.unwrap();
        let limit = Limit::new("lines:{ip}", quota(10, MINUTE)).limits(&limits);
        let resource = web::resource("/").wrap(limit).to(async |ip: ClientIp| ip.to_string());
        let app = init_service(App::new().service(resource)).await;
        let request = TestRequest::default().peer_addr("192.0.2.1:1".parse().unwrap());
        let request = (0..25_000).fold(request, |request, _| request.append_header(("a", "")));
        assert_eq!(call_service(&app, request.to_request()).await.status(), 200);
    });
}

#[tokio::test]
async fn a_limit_has_the_methods_of_the_layer() {
    let limits = Limits::builder().memory().no_limits_file().build().await.unwrap();
    let user =
        |request: &http::request::Parts| request.uri.path().rsplit('/').next().map(str::to_owned);
    let each = Limit::new("user:{user?}", quota(10, MINUTE)).key("user", user);
    let all = Limit::new("all", quota(100, MINUTE));
    let limit = all
        .and(each)
        .permits(|request| if request.uri.query() == Some("bulk") { 5 } else { 1 })
        .skip_if(|request| request.uri.path().starts_with("/health/"))
        .refund_if(|response| response.status == StatusCode::NOT_FOUND)
        .actual(|response| response.headers.get("x-used")?.to_str().ok()?.parse().ok())
        .headers(Headers::Ietf)
        .limits(&limits);
    let server = Server::start(move |app| {
        let answer = async |request: HttpRequest| {
            let left = request.extensions().get::<Decision>().map(Decision::remaining);
            match request.path() {
                path if path.ends_with("/lost") => HttpResponse::NotFound().finish(),
                path if path.ends_with("/cheap") => {
                    HttpResponse::Ok().insert_header(("x-used", "2")).finish()
                }
                _ => HttpResponse::Ok().body(format!("{left:?}")),
            }
        };
        app.service(web::scope("").wrap(limit.clone()).default_service(web::to(answer)));
    });
    let free = async |name: &str| limits.configured(name).available_permits().await.unwrap();
    assert_eq!(
        text(server.post("/users/ada").await).await,
        "Some(9)",
        "the decision is in the request"
    );
    let answer = server.post("/users/ada?bulk").await;
    assert_eq!(
        header(&answer, "ratelimit").unwrap(),
        r#""user:{user?}";r=4;t=60, "all";r=94;t=60"#
    );
    let answer = server.post("/users/ada?bulk").await;
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(free("all").await, 94, "all or nothing");
    assert_eq!(server.post("/users/lost?bulk").await.status(), StatusCode::NOT_FOUND);
    server.post("/users/cheap?bulk").await;
    assert_eq!(free("user:cheap").await, 8);
    assert_eq!(free("all").await, 92, "refunded, and settled");
    let answer = server.post("/health/now").await;
    assert_eq!((header(&answer, "ratelimit"), text(answer).await), (None, "None".to_owned()));
}

#[tokio::test]
async fn an_error_of_a_middleware_inside_is_a_response_too() {
    let limits = Limits::builder().memory().no_limits_file().build().await.unwrap();
    let limit = Limit::new("closed", quota(10, MINUTE))
        .refund_if(|response| response.status.is_server_error())
        .limits(&limits);
    let server = Server::start(move |app| {
        let closed = |_, _: &_| async {
            Err::<ServiceResponse, _>(ErrorServiceUnavailable("closed until noon"))
        };
        let closed = web::resource("/closed").wrap_fn(closed).wrap(limit.clone());
        app.service(closed.to(async || "open"));
    });
    let answer = server.post("/closed").await;
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(header(&answer, "ratelimit").unwrap(), r#""closed";r=10"#);
    assert_eq!(text(answer).await, "closed until noon");
    assert_eq!(limits.configured("closed").available_permits().await.unwrap(), 10, "refunded");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_headers_of_an_answer_that_no_limit_decided_are_left_alone() {
    const LINES: [&str; 2] = [r#""burst";r=1"#, r#""daily";r=9"#];
    let server = Server::start(|app| {
        let proxied = async || {
            let mut answer = HttpResponse::Ok();
            for line in LINES {
                answer.append_header(("ratelimit", line));
            }
            answer.finish()
        };
        app.route("/proxied", web::post().to(proxied));
    });
    let answer = server.post("/proxied").await;
    let found: Vec<_> = answer.headers().get_all("ratelimit").iter().collect();
    assert_eq!(found, LINES);
}

#[rate_limit(key = "actix-frames", rate = 5, per = "1h", wait = "none")]
async fn frame() -> Result<Bytes, Rejection> {
    Ok(Bytes::from_static(b"frame "))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_streams_is_within_the_limits_of_the_middleware() {
    let limits = Limits::builder().memory().no_limits_file().build().await.unwrap();
    let limit = Limit::new("actix-streams", quota(5, MINUTE)).limits(&limits);
    let server = Server::start(move |app| {
        let streams =
            async || HttpResponse::Ok().streaming(tokio_stream::iter([(), ()]).then(|()| frame()));
        app.service(web::resource("/").wrap(limit.clone()).route(web::post().to(streams)));
    });
    assert_eq!(text(server.post("/").await).await, "frame frame ");
    let frames = limits.limiter("actix-frames", quota(5, 3_600 * SECOND));
    assert_eq!(frames.available_permits().await.unwrap(), 3);
}
