//! Requests to partners with a limit per second: each waits for the limit of its host, which all processes share, and
//! none is sent while a partner requests a pause.
//!
//!     cargo run -p examples --example partner_api
//!     REDIS_URL=redis://127.0.0.1/ cargo run -p examples --example partner_api http://127.0.0.1:8080/ 20
//!
//! The arguments are the partner's address and the number of requests. Without them, the example starts a partner that
//! rejects requests that are too fast. The limits are in `partner_api.yaml`.

use std::{
    env,
    error::Error,
    time::{Duration, Instant},
};

use axum::{Router, http::StatusCode, routing::get};
use ratelimit_runtime::{
    Limits, Quota,
    client::{Throttle, ThrottleError},
    limiter,
    tower::Limit,
};
use reqwest::{Client, Method, Request};
use tokio::{net::TcpListener, task::JoinSet};
use tower::{Layer, ServiceExt};

const LIMITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/partner_api.yaml");

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // They share a few cores with Redis and the partner here, so that its answers may take their time.
    Limits::builder().limits_file(LIMITS).deadline(Duration::from_secs(5)).install().await?;
    let arguments: Vec<String> = env::args().skip(1).collect();
    match &arguments[..] {
        [] => call(&start_partner().await?, 12).await,
        [partner, requests] => call(partner, requests.parse()?).await,
        _ => Err("expected the address of a partner and the number of requests".into()),
    }
}

async fn call(partner: &str, requests: u32) -> Result<(), Box<dyn Error>> {
    let throttle = Throttle::new(|request: &Request| {
        limiter!("partner:{host}", host = request.url().host_str().unwrap_or_default())
    });
    let client = throttle.timeout(Duration::from_secs(30)).layer(Client::new());
    let (started, mut calls) = (Instant::now(), JoinSet::new());
    for _ in 0..requests {
        let (client, request) = (client.clone(), Request::new(Method::GET, partner.parse()?));
        calls.spawn(client.oneshot(request));
    }
    while let Some(answer) = calls.join_next().await {
        let seconds = started.elapsed().as_secs_f32();
        match answer? {
            Ok(answer) => println!("{seconds:6.2} s: {}", answer.status()),
            // Neither an error of the network nor of the partner: it was not sent.
            Err(ThrottleError::Rejected(rejection)) => println!("{seconds:6.2} s: {rejection}"),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// A partner that allows less than was agreed: four requests in a second and not five.
async fn start_partner() -> Result<String, Box<dyn Error>> {
    let limits = Limits::builder().memory().limits_file(LIMITS).build().await?;
    let limit = Limit::new("requests", Quota::per_second(4)).limits(&limits);
    let partner = Router::new().route("/", get(async || StatusCode::OK)).layer(limit);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = format!("http://{}/", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, partner).await });
    Ok(address)
}
