//! The layer: whom it counts, what it takes, and what it leaves alone.

use std::{
    convert::Infallible,
    future::{pending, poll_fn},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use ::bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::{Empty, Full, StreamBody};
use ratelimit_runtime::{
    Decision, FromRejection, Limits, Rejection, Settings, Wait, observe, rate_limit,
    test_util::ManualClock, tower::Limit, web::Headers,
};
use tokio_stream::StreamExt;
use tower::{Layer, Service, ServiceExt};

use crate::{
    MINUTE, SECOND, by_file, header, limits, quota, reporting, request, send, text, through,
};

fn from(peer: &str) -> Request<Empty<Bytes>> {
    let mut request = request();
    let peer: std::net::SocketAddr = peer.parse().unwrap();
    request.extensions_mut().insert(peer);
    request
}

fn with(name: &'static str, value: &str) -> Request<Empty<Bytes>> {
    let mut request = from("203.0.113.7:4711");
    request.headers_mut().insert(name, value.parse().unwrap());
    request
}

async fn status(limit: &Limit, request: Request<Empty<Bytes>>) -> u16 {
    send(limit, request).await.status().as_u16()
}

async fn free(limits: &Limits, name: &str) -> u64 {
    limits.configured(name).available_permits().await.unwrap()
}

#[tokio::test]
async fn each_client_has_its_own_limit() {
    let (limits, _) = limits().await;
    let search = Limit::new("search:{ip}", quota(1, MINUTE)).limits(&limits);
    assert_eq!(status(&search, from("203.0.113.7:1")).await, 200);
    assert_eq!(status(&search, from("203.0.113.7:2")).await, 429);
    assert_eq!(status(&search, from("203.0.113.8:1")).await, 200);
    assert_eq!(status(&search, from("[2001:db8::1]:1")).await, 200);
    assert_eq!(status(&search, from("[2001:db8::2]:1")).await, 429, "the same /64");
}

#[tokio::test]
async fn a_client_behind_a_proxy_cannot_choose_its_key() {
    let (limits, _) = by_file("trusted_proxies: [10.0.0.0/8]\n").await;
    let search = Limit::new("search:{ip}", quota(1, MINUTE)).limits(&limits);
    let forge = |peer: &str, line: String| {
        let mut request = from(peer);
        request.headers_mut().insert("x-forwarded-for", line.parse().unwrap());
        request
    };
    for n in 0..5 {
        let expected = if n == 0 { 200 } else { 429 };
        let direct = forge("203.0.113.9:1", format!("192.0.2.{n}"));
        assert_eq!(status(&search, direct).await, expected, "no proxy: {n}");
        let behind = forge("10.0.0.1:1", format!("192.0.2.{n}, 203.0.113.7"));
        assert_eq!(status(&search, behind).await, expected, "behind a proxy: {n}");
    }
}

#[tokio::test]
async fn a_server_that_tells_no_peer_is_told_what_to_do() {
    let (limits, events) = reporting().await;
    let search = Limit::new("search:{ip}", quota(1, MINUTE)).limits(&limits);
    let (answer, outcomes) = observe(send(&search, request())).await;
    assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
    let rejection = outcomes[0].as_ref().unwrap_err().to_string();
    assert!(rejection.contains("into_make_service_with_connect_info"), "{rejection}");
    let says = "rate limit `search:{ip}` is misconfigured: the address of the peer is unknown";
    assert!(rejection.starts_with(says), "{rejection}");
    let event = events.try_recv().expect("it is reported");
    let limiter =
        "rate limit `search:{ip}` cannot be enforced as configured: the address of the peer";
    assert!(event.starts_with(limiter) && event.contains("_with_connect_info"), "{event}");
    let report = limits.report();
    let search = report.limiters.iter().find(|limiter| limiter.key == "search:{ip}").unwrap();
    assert_eq!(search.rejected, 1);
}

#[tokio::test]
async fn requests_without_a_peer_share_a_limiter_if_the_template_lets_them() {
    let (limits, events) = reporting().await;
    let search = Limit::new("search:{ip?}", quota(1, MINUTE)).limits(&limits);
    for expected in [200, 429] {
        assert_eq!(status(&search, request()).await, expected);
        assert_eq!(status(&search, from("192.0.2.1:1")).await, expected);
        assert_eq!(status(&search, from("192.0.2.2:1")).await, expected);
    }
    assert!(events.try_recv().is_err(), "it is configured as it is meant");
}

#[tokio::test]
async fn a_disabled_limit_needs_no_peer() {
    let (limits, _) = by_file("limiters: { \"search:{ip}\": { enabled: false } }").await;
    let search = Limit::new("search:{ip}", quota(1, MINUTE)).limits(&limits);
    assert_eq!(status(&search, request()).await, 200);
    assert!(limits.report().limiters.iter().all(|limiter| limiter.rejected == 0));
}

#[tokio::test]
async fn a_key_is_what_a_closure_returns() {
    let (limits, _) = limits().await;
    let tenant = |request: &http::request::Parts| {
        Some(request.headers.get("x-tenant")?.to_str().ok()?.to_owned())
    };
    let api = Limit::new("api:{tenant?}:{path}", quota(1, MINUTE))
        .key("tenant", tenant)
        .key("path", |request| request.uri.path().to_owned())
        .limits(&limits);
    assert_eq!(status(&api, with("x-tenant", "one")).await, 200);
    assert_eq!(status(&api, with("x-tenant", "one")).await, 429);
    assert_eq!(status(&api, with("x-tenant", "two")).await, 200);
    assert_eq!(status(&api, request()).await, 200);
    assert_eq!(status(&api, request()).await, 429, "all without a tenant are one");
    assert_eq!(free(&limits, "api:one:%2F").await, 0, "what is no word is escaped");
}

#[tokio::test]
async fn several_limits_are_taken_from_all_or_from_none() {
    let (limits, _) = limits().await;
    let all = Limit::new("all", quota(3, MINUTE));
    let each = Limit::new("each:{ip}", quota(2, MINUTE));
    let both = all.and(each).limits(&limits);
    for (peer, expected) in [("203.0.113.7:1", 200), ("203.0.113.7:1", 200), ("203.0.113.7:1", 429)]
    {
        assert_eq!(status(&both, from(peer)).await, expected);
    }
    assert_eq!(free(&limits, "all").await, 1, "a rejected request takes nothing");
    let answer = send(&both, from("203.0.113.8:1")).await;
    assert_eq!(header(&answer, "ratelimit").unwrap(), r#""all";r=0;t=60, "each:{ip}";r=1;t=60"#);
    let answer = send(&both, from("203.0.113.8:1")).await;
    assert!(text(answer).await.contains(r#""violated-policies":["all"]"#));
    assert_eq!(free(&limits, "each:203.0.113.8").await, 1);
}

#[tokio::test]
async fn a_request_costs_what_it_says() {
    let (limits, _) = limits().await;
    let cost = |request: &http::request::Parts| {
        let header = request.headers.get("x-cost").and_then(|cost| cost.to_str().ok());
        header.and_then(|cost| cost.parse().ok()).unwrap_or(1)
    };
    let batch = Limit::new("batch", quota(10, MINUTE)).permits(cost).limits(&limits);
    for (cost, expected, left) in [("4", 200, 6), ("7", 429, 6), ("0", 200, 6), ("11", 422, 6)] {
        assert_eq!(status(&batch, with("x-cost", cost)).await, expected, "{cost}");
        assert_eq!(free(&limits, "batch").await, left, "{cost}");
    }
    for cost in ["4294967296", "18446744073709551615"] {
        assert_eq!(status(&batch, with("x-cost", cost)).await, 422, "{cost}");
    }
}

#[tokio::test]
async fn some_requests_are_exempt() {
    let (limits, _) = limits().await;
    let limit = Limit::new("api", quota(1, MINUTE))
        .skip_if(|request| request.headers.contains_key("x-internal"))
        .limits(&limits);
    for _ in 0..3 {
        let answer = send(&limit, with("x-internal", "1")).await;
        assert_eq!((answer.status().as_u16(), header(&answer, "ratelimit")), (200, None));
    }
    assert_eq!(status(&limit, request()).await, 200);
    assert_eq!(status(&limit, request()).await, 429);
}

#[tokio::test]
async fn permits_are_settled_by_the_response() {
    let (limits, _) = limits().await;
    let answers = |code: u16, used: &'static str| {
        tower::service_fn(move |_: Request<Empty<Bytes>>| async move {
            let response = Response::builder().status(code).header("x-used", used);
            Ok::<_, Infallible>(response.body(Full::default()).unwrap())
        })
    };
    let login = Limit::new("login", quota(5, MINUTE))
        .refund_if(|response| response.status != StatusCode::UNAUTHORIZED)
        .limits(&limits);
    through(&login, answers(200, ""), request()).await;
    assert_eq!(free(&limits, "login").await, 5);
    through(&login, answers(401, ""), request()).await;
    assert_eq!(free(&limits, "login").await, 4, "failures count");

    let used = |response: &http::response::Parts| {
        response.headers.get("x-used")?.to_str().ok()?.parse().ok()
    };
    let tokens =
        Limit::new("tokens", quota(100, MINUTE)).permits(|_| 50).actual(used).limits(&limits);
    through(&tokens, answers(200, "20"), request()).await;
    assert_eq!(free(&limits, "tokens").await, 80);
    through(&tokens, answers(200, "unknown"), request()).await;
    assert_eq!(free(&limits, "tokens").await, 30, "the estimate stands");
}

#[tokio::test]
async fn the_decision_is_in_the_extensions() {
    let (limits, _) = limits().await;
    let seen = tower::service_fn(|request: Request<Empty<Bytes>>| async move {
        let decision = request.extensions().get::<Decision>().unwrap();
        let text = format!("{} {}", decision.limiter(), decision.remaining());
        Ok::<_, Infallible>(Response::new(Full::from(text)))
    });
    let outer = Limit::new("outer", quota(6, MINUTE)).limits(&limits);
    let inner = Limit::new("inner", quota(2, MINUTE)).limits(&limits);
    let answer = through(&outer, seen, request()).await;
    assert_eq!(answer.extensions().get::<Decision>().unwrap().remaining(), 5);
    assert_eq!(text(answer).await, "outer 5");

    let nested = outer.layer(inner.layer(seen)).oneshot(request()).await.unwrap();
    let decision = nested.extensions().get::<Decision>().unwrap();
    assert_eq!((decision.limiter(), decision.parts().len()), ("inner", 2));
    let both = r#""inner";r=1;t=60, "outer";r=4;t=60"#;
    assert_eq!(header(&nested, "ratelimit").unwrap(), both);

    inner.layer(seen).oneshot(request()).await.unwrap();
    let nested = outer.layer(inner.layer(seen)).oneshot(request()).await.unwrap();
    assert_eq!(nested.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(nested.extensions().get::<Decision>().unwrap().limiter(), "inner");
}

/// A body of which each frame that is read counts.
struct Upload(Arc<AtomicU64>);

impl Body for Upload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let read = self.0.fetch_add(1, Ordering::Relaxed);
        Poll::Ready((read < 160).then(|| Ok(Frame::data(Bytes::from(vec![0; 65_536])))))
    }
}

#[tokio::test]
async fn nothing_of_a_rejected_body_is_read() {
    let (limits, _) = limits().await;
    let reads = tower::service_fn(|request: Request<Upload>| async move {
        let mut body = request.into_body();
        while poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await.is_some() {}
        Ok::<_, Infallible>(Response::new(Full::default()))
    });
    let uploads = Limit::new("uploads", quota(1, MINUTE)).limits(&limits);
    for expected in [161, 0] {
        let read = Arc::new(AtomicU64::new(0));
        through(&uploads, reads, Request::new(Upload(Arc::clone(&read)))).await;
        assert_eq!(read.load(Ordering::Relaxed), expected);
    }
}

#[tokio::test]
async fn a_request_that_is_decided_about_keeps_no_other_waiting() {
    let (limits, _) = by_file("limiters:\n  slow: { wait: 1h }\n").await;
    let limit = Limit::new("slow", quota(1, MINUTE)).limits(&limits);
    let ok = tower::service_fn(|_| async {
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
    });
    let mut service = limit.layer(ok);
    for _ in 0..2 {
        let ready = poll_fn(|context| service.poll_ready(context));
        tokio::time::timeout(SECOND, ready).await.expect("ready at once").unwrap();
        let call = service.call(request());
        tokio::select! {
            answer = call => assert_eq!(answer.unwrap().status(), StatusCode::OK),
            () = tokio::time::sleep(SECOND / 10) => {}
        }
    }
}

#[tokio::test]
async fn requests_wait_if_they_are_to() {
    let (by_file, time) = by_file("limiters:\n  slow: { wait: 2m }\n").await;
    waits(Limit::new("slow", quota(1, MINUTE)).limits(&by_file), time).await;
    let (by_code, time) = limits().await;
    let settings = Settings::new(quota(1, MINUTE)).wait(Wait::UpTo(2 * MINUTE));
    waits(Limit::new("slow", settings).limits(&by_code), time).await;
}

async fn waits(slow: Limit, time: ManualClock) {
    assert_eq!(status(&slow, request()).await, 200);
    let waits = tokio::spawn(async move { status(&slow, request()).await });
    while !waits.is_finished() {
        tokio::time::sleep(SECOND / 100).await;
        time.advance(SECOND);
    }
    assert_eq!(waits.await.unwrap(), 200);
}

#[rate_limit(key = "find:{user}", rate = 3, per = "1m", wait = "none")]
async fn find(user: u64) -> Result<(), Rejection> {
    let _ = user;
    Ok(())
}

#[tokio::test]
async fn a_layer_and_a_function_with_one_template_share_a_limiter() {
    let (limits, _) = limits().await;
    // The numbers of the attribute apply.
    let limit = Limit::new("find:{user}", quota(50, MINUTE)).key("user", |_| 7).limits(&limits);
    assert_eq!(status(&limit, request()).await, 200);
    limits
        .scope(async {
            find(7).await.unwrap();
            find(7).await.unwrap();
            assert!(find(7).await.is_err());
        })
        .await;
    assert_eq!(status(&limit, request()).await, 429);
    let report = limits.report();
    let limiter = report.limiters.iter().find(|limiter| limiter.key == "find:{user}").unwrap();
    assert_eq!((limiter.allowed, limiter.rejected), (3, 2));
}

/// A name of a template is counted without a limiter of its own once another one has made their configuration.
#[tokio::test]
async fn a_disabled_limiter_of_a_template_admits_every_call() {
    let (limits, _) = by_file("limiters: { \"find:{user}\": { enabled: false } }").await;
    let limit = Limit::new("find:{user}", quota(3, MINUTE)).key("user", |_| 7).limits(&limits);
    let calls = async {
        for call in 0..8 {
            let user = 7 + call % 2;
            find(user).await.unwrap_or_else(|rejection| panic!("call {call}: {rejection}"));
        }
    };
    limits.scope(calls).await;
    for _ in 0..4 {
        assert_eq!(status(&limit, request()).await, 200);
    }
}

/// It was an event of the first request, as for a name that exists only then.
#[tokio::test]
async fn an_entry_that_does_not_fit_a_layer_is_refused_like_that_of_a_function() {
    let build = async |entry: &str| {
        let yaml = format!("limiters:\n  \"daily:{{user}}\": {entry}\n");
        Limits::builder().memory().limits_yaml(yaml).build().await
    };
    let _daily = Limit::new("daily:{user}", quota(100, MINUTE)).key("user", |_| 7);
    for (entry, problem) in [
        (
            "{ per: day }",
            "2:26: `daily:{user}`: calendar window `day` requires `fixed_window`, but the algorithm is \
             `sliding_window`; write `fixed_window`, or a length such as `1d`",
        ),
        (
            "{ overrides: [{ key: 'daily:7', burst: 9 }] }",
            "2:58: `daily:{user}`: `burst` requires `token_bucket`, but the algorithm is `sliding_window`; set \
             `algorithm` to `token_bucket`, or remove `burst`",
        ),
        (
            "{ keep_alive: 1s }",
            "2:33: `daily:{user}`: `keep_alive` of `1s` is shorter than `per`; write at least `1m`",
        ),
    ] {
        let error = build(entry).await.unwrap_err().to_string();
        assert_eq!(error, format!("limits:{problem}"), "{entry}");
    }
    for entry in [
        "{ per: day, algorithm: fixed_window }",
        "{ per: day, enabled: false }",
        "{ rate: 200, algorithm: token_bucket, burst: 9 }",
        "{ limits: [{ rate: 5, per: 1s }, { rate: 50, per: 1h }] }",
    ] {
        build(entry).await.expect(entry);
    }
}

#[tokio::test]
async fn an_entry_of_the_limits_file_may_be_a_layers() {
    let build = async |key: &str| {
        let yaml = format!("unmatched: error\nlimiters:\n  \"{key}\": {{ rate: 2, per: 1m }}\n");
        Limits::builder().memory().limits_yaml(yaml).build().await
    };
    let error = build("finds:{user}").await.unwrap_err().to_string();
    assert!(error.contains("did you mean `find:{user}`?"), "no layer has it yet: {error}");
    let finds = Limit::new("finds:{user}", quota(1, MINUTE)).key("user", |_| 7);
    let error = build("fnids:{user}").await.unwrap_err().to_string();
    assert!(error.contains("did you mean `finds:{user}`?"), "a layer has it: {error}");
    let yaml = "limiters:\n  \"finds:{user}\": { refund_on: err }\n";
    let error = Limits::builder().memory().limits_yaml(yaml).build().await.unwrap_err().to_string();
    assert_eq!(
        error,
        "limits:2:32: `finds:{user}` is the key of a layer, but `refund_on: err` is for functions; call \
         `refund_if` on the layer, and remove `refund_on`"
    );
    let finds = finds.limits(&build("finds:{user}").await.unwrap());
    for expected in [200, 200, 429] {
        assert_eq!(status(&finds, request()).await, expected, "the file's rate");
    }
}

/// A limit that is off by mistake has no other sign.
#[tokio::test]
async fn an_entry_that_turns_a_layer_off_is_reported() {
    let layers =
        ["quiet:{ip}", "tried:{ip}", "loud:{ip}"].map(|key| Limit::new(key, quota(1, MINUTE)));
    let events = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&events);
    let yaml = "limiters:\n  \"quiet:{ip}\": { enabled: false }\n  \"tried:{ip}\": { shadow: true }\n  \
                \"loud:{ip}\":\n    rate: 1\n    overrides: [{ key: \"loud:192.0.2.1\", enabled: false }]\n";
    let builder = Limits::builder().memory().limits_yaml(yaml);
    let builder = builder.on_event(move |event| seen.lock().unwrap().push(event.to_string()));
    builder.build().await.unwrap();
    drop(layers);
    events.lock().unwrap().sort();
    assert_eq!(
        *events.lock().unwrap(),
        [
            "rate limit `loud:{ip}` is disabled",
            "rate limit `quiet:{ip}` is disabled",
            "rate limit `tried:{ip}` is in shadow mode and is not enforced",
        ]
    );
}

/// Each key has the settings of the layer that sees it first.
#[tokio::test]
async fn layers_with_one_template_and_different_settings_are_reported() {
    let (limits, reported) = reporting().await;
    let of_user = |limit: Limit| limit.key("user", |_| 7).limits(&limits);
    let of = |rate| of_user(Limit::new("shared:{user}", quota(rate, MINUTE)));
    for limit in [of(7), of(7), of_user(Limit::configured("shared:{user}"))] {
        send(&limit, request()).await;
    }
    assert_eq!(reported.try_iter().count(), 0);
    let other = of(8);
    for _ in 0..2 {
        send(&other, request()).await;
    }
    assert_eq!(
        reported.try_iter().collect::<Vec<_>>(),
        [
            "layers with the template `shared:{user}` have different settings, and each key gets those of the layer that sees \
          it first; write the same settings in all of them, or another template"
        ]
    );
}

#[tokio::test]
async fn the_report_has_what_a_layer_was_given() {
    let (limits, _) = limits().await;
    let layer = Limit::new("reported:{user}", quota(7, MINUTE)).key("user", |_| 7).limits(&limits);
    assert_eq!(status(&layer, request()).await, 200);
    let report = limits.report();
    let limiter = report.limiter("reported:{user}").unwrap();
    assert_eq!(limiter.quotas.as_ref().unwrap()[0], quota(7, MINUTE));
    assert_eq!(limiter.setting("rate").unwrap().to_string(), "rate: 7 (code)");
    assert!(limiter.to_string().contains("allowed 1, rejected 0"), "{limiter}");
}

/// At startup, no layer has seen a request.
#[tokio::test]
async fn the_report_has_a_layer_before_its_first_request() {
    let layers = [
        Limit::new("unused:{ip}", quota(7, MINUTE)),
        Limit::new("unused:all", quota(7, MINUTE)),
        Limit::configured("unused"),
    ];
    let (limits, _) = by_file("limiters: { \"unused:{ip}\": { rate: 9 } }").await;
    let shown = |key: &str| {
        let report = limits.report();
        report.limiter(key).map(|limiter| limiter.quotas.as_ref().map(|quotas| quotas[0]))
    };
    assert_eq!(shown("unused:{ip}"), Some(Some(quota(9, MINUTE))));
    assert_eq!(shown("unused:all"), Some(Some(quota(7, MINUTE))));
    assert_eq!(shown("unused"), Some(None), "only the stored quota applies");
    drop(layers);
    let again = Limit::new("unused:all", quota(5, MINUTE)).limits(&limits);
    assert_eq!(shown("unused:all"), Some(Some(quota(5, MINUTE))), "a report keeps no settings");
    drop(again);
}

#[tokio::test]
async fn a_layer_that_is_gone_is_forgotten() {
    let build = async |key: &str| {
        let yaml = format!("unmatched: error\nlimiters:\n  \"{key}\": {{ rate: 2, per: 1m }}\n");
        Limits::builder().memory().limits_yaml(yaml).build().await.map(drop)
    };
    let layer = Limit::new("walked:{ip}", quota(1, MINUTE)).layer(());
    assert!(build("walked:{ip}").await.is_ok());
    drop((layer.clone(), layer));
    assert!(build("walked:{ip}").await.is_err(), "no layer has it any more");

    let (limits, _) = limits().await;
    for n in 0..5_000 {
        let formatted = Limit::new(&format!("formatted-{n}"), quota(1, MINUTE)).limits(&limits);
        assert_eq!(status(&formatted, request()).await, 200);
    }
    let known = limits.report().limiters.len();
    assert!(known < 2_500, "{known} limiters");
    let kept = Limit::new("formatted-4999", quota(1, MINUTE)).limits(&limits);
    assert_eq!(status(&kept, request()).await, 429, "its permits are still in use");
}

/// What a handler of the shop answers by an error of its own.
struct Teapot(StatusCode);

impl FromRejection for Teapot {
    fn from_rejection(_: Rejection) -> Self {
        Self(StatusCode::TOO_MANY_REQUESTS)
    }
}

#[rate_limit(key = "tea", rate = 1, per = "1m", wait = "none")]
async fn tea() -> Teapot {
    Teapot(StatusCode::IM_A_TEAPOT)
}

#[rate_limit(key = "biscuits", rate = 100, per = "1m", wait = "none")]
async fn biscuits() -> Result<(), Rejection> {
    Ok(())
}

#[tokio::test]
async fn annotated_handlers_get_headers_from_a_layer() {
    let (limits, _) = limits().await;
    let handler = tower::service_fn(|_: Request<Empty<Bytes>>| async {
        biscuits().await.unwrap();
        let Teapot(code) = tea().await;
        let response = Response::builder().status(code).body(Full::<Bytes>::default());
        Ok::<_, Infallible>(response.unwrap())
    });
    let service = Headers::Ietf.layer(handler);
    let call = || limits.scope(service.clone().oneshot(request()));
    let answer = call().await.unwrap();
    assert_eq!(answer.status(), StatusCode::IM_A_TEAPOT);
    assert_eq!(header(&answer, "ratelimit").unwrap(), r#""tea";r=0;t=60, "biscuits";r=99;t=60"#);
    assert_eq!(header(&answer, "retry-after"), None);
    let answer = call().await.unwrap();
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS, "the handler's own error");
    assert_eq!(header(&answer, "retry-after").unwrap(), "60");
    assert_eq!(answer.extensions().get::<Decision>().unwrap().limiter(), "tea");

    let untouched = tower::service_fn(|_: Request<Empty<Bytes>>| async {
        let response = Response::builder().header("ratelimit", "\"upstream\";r=1");
        Ok::<_, Infallible>(response.body(Full::<Bytes>::default()).unwrap())
    });
    let answer = Headers::Off.layer(untouched).oneshot(request()).await.unwrap();
    assert_eq!(header(&answer, "ratelimit").unwrap(), "\"upstream\";r=1");
}

#[tokio::test]
async fn a_grpc_call_is_answered_by_a_status_alone() {
    let (limits, _) = limits().await;
    let rpc = Limit::new("rpc", quota(1, MINUTE)).limits(&limits);
    send(&rpc, with("content-type", "application/grpc+proto")).await;
    for (content_type, is_grpc) in [
        ("application/grpc", true),
        ("application/grpc+proto", true),
        ("application/grpc-web", false),
        ("application/json", false),
    ] {
        let answer = send(&rpc, with("content-type", content_type)).await;
        assert_eq!(answer.status().as_u16(), if is_grpc { 200 } else { 429 }, "{content_type}");
        assert_eq!(header(&answer, "grpc-status").as_deref(), is_grpc.then_some("8"));
        assert_eq!(text(answer).await.is_empty(), is_grpc);
    }
}

#[test]
fn what_a_layer_would_panic_on_is_checked() {
    let quota = quota(1, MINUTE);
    let problems = |limit: Limit| -> Vec<String> {
        let error = limit.check().unwrap_err();
        error.problems().iter().map(ToString::to_string).collect()
    };
    assert_eq!(
        problems(Limit::new("api:{tenant}:{ip}", quota)),
        ["`{tenant}` of the limit `api:{tenant}:{ip}` has no value; add `.key(\"tenant\", ..)`"]
    );
    assert_eq!(
        problems(Limit::new("api:{tenant}", quota).key("tenant", |_| None::<String>)),
        [
            "`{tenant}` of the limit `api:{tenant}` may have no value; write `{tenant?}`, and all requests \
          without one share a limiter"
        ]
    );
    assert_eq!(
        problems(Limit::new("api", quota).key("tenant", |_| 1_u64)),
        [
            "the limit `api` has no placeholder `{tenant}`; add it to the template, or remove `.key(\"tenant\", ..)`"
        ]
    );
    let unbalanced = problems(Limit::new("api:{ip", quota).and(Limit::new("a}", quota)));
    assert!(
        unbalanced.len() == 2 && unbalanced[0].starts_with("in the limit `api:{ip`: "),
        "{unbalanced:?}"
    );
    let joined =
        Limit::new("api:{ip}", quota).and(Limit::new("tenant:{t}", quota)).key("t", |_| 1_u64);
    joined.check().unwrap();
    let payer = Limit::new("account:{payer}", quota).key("payer", |_| 1_u64);
    let payee = Limit::new("account:{payee}", quota).key("payee", |_| 2_u64);
    assert_eq!(
        problems(payer.clone().and(payer.clone())),
        ["the limit `account:{payer}` is joined to itself; remove one of them"]
    );
    assert_eq!(
        problems(payer.and(payee)),
        [
            "the limits `account:{payer}` and `account:{payee}` are joined, but can be the same key; change the \
             text in front of a placeholder"
        ]
    );
    let layer = || Limit::new("api:{tenant}", quota).layer(());
    assert!(std::panic::catch_unwind(layer).is_err());
}

#[tokio::test]
async fn a_client_that_hangs_up_is_counted() {
    let (limits, _) = limits().await;
    let hangs = tower::service_fn(|_: Request<Empty<Bytes>>| async {
        pending::<()>().await;
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
    });
    let limit = Limit::new("slow", quota(2, MINUTE)).refund_if(|_| true).limits(&limits);
    let call = limit.layer(hangs).oneshot(request());
    assert!(tokio::time::timeout(SECOND / 20, call).await.is_err());
    assert_eq!(free(&limits, "slow").await, 1);
}

#[tokio::test]
async fn a_quota_of_the_limits_file_alone_is_enough() {
    let (limits, _) = by_file("limiters:\n  \"api:{ip}\": { rate: 1, per: 1m }\n").await;
    let api = Limit::configured("api:{ip}").limits(&limits);
    assert_eq!(status(&api, from("203.0.113.7:1")).await, 200);
    assert_eq!(status(&api, from("203.0.113.7:1")).await, 429);
    let unknown = Limit::configured("unknown").limits(&limits);
    assert_eq!(status(&unknown, request()).await, 500);
}

#[tokio::test]
async fn an_inner_service_looks_up_its_limiters_in_the_limits_of_the_layer() {
    let (limits, _) = limits().await;
    // Before its future is polled, as a `Throttle` in a proxy does.
    let inner = tower::service_fn(|_| {
        let inner = Limits::current().limiter("inner", quota(5, MINUTE));
        async move {
            inner.try_acquire(1).await.unwrap();
            Ok(Response::new(Full::default()))
        }
    });
    let limit = Limit::new("outer", quota(5, MINUTE)).limits(&limits);
    assert_eq!(through(&limit, inner, request()).await.status(), 200);
    assert_eq!(free(&limits, "inner").await, 4);
}

#[tokio::test]
async fn a_body_that_streams_is_within_the_limits_of_the_layer() {
    let (limits, _) = limits().await;
    let streams = tower::service_fn(|_: Request<Empty<Bytes>>| async {
        find(8).await.unwrap();
        let frames = tokio_stream::iter([(), ()]).then(|()| async {
            find(8).await.unwrap();
            Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"found ")))
        });
        Ok::<_, Infallible>(Response::new(StreamBody::new(frames)))
    });
    let limit = Limit::new("streams", quota(5, MINUTE)).limits(&limits);
    let answer = limit.layer(streams).oneshot(request()).await.unwrap();
    assert_eq!(text(answer).await, "found found ");
    assert!(limits.scope(find(8)).await.is_err(), "each frame was counted");
}

#[tokio::test]
async fn no_more_remain_than_the_limit() {
    let (limits, _) = limits().await;
    for (burst, expected) in [(5, ["5", "4"]), (30, ["30", "29"])] {
        let bucket = quota(10, MINUTE).token_bucket(burst).unwrap();
        let limit = Limit::new(&format!("burst-{burst}"), bucket);
        let limit = limit.headers(Headers::XRateLimit).limits(&limits);
        let answer = send(&limit, request()).await;
        let of = |name| header(&answer, name).unwrap();
        assert_eq!([of("x-ratelimit-limit"), of("x-ratelimit-remaining")], expected);
    }
}

#[tokio::test]
async fn a_disabled_limit_hides_no_other() {
    let (limits, _) = by_file("limiters:\n  off: { enabled: false }\n").await;
    let limit = Limit::new("off", quota(1, MINUTE))
        .and(Limit::new("on", quota(5, MINUTE)))
        .headers(Headers::XRateLimit)
        .limits(&limits);
    let answer = send(&limit, request()).await;
    assert_eq!(header(&answer, "x-ratelimit-remaining").as_deref(), Some("4"));
    let decision = answer.extensions().get::<Decision>().unwrap();
    assert_eq!((decision.limiter(), decision.remaining()), ("on", 4));
}
