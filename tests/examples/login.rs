//! A login that blocks who goes on guessing.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tests::redis_server::RedisServer;
use tokio::task::JoinSet;

use crate::{
    program::Server,
    service::{Visitor, file, header},
};

/// The example's file, with seconds for minutes.
fn limits() -> String {
    file("examples/login.yaml").replace("per: 1m", "per: 1s").replace("rate: 20", "rate: 1000")
}

async fn guess(visitor: &Visitor, name: &str) -> (u16, Option<u64>) {
    let answer = visitor.login(name, "wrong").await;
    let limited = answer.status() == 429;
    let wait = limited.then(|| header(&answer, "retry-after").parse().unwrap());
    (answer.status().as_u16(), wait)
}

async fn blocks(redis: Option<&RedisServer>) {
    let server = Server::with_limits("login", redis, &limits());
    let visitor = Visitor::of(&server);
    assert_eq!(visitor.login("eve", "correct horse").await.status(), 200);
    let (started, mut failed) = (Instant::now(), 0);
    let block = loop {
        assert!(started.elapsed() < Duration::from_secs(30), "never blocked");
        match guess(&visitor, "eve").await {
            (429, Some(wait)) if wait > 1 => break wait,
            (429, _) => tokio::time::sleep(Duration::from_millis(50)).await,
            (status, _) => {
                assert_eq!(status, 401);
                failed += 1;
            }
        }
    };
    assert!((298..=300).contains(&block), "{block}");
    assert!((10..=20).contains(&failed), "five in each of three windows: {failed}");
    // No window ends it, not even a right password.
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    let answer = visitor.login("eve", "correct horse").await;
    assert_eq!(answer.status(), 429);
    let told = header(&answer, "ratelimit");
    assert!(told.contains("\"login:{name}\";r=0;t=29"), "{told}");
    assert_eq!(visitor.login("ann", "correct horse").await.status(), 200);
    let log = server.log();
    assert!(log.contains("a key of rate limit `login:{name}` is blocked for 300s"), "{log}");

    assert_eq!(visitor.post("/unblock/eve").await.status(), 200);
    assert_eq!(visitor.login("eve", "correct horse").await.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_login_blocks_who_goes_on_guessing() {
    blocks(None).await;
    let redis = RedisServer::start();
    blocks(Some(&redis)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_outlives_the_process() {
    let redis = RedisServer::start();
    let server = Server::with_limits("login", Some(&redis), &limits());
    let visitor = Visitor::of(&server);
    while guess(&visitor, "eve").await.1.is_none_or(|wait| wait <= 1) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop((server, visitor));
    let server = Server::with_limits("login", Some(&redis), &limits());
    let answer = Visitor::of(&server).login("eve", "correct horse").await;
    assert_eq!(answer.status(), 429, "{answer:?}");
}

/// 60 guesses at one account at once, of which its quota admits five.
async fn guesses_under_load(visitor: Visitor) {
    let visitor = Arc::new(visitor);
    let mut guesses = JoinSet::new();
    for _ in 0..60 {
        let visitor = Arc::clone(&visitor);
        guesses.spawn(async move { guess(&visitor, "eve").await });
    }
    let answers = guesses.join_all().await;
    let admitted = answers.iter().filter(|(status, _)| *status == 401).count();
    let limited = answers.iter().filter(|(_, wait)| wait.is_some_and(|wait| wait > 0)).count();
    assert_eq!((admitted, limited), (5, 55), "{answers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_login_admits_its_limit_over_both_versions_of_http() {
    for over in [Visitor::of, Visitor::over_http2] {
        guesses_under_load(over(&Server::with_limits("login", None, &file("examples/login.yaml"))))
            .await;
        let redis = RedisServer::start();
        guesses_under_load(over(&Server::with_limits(
            "login",
            Some(&redis),
            &file("examples/login.yaml"),
        )))
        .await;
    }
}
