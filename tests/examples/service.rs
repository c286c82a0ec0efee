//! The service of the guide, and the guide.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use ::bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, body::Incoming};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use ratelimit_runtime::Limits;
use rustix::process::Signal;
use tests::{eventually, redis_server::RedisServer};
use tokio::task::JoinSet;

use crate::program::{DEADLINE, Server};

pub(crate) fn file(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(path)).unwrap()
}

/// The block of the guide with this language.
fn block(language: &str) -> String {
    let guide = file("docs/web.md");
    let (_, rest) = guide.split_once(&format!("```{language}\n")).unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

pub(crate) struct Visitor {
    client: Client<HttpConnector, Full<Bytes>>,
    url: String,
}

impl Visitor {
    pub(crate) fn of(server: &Server) -> Self {
        let client = Client::builder(TokioExecutor::new()).build_http();
        Self { client, url: server.url.clone() }
    }

    pub(crate) fn over_http2(server: &Server) -> Self {
        let client = Client::builder(TokioExecutor::new()).http2_only(true).build_http();
        Self { client, url: server.url.clone() }
    }

    pub(crate) async fn login(&self, name: &str, password: &str) -> Response<Incoming> {
        let body = format!(r#"{{"name":"{name}","password":"{password}"}}"#);
        let request = Request::post(format!("{}/login", self.url))
            .header("content-type", "application/json")
            .body(Full::from(body))
            .unwrap();
        self.client.request(request).await.unwrap()
    }

    pub(crate) async fn post(&self, path: &str) -> Response<Incoming> {
        let request = Request::post(format!("{}{path}", self.url)).body(Full::default());
        self.client.request(request.unwrap()).await.unwrap()
    }

    async fn get(&self, path: &str, tenant: &str) -> Response<Incoming> {
        let request = Request::get(format!("{}{path}", self.url)).header("x-tenant", tenant);
        self.client.request(request.body(Full::default()).unwrap()).await.unwrap()
    }
}

pub(crate) fn header<'a>(answer: &'a Response<Incoming>, name: &str) -> &'a str {
    answer.headers()[name].to_str().unwrap()
}

async fn serves(program: &str, redis: Option<&RedisServer>) {
    let server = Server::start(program, redis);
    let visitor = Visitor::of(&server);
    assert_eq!(visitor.get("/ready", "").await.status(), 200);
    for n in 0..30 {
        let answer = visitor.login("ada", "correct horse").await;
        assert_eq!(answer.status(), 200, "right passwords cost nothing: {n}");
    }
    for _ in 0..5 {
        assert_eq!(visitor.login("ada", "wrong").await.status(), 401);
    }
    let answer = visitor.login("ada", "correct horse").await;
    assert_eq!(answer.status(), 429, "no more guesses for this account");
    let told = header(&answer, "ratelimit");
    assert!(told.starts_with("\"login:{credentials.name}\";r=0;t="), "{told}");
    assert!(told.contains("\"login-from:{ip}\";r=1"), "{told}");
    let wait: u64 = header(&answer, "retry-after").parse().unwrap();
    assert!((800..=900).contains(&wait), "{wait}");

    // Another account has its own guesses, but this client has none left after twenty.
    let mut statuses = Vec::new();
    for n in 0..20 {
        statuses.push(visitor.login(&format!("user-{n}"), "wrong").await.status().as_u16());
    }
    let failed = statuses.iter().filter(|status| **status == 401).count();
    assert_eq!(failed, 14, "five and a rejection came before: {statuses:?}");
    assert!(statuses[14..].iter().all(|status| *status == 429), "{statuses:?}");

    let answer = visitor.get("/search", "acme").await;
    assert_eq!(header(&answer, "ratelimit-policy"), "\"search:{tenant?}\";q=100;w=60");
    assert!(header(&answer, "ratelimit").starts_with("\"search:{tenant?}\";r=99;t="));
    let answer = visitor.get("/search", "other").await;
    assert!(header(&answer, "ratelimit").contains(";r=99;"), "another tenant");

    let metrics = visitor.get("/metrics", "").await.into_body().collect().await.unwrap().to_bytes();
    let metrics = String::from_utf8(metrics.to_vec()).unwrap();
    let admitted = "ratelimit_admitted_total{limiter=\"search:{tenant?}\"} 2";
    assert!(metrics.contains(admitted), "{metrics}");
    // What the dashboard and the alerts select.
    let of_calls = metrics.contains("ratelimit_store_call_seconds_bucket{");
    assert_eq!(of_calls, redis.is_some(), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_of_the_guide_counts_failures_only() {
    serves("service", None).await;
    serves("service", Some(&RedisServer::start())).await;
}

/// 300 searches of one tenant, 30 at a time: 100 are admitted, and every answer says what is left.
async fn searches_under_load(visitor: Visitor) {
    let visitor = Arc::new(visitor);
    let mut visits = JoinSet::new();
    for _ in 0..30 {
        let visitor = Arc::clone(&visitor);
        visits.spawn(async move {
            let mut answers = Vec::new();
            for _ in 0..10 {
                answers.push(visitor.get("/search", "busy").await);
            }
            answers
        });
    }
    let (mut left, mut rejected) = (Vec::new(), 0);
    for answer in visits.join_all().await.into_iter().flatten() {
        let described = header(&answer, "ratelimit");
        let remaining = described.split(";r=").nth(1).and_then(|rest| rest.split(';').next());
        let remaining: u64 = remaining.unwrap().parse().unwrap();
        assert_eq!(header(&answer, "ratelimit-policy"), "\"search:{tenant?}\";q=100;w=60");
        match answer.status().as_u16() {
            200 => left.push(remaining),
            429 => {
                let wait: u64 = header(&answer, "retry-after").parse().unwrap();
                assert!(remaining == 0 && (1..=60).contains(&wait), "{described}, {wait}");
                rejected += 1;
            }
            status => panic!("{status}"),
        }
    }
    left.sort_unstable();
    assert_eq!((left, rejected), ((0..100).collect(), 200));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_admits_its_limit_over_both_versions_of_http() {
    let redis = RedisServer::start();
    for redis in [None, Some(&redis)] {
        searches_under_load(Visitor::of(&Server::start("service", redis))).await;
        if let Some(redis) = redis {
            redis.cli::<()>(&["FLUSHALL"]);
        }
        searches_under_load(Visitor::over_http2(&Server::start("service", redis))).await;
    }
}

/// Types the blocks of the guide into an empty package, and builds it.
fn newcomer() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("newcomer");
    fs::create_dir_all(folder.join("src")).unwrap();
    let mut manifest =
        format!("[package]\nname = \"newcomer\"\nedition = \"2024\"\n\n{}", block("toml"));
    // As the workspace has it, of which much is built already.
    manifest.push_str("\n[profile.dev]\ndebug = \"line-tables-only\"\n");
    manifest.push_str("\n[profile.dev.package.\"*\"]\ndebug = false\n");
    // As if this version were published.
    manifest.push_str("\n[workspace]\n\n[patch.crates-io]\n");
    for package in ["ratelimit-runtime", "ratelimit-macros", "ratelimit-spec"] {
        manifest.push_str(&format!("{package} = {{ path = {:?} }}\n", root.join(package)));
    }
    fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    fs::write(folder.join("src/main.rs"), block("rust,ignore")).unwrap();
    fs::write(folder.join("ratelimit.yaml"), block("yaml")).unwrap();
    fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    // Beside everything else.
    let target = tests::profile_dir().parent().unwrap().to_owned();
    let built = tests::cargo(env!("CARGO"))
        .args(["build", "--offline", "--target-dir"])
        .arg(&target)
        .current_dir(&folder)
        .env_remove("RATELIMIT_LIMITS")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success() && !told.contains("warning: unused"), "{told}");
    target.join("debug/newcomer")
}

/// ```sh
/// cargo test -p tests --test examples typed_in
/// ```
#[tokio::test(flavor = "multi_thread")]
async fn typed_in_from_the_guide_alone_it_serves() {
    serves(newcomer().to_str().unwrap(), None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn signals_reload_its_limits_and_end_it() {
    let redis = RedisServer::start();
    let server = Server::start("service", Some(&redis));
    let visitor = Visitor::of(&server);
    let reloads = || server.log().matches("limits file reloaded").count();
    // The watch reads a file that changed; this one did not.
    server.signal(Signal::HUP);
    eventually("the file is read again", Duration::from_secs(3), || reloads() == 1);
    let changed = format!("{DEADLINE}limiters: {{ 'search:{{tenant?}}': {{ rate: 7 }} }}\n");
    fs::write(server.limits(), changed).unwrap();
    server.signal(Signal::HUP);
    eventually("the change is read", Duration::from_secs(3), || reloads() == 2);
    let answer = visitor.get("/search", "acme").await;
    assert_eq!(header(&answer, "ratelimit-policy"), "\"search:{tenant?}\";q=7;w=60");
    fs::write(server.limits(), "limiters: 7\n").unwrap();
    server.signal(Signal::HUP);
    eventually("a mistake is reported", Duration::from_secs(3), || {
        server.log().contains("limits file not reloaded")
    });
    assert_eq!(visitor.get("/ready", "").await.status(), 503);
    assert_eq!(visitor.get("/search", "acme").await.status(), 200);

    drop(visitor);
    server.signal(Signal::TERM);
    eventually("it ends by itself", Duration::from_secs(3), || !server.runs());
}

#[tokio::test]
async fn the_guide_shows_the_example_and_a_valid_file() {
    let example = file("examples/service.rs");
    let code = block("rust,ignore");
    assert!(
        example.ends_with(&code),
        "`docs/web.md` shows another program than `examples/service.rs`"
    );
    let limits = Limits::builder().memory().limits_yaml(block("yaml")).build().await;
    assert!(limits.is_ok(), "{limits:?}");
}
