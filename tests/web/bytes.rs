//! The bytes of headers and bodies.

use http::{Response, StatusCode};
use ratelimit_runtime::{
    Limits, Mode, Quota, Quotas, Reason, Settings, Wait,
    web::{self, Headers},
};
use tests::redis_server::RedisServer;
use tower::{Layer, ServiceExt};

use crate::{
    Answer, Bytes, Full, Limit, MINUTE, SECOND, header, limits, quota, request, send,
    structured::{Item, list},
    text,
};
use std::{
    convert::Infallible,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

const POLICY: &str = "ratelimit-policy";
const LIMIT: &str = "ratelimit";
const RETRY_AFTER: &str = "retry-after";

fn item(name: &str, parameters: &[(&str, i64)]) -> Item {
    let parameter = |(key, value): &(&str, i64)| ((*key).to_owned(), *value);
    (name.to_owned(), parameters.iter().map(parameter).collect())
}

#[tokio::test]
async fn an_admitted_request_is_told_what_is_left_and_until_when() {
    let (limits, time) = limits().await;
    let search = Limit::new("search", quota(100, MINUTE)).limits(&limits);
    let answer = send(&search, request()).await;
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(header(&answer, POLICY).unwrap(), r#""search";q=100;w=60"#);
    assert_eq!(header(&answer, LIMIT).unwrap(), r#""search";r=99;t=60"#);
    assert_eq!(header(&answer, RETRY_AFTER), None);
    assert_eq!(list(r#""search";q=100;w=60"#), [item("search", &[("q", 100), ("w", 60)])]);

    // The first permit is free again in 40 s, the second one in 60 s.
    time.advance(20 * SECOND);
    let answer = send(&search, request()).await;
    assert_eq!(header(&answer, LIMIT).unwrap(), r#""search";r=98;t=40"#);
    assert_eq!(text(answer).await, "ok");
}

/// For `t` seconds there are `r` permits, and then there are more.
#[tokio::test]
async fn the_time_of_the_draft_is_exact_for_every_rule() {
    let sliding = quota(5, 10 * SECOND);
    for (rule, quota) in [
        ("sliding", sliding),
        ("bucket", sliding.token_bucket(8).unwrap()),
        ("leaky", quota(1, 10 * SECOND).leaky_bucket().unwrap()),
        ("fixed", sliding.fixed_window()),
    ] {
        let (limits, time) = limits().await;
        let limit = Limit::new(rule, quota).limits(&limits);
        for _ in 0..4 {
            let answer = send(&limit, request()).await;
            let [(_, parameters)] = &list(&header(&answer, LIMIT).unwrap())[..] else { panic!() };
            let [(_, remaining), (_, more_after)] = &parameters[..] else {
                panic!("{parameters:?}")
            };
            let free = async || limits.configured(rule).available_permits().await.unwrap();
            let remaining = u64::try_from(*remaining).unwrap();
            let more_after = Duration::from_secs(u64::try_from(*more_after).unwrap());
            assert_eq!(free().await, remaining, "{rule}");
            time.advance(more_after - SECOND);
            assert_eq!(free().await, remaining, "{rule}: too late");
            time.advance(SECOND);
            assert!(free().await > remaining, "{rule}: too early, {remaining}");
            time.advance(3 * SECOND);
        }
    }
}

#[tokio::test]
async fn a_redis_tells_the_same() {
    let server = RedisServer::start();
    let builder = Limits::builder().redis(server.url()).no_limits_file().deadline(20 * SECOND);
    let limits = builder.build().await.unwrap();
    for (name, quota) in [
        ("sliding", quota(10, MINUTE)),
        ("fixed", quota(10, 3_600 * SECOND).fixed_window()),
        ("bucket", quota(10, MINUTE).token_bucket(10).unwrap()),
        ("leaky", quota(10, MINUTE).leaky_bucket().unwrap()),
    ] {
        let limit = Limit::new(name, quota).limits(&limits);
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let answer = send(&limit, request()).await;
        let (remaining, more_after) = match name {
            "sliding" => (9, 60),
            "fixed" => (9, 3_600 - i64::try_from(began % 3_600).unwrap()),
            "bucket" => (9, 6),
            _ => (0, 6),
        };
        let told = list(&header(&answer, LIMIT).unwrap());
        let [(_, parameters)] = &told[..] else { panic!("{told:?}") };
        assert_eq!(parameters[0], ("r".to_owned(), remaining), "{name}");
        let difference = parameters[1].1 - more_after;
        assert!((-1..=0).contains(&difference), "{name}: {parameters:?}, not {more_after}");
    }
}

#[tokio::test]
async fn a_rejected_request_is_told_to_wait_for_a_second_at_least() {
    let (limits, time) = limits().await;
    let ping = Limit::new("ping", quota(1, SECOND)).limits(&limits);
    send(&ping, request()).await;
    time.advance(Duration::from_millis(700));
    let answer = send(&ping, request()).await;
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(header(&answer, RETRY_AFTER).unwrap(), "1");
    assert_eq!(header(&answer, POLICY).unwrap(), r#""ping";q=1;w=1"#);
    assert_eq!(header(&answer, LIMIT).unwrap(), r#""ping";r=0;t=1"#);
    assert_eq!(header(&answer, "content-type").unwrap(), "application/problem+json");
    let problem: serde_json::Value = serde_json::from_str(&text(answer).await).unwrap();
    let expected = serde_json::json!({
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": "Request cannot be satisfied as assigned quota has been exceeded",
        "status": 429,
        "violated-policies": ["ping"],
    });
    assert_eq!(problem, expected);
}

#[tokio::test]
async fn several_limits_have_a_policy_each_and_the_strictest_goes_first() {
    let (limits, time) = limits().await;
    let quotas = Quotas::new([quota(2, SECOND), quota(3, MINUTE)]).unwrap();
    let search = Limit::new("search", quotas).limits(&limits);
    let policy = r#""search: 2 per 1s";q=2;w=1, "search: 3 per 1m";q=3;w=60"#;
    let mut answer = send(&search, request()).await;
    assert_eq!(header(&answer, POLICY).unwrap(), policy);
    let left = r#""search: 2 per 1s";r=1;t=1, "search: 3 per 1m";r=2;t=60"#;
    assert_eq!(header(&answer, LIMIT).unwrap(), left);
    for _ in 0..2 {
        time.advance(SECOND);
        answer = send(&search, request()).await;
    }
    let left = r#""search: 3 per 1m";r=0;t=58, "search: 2 per 1s";r=1;t=1"#;
    assert_eq!(header(&answer, LIMIT).unwrap(), left);

    let answer = send(&search, request()).await;
    assert_eq!(
        (answer.status(), header(&answer, POLICY).unwrap()),
        (429.try_into().unwrap(), policy.to_owned())
    );
    assert_eq!(header(&answer, RETRY_AFTER).unwrap(), "58");
    assert_eq!(
        list(&header(&answer, LIMIT).unwrap())[0],
        item("search: 3 per 1m", &[("r", 0), ("t", 58)])
    );
    let problem: serde_json::Value = serde_json::from_str(&text(answer).await).unwrap();
    assert_eq!(problem["violated-policies"], serde_json::json!(["search: 3 per 1m"]));
}

#[tokio::test]
async fn a_window_that_is_no_whole_number_of_seconds_is_left_out() {
    let (limits, _) = limits().await;
    for (name, per) in [("half", SECOND / 2), ("more", SECOND * 3 / 2)] {
        let limit = Limit::new(name, quota(2, per)).limits(&limits);
        let answer = send(&limit, request()).await;
        assert_eq!(header(&answer, POLICY).unwrap(), format!(r#""{name}";q=2"#));
        let seconds = per.as_secs_f64().ceil();
        assert_eq!(header(&answer, LIMIT).unwrap(), format!(r#""{name}";r=1;t={seconds}"#));
    }
}

#[tokio::test]
async fn any_name_is_a_structured_string() {
    let (limits, _) = limits().await;
    for (template, name) in [
        (r#"say "hi""#, r#"say "hi""#),
        (r"back\slash", r"back\slash"),
        ("größe", "gr%C3%B6%C3%9Fe"),
        ("a,b;c=1", "a,b;c=1"),
    ] {
        let limit = Limit::new(template, quota(2, MINUTE)).limits(&limits);
        let answer = send(&limit, request()).await;
        let policy = header(&answer, POLICY).unwrap();
        assert_eq!(list(&policy), [item(name, &[("q", 2), ("w", 60)])]);
        let parsed = sfv::Parser::new(&policy).parse::<sfv::List>().unwrap();
        assert_eq!(parsed.len(), 1, "{policy}");
        assert_eq!(list(&header(&answer, LIMIT).unwrap()), [item(name, &[("r", 1), ("t", 60)])]);
    }
    let quoted = Limit::new(r#"a"b\c"#, quota(2, MINUTE)).limits(&limits);
    let answer = send(&quoted, request()).await;
    assert_eq!(header(&answer, POLICY).unwrap(), r#""a\"b\\c";q=2;w=60"#);
}

#[tokio::test]
async fn one_setting_chooses_the_headers() {
    let (limits, time) = limits().await;
    let limit = Limit::new("export", quota(2, MINUTE)).limits(&limits);
    let x = limit.clone().headers(Headers::XRateLimit);
    let answer = send(&x, request()).await;
    let told = |name: &str| header(&answer, name).unwrap().parse::<u64>().unwrap();
    assert_eq!((told("x-ratelimit-limit"), told("x-ratelimit-remaining")), (2, 1));
    let now = limits.configured("export").peek(1).await.unwrap().at();
    let now = now.duration_since(UNIX_EPOCH).unwrap().as_secs_f64().ceil();
    assert_eq!(told("x-ratelimit-reset"), now as u64 + 60);
    assert_eq!((header(&answer, LIMIT), header(&answer, POLICY)), (None, None));

    let off = limit.headers(Headers::Off);
    send(&off, request()).await;
    time.advance(10 * SECOND);
    let answer = send(&off, request()).await;
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(header(&answer, RETRY_AFTER).unwrap(), "50");
    for name in [LIMIT, POLICY, "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"] {
        assert_eq!(header(&answer, name), None, "{name}");
    }
}

#[tokio::test]
async fn the_outermost_layer_chooses_the_headers_of_all_limits() {
    let (limits, _) = limits().await;
    let x = Limit::new("inner-x", quota(2, MINUTE)).headers(Headers::XRateLimit).limits(&limits);
    let off = Limit::new("inner-off", quota(2, MINUTE)).headers(Headers::Off).limits(&limits);
    let outer = Limit::new("outer", quota(9, MINUTE)).limits(&limits);
    for (inner, name) in [(&x, "inner-x"), (&off, "inner-off")] {
        let inner = inner.layer(tower::service_fn(|_| async {
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"ok"))))
        }));
        let answer = outer.layer(inner.clone()).oneshot(request()).await.unwrap();
        assert!(
            header(&answer, LIMIT).unwrap().contains(&format!("\"{name}\";r=1;t=60")),
            "{name}"
        );
        assert_eq!(header(&answer, "x-ratelimit-limit"), None);
        let silent = outer.clone().headers(Headers::Off);
        let answer = silent.layer(inner).oneshot(request()).await.unwrap();
        assert_eq!((header(&answer, LIMIT), header(&answer, "x-ratelimit-limit")), (None, None));
    }
}

#[tokio::test]
async fn a_request_that_no_wait_helps_says_so() {
    let (limits, _) = limits().await;
    let limiter = limits.limiter("lot", quota(5, MINUTE));
    let rejection = limiter.try_acquire(6).await.unwrap_err();
    assert_eq!(rejection.reason(), Reason::ExceedsCapacity);
    let answer = web::response(&rejection, Headers::Ietf);
    assert_eq!(answer.status(), StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(header(&answer, RETRY_AFTER), None);
    assert_eq!(header(&answer, POLICY).unwrap(), r#""lot";q=5;w=60"#);
    let problem: serde_json::Value = serde_json::from_str(answer.body()).unwrap();
    let title = "Request needs more permits than its rate limit ever grants at once";
    assert_eq!((&problem["title"], &problem["status"]), (&title.into(), &422.into()));
    assert_eq!(problem["violated-policies"], serde_json::json!(["lot"]));
}

/// Requests of this limit cost what their extension says.
fn import(limits: &Limits, settings: impl FnOnce(Settings) -> Settings) -> Limit {
    let both = Quotas::new([quota(10, 10 * SECOND), quota(30, 60 * MINUTE)]).unwrap();
    let limit = Limit::new("import", settings(Settings::new(both))).limits(limits);
    limit.permits(|request| request.extensions.get().copied().unwrap_or(1))
}

async fn send_at_cost(limit: &Limit, cost: u64) -> Answer {
    let mut request = request();
    request.extensions_mut().insert(cost);
    send(limit, request).await
}

#[tokio::test]
async fn every_answer_of_a_limiter_describes_all_its_limits() {
    let policy = r#""import: 10 per 10s";q=10;w=10, "import: 30 per 1h";q=30;w=3600"#;
    let (ten, both) =
        (&["import: 10 per 10s"][..], &["import: 10 per 10s", "import: 30 per 1h"][..]);
    let places: [fn(Settings) -> Settings; 3] = [
        |counted_by_the_store| counted_by_the_store,
        |counted_here| counted_here.mode(Mode::PerClient),
        |queued| queued.wait(Wait::Forever).max_waiters(0),
    ];
    for settings in places {
        let (limits, _) = limits().await;
        let limit = import(&limits, settings);
        for (cost, status, violated) in [
            (0, 200, &[][..]),
            (4, 200, &[]),
            (7, 429, ten),
            (11, 422, ten),
            (31, 422, both),
            (u64::MAX, 422, both),
        ] {
            let answer = send_at_cost(&limit, cost).await;
            assert_eq!(answer.status(), status, "{cost}");
            assert_eq!(header(&answer, POLICY).as_deref(), Some(policy), "{cost}");
            if status != 200 {
                let problem: serde_json::Value = serde_json::from_str(&text(answer).await).unwrap();
                assert_eq!(problem["violated-policies"], serde_json::json!(violated), "{cost}");
            }
        }
    }
}

#[tokio::test]
async fn an_answer_without_a_count_does_not_say_what_is_left() {
    let (limits, _) = limits().await;
    let ietf = import(&limits, |said| said);
    let x = ietf.clone().headers(Headers::XRateLimit);
    for (cost, is_counted) in [(4, true), (0, false), (11, false)] {
        let answer = send_at_cost(&ietf, cost).await;
        assert_eq!(header(&answer, LIMIT).is_some(), is_counted, "{cost}");
        let answer = send_at_cost(&x, cost).await;
        assert_eq!(header(&answer, "x-ratelimit-remaining").is_some(), is_counted, "{cost}");
        assert_eq!(header(&answer, "x-ratelimit-limit").as_deref(), Some("10"), "{cost}");
    }
}

#[tokio::test]
async fn the_limit_that_rejects_is_described_first() {
    let (limits, time) = limits().await;
    let inner = Limit::new("each", quota(10, MINUTE)).permits(|_| 7).limits(&limits);
    let outer = Limit::new("all", quota(1, SECOND)).limits(&limits);
    let send = async |headers| {
        let ok = tower::service_fn(async |_| Ok::<_, Infallible>(Response::new(String::new())));
        let service = outer.clone().headers(headers).layer(inner.layer(ok));
        service.oneshot(request()).await.unwrap()
    };
    assert_eq!(send(Headers::Ietf).await.status(), StatusCode::OK);
    time.advance(SECOND);
    let answer = send(Headers::Ietf).await;
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
    // Less is left of the other limit, but that has admitted the request.
    assert_eq!(header(&answer, LIMIT).unwrap(), r#""each";r=3;t=59, "all";r=0;t=1"#);
    time.advance(SECOND);
    let answer = send(Headers::XRateLimit).await;
    assert_eq!(header(&answer, RETRY_AFTER).as_deref(), Some("58"));
    let of = |name: &str| header(&answer, name).unwrap().parse::<u64>().unwrap();
    assert_eq!((of("x-ratelimit-limit"), of("x-ratelimit-remaining")), (10, 3));
}

#[tokio::test]
async fn a_store_that_is_away_is_no_fault_of_the_client() {
    let yaml = "limiters:\n  pay: { on_store_error: reject }\n";
    let builder = Limits::builder().redis("redis://127.0.0.1:1/").limits_yaml(yaml);
    let limits = builder.build().await.unwrap();
    let pay = Limit::new("pay", quota(5, MINUTE)).limits(&limits);
    let answer = send(&pay, request()).await;
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(header(&answer, RETRY_AFTER).unwrap(), "1");
    let body = text(answer).await;
    assert!(body.contains("#temporary-reduced-capacity"), "{body}");
    assert!(!body.contains("127.0.0.1"), "{body}");

    let quote = Limit::new("quote", quota(5, MINUTE)).limits(&limits);
    let answer = send(&quote, request()).await;
    assert_eq!(answer.status(), StatusCode::OK);
    // Each process only knows of its own calls then.
    assert_eq!(header(&answer, POLICY).unwrap(), r#""quote";q=5;w=60"#);
    assert_eq!(header(&answer, LIMIT), None);
}

#[tokio::test]
async fn a_limit_that_is_not_in_force_is_not_told() {
    let yaml = "limiters:\n  off: { enabled: false }\n  shadow: { shadow: true }\n";
    let (limits, _) = crate::by_file(yaml).await;
    let off = Limit::new("off", quota(1, MINUTE)).limits(&limits);
    let shadow = Limit::new("shadow", quota(1, MINUTE)).limits(&limits);
    for _ in 0..2 {
        let answer = send(&off, request()).await;
        assert_eq!((answer.status(), header(&answer, POLICY)), (StatusCode::OK, None));
        assert_eq!(header(&answer, LIMIT), None);
        // Not even for the last permit: clients would wait for the next one.
        let answer = send(&shadow, request()).await;
        assert_eq!((answer.status(), header(&answer, LIMIT)), (StatusCode::OK, None));
        assert_eq!(header(&answer, POLICY).unwrap(), r#""shadow";q=1;w=60"#);
    }
}

#[tokio::test]
async fn a_limit_in_shadow_mode_hides_and_delays_no_other() {
    let yaml = "limiters:\n  \"shadow:{of}\": { shadow: true }\n  several: { shadow: true }\n";
    for headers in [Headers::Ietf, Headers::XRateLimit] {
        let (limits, time) = crate::by_file(yaml).await;
        let layer = |key, quotas: Quotas| Limit::new(key, quotas).headers(headers).limits(&limits);
        let hour = Quotas::from(quota(3, 60 * MINUTE));
        let several = Quotas::new([quota(2, MINUTE), quota(3, 60 * MINUTE)]).unwrap();
        let (hourly, several) =
            (layer("shadow:{of}", hour).key("of", |_| 1), layer("several", several));
        let enforced = layer("enforced", quota(2, MINUTE).into());
        let ok = tower::service_fn(async |_| Ok::<_, Infallible>(Response::new(String::new())));
        let service = hourly.layer(several.layer(enforced.layer(ok)));
        for left in [1, 0, 0] {
            let answer = service.clone().oneshot(request()).await.unwrap();
            let rejected = left == 0 && answer.status() == StatusCode::TOO_MANY_REQUESTS;
            assert_eq!(header(&answer, RETRY_AFTER), rejected.then(|| "59".to_owned()));
            match headers {
                Headers::XRateLimit => {
                    let remaining = header(&answer, "x-ratelimit-remaining");
                    assert_eq!(remaining, Some(left.to_string()));
                }
                _ => {
                    let limit = header(&answer, LIMIT).unwrap();
                    assert!(limit.starts_with(&format!(r#""enforced";r={left};t="#)), "{limit}");
                    assert!(!limit.contains(','), "{limit}");
                }
            }
            time.advance(SECOND / 2);
        }
    }
}

#[test]
fn months_have_no_length() {
    use ratelimit_runtime::CalendarUnit;

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (limits, _) = limits().await;
        for (unit, policy) in
            [(CalendarUnit::Day, r#""Day";q=5;w=86400"#), (CalendarUnit::Month, r#""Month";q=5"#)]
        {
            let quota = Quota::calendar(5, unit, "UTC").unwrap();
            let limit = Limit::new(&format!("{unit:?}"), quota).limits(&limits);
            let answer = send(&limit, request()).await;
            assert_eq!(header(&answer, POLICY).unwrap(), policy);
        }
    });
}
