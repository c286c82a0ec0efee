//! A login that blocks who goes on guessing.

use std::time::{Duration, Instant};

use tests::redis_server::RedisServer;

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
