//! The shops of the examples with axum and actix, open to many at the same time.

use std::time::Duration;

use hyper::StatusCode;
use tests::redis_server::RedisServer;
use tokio::time::{sleep, timeout};

use crate::{
    load::{Answer, Load, Route, Shopper, USERS, fullest_window, refused_later, window_before},
    program::Server,
};

const SECOND: Duration = Duration::from_secs(1);
/// Who asks too early again and again is refused for so much longer: a fiftieth of a second.
const LONGER: Duration = Duration::from_millis(20);

type Start = fn(Option<&RedisServer>) -> Server;

fn with_axum(redis: Option<&RedisServer>) -> Server {
    Server::start("axum", redis)
}

fn with_actix(redis: Option<&RedisServer>) -> Server {
    Server::with_file("actix", redis, "shop.yaml")
}

/// Whether the payments of a phase could be checked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Payments {
    Limited,
    Unavailable,
}

/// Every answer of a phase is a success or a refusal of the right kind, which says when to come
/// back, and each window holds what its limit says.
fn assert_limits(all: &[Answer], phase: u64, payments: Payments) {
    let answers: Vec<_> = all.iter().filter(|answer| answer.phase == phase).collect();
    for answer in &answers {
        let unavailable = payments == Payments::Unavailable && answer.route == Route::Payment;
        let (refusal, longest) = match answer.route {
            Route::Payment if unavailable => (StatusCode::SERVICE_UNAVAILABLE, 5),
            Route::Quote | Route::Payment => (StatusCode::TOO_MANY_REQUESTS, 1),
            Route::Order { .. } => (StatusCode::TOO_MANY_REQUESTS, 60),
        };
        if unavailable || !answer.status.is_success() {
            assert_eq!(answer.status, refusal, "{answer:?}");
            let wait = answer.retry_after;
            assert!(wait.is_some_and(|wait| (1..=longest).contains(&wait)), "{answer:?}");
        }
    }
    let quotes = assert_windows(all, &answers, Route::Quote, 50);
    if payments == Payments::Limited {
        assert_windows(all, &answers, Route::Payment, 10);
    }
    for user in phase * USERS..(phase + 1) * USERS {
        let orders = admitted(&answers, Route::Order { user });
        assert_eq!(orders.len(), 5, "orders of user {user} in this minute");
    }
    println!("phase {phase}: {} answers, {quotes} of them quotes", answers.len());
}

/// No second admits more than the rate, and after the first second nothing is refused before the last second admitted
/// hardly less, which is perhaps also of the phase before. Gives what all of them admitted. A busy machine may take long
/// to answer, so an answer may count in a window or in the next one.
fn assert_windows(all: &[Answer], answers: &[&Answer], route: Route, rate: usize) -> usize {
    let all: Vec<_> = all.iter().collect();
    let (ever, admitted) = (admitted(&all, route), admitted(answers, route));
    let certain = fullest_window(&admitted, SECOND);
    assert!(certain <= rate, "{certain} of {rate}: {route:?}");
    for refused in refused_later(answers, route, SECOND + LONGER) {
        let possible = window_before(refused, &ever, SECOND + LONGER);
        assert!(possible >= rate * 9 / 10, "at most {possible} of {rate} before {refused:?}");
    }
    admitted.len()
}

fn admitted<'a>(answers: &[&'a Answer], route: Route) -> Vec<&'a Answer> {
    let admitted = |answer: &&&Answer| answer.route == route && answer.status.is_success();
    answers.iter().filter(admitted).copied().collect()
}

async fn holds_under_load(
    start: Start,
    redis: Option<&RedisServer>,
    shopper: impl FnOnce(&str) -> Shopper,
) {
    let server = start(redis);
    let load = Load::start(&shopper(&server.url));
    load.fill_windows(&[Route::Quote, Route::Payment], SECOND).await;
    let answers = load.finish().await;
    assert_limits(&answers, 0, Payments::Limited);
    assert!(!server.log().contains("is unavailable"), "{}", server.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shop_keeps_its_limits_under_load() {
    holds_under_load(with_axum, None, Shopper::new).await;
    holds_under_load(with_axum, Some(&RedisServer::start()), Shopper::new).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shop_with_actix_keeps_its_limits_under_load() {
    holds_under_load(with_actix, None, Shopper::new).await;
    holds_under_load(with_actix, Some(&RedisServer::start()), Shopper::new).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shops_keep_their_limits_over_http_2() {
    for start in [with_axum as Start, with_actix] {
        holds_under_load(start, None, Shopper::over_http2).await;
        holds_under_load(start, Some(&RedisServer::start()), Shopper::over_http2).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shop_outlives_its_redis() {
    outlives_its_redis(with_axum).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shop_with_actix_outlives_its_redis() {
    outlives_its_redis(with_actix).await;
}

async fn outlives_its_redis(start: Start) {
    const BEFORE: u64 = 0;
    const KILLED: u64 = 1;
    const DOWN: u64 = 2;
    const STARTED: u64 = 3;
    const AGAIN: u64 = 4;

    let redis = RedisServer::start();
    let server = start(Some(&redis));
    let shopper = Shopper::new(&server.url);
    let load = Load::start(&shopper);
    load.fill_windows(&[Route::Quote, Route::Payment], SECOND).await;

    load.enter(KILLED).await;
    redis.kill_hard();
    // What Redis refused stands for a second.
    sleep(SECOND + SECOND / 2).await;
    load.enter(DOWN).await;
    load.fill_windows(&[Route::Quote], SECOND).await;

    load.enter(STARTED).await;
    redis.restart();
    let recovery = async {
        let unavailable = StatusCode::SERVICE_UNAVAILABLE;
        while shopper.ask(Route::Payment, STARTED).await.status == unavailable {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(10 * SECOND, recovery).await.expect("the shop finds its Redis again");
    load.enter(AGAIN).await;
    load.fill_windows(&[Route::Quote, Route::Payment], SECOND).await;

    let answers = load.finish().await;
    assert_limits(&answers, BEFORE, Payments::Limited);
    assert_limits(&answers, DOWN, Payments::Unavailable);
    assert_limits(&answers, AGAIN, Payments::Limited);
    // In between either may decide, but nothing else may happen.
    for answer in answers.iter().filter(|answer| [KILLED, STARTED].contains(&answer.phase)) {
        let refusal = match answer.status {
            StatusCode::TOO_MANY_REQUESTS => true,
            StatusCode::SERVICE_UNAVAILABLE => answer.route == Route::Payment,
            _ => false,
        };
        let refused = refusal && answer.retry_after.is_some_and(|wait| wait >= 1);
        assert!(answer.status.is_success() || refused, "{answer:?}");
    }
    let log = server.log();
    for event in ["rate limit store is unavailable", "rate limit store is available again"] {
        assert!(log.contains(event), "{log}");
    }
    assert!(!log.contains("panicked"), "{log}");
}
