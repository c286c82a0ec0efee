//! A service whose limits are measured, with `/metrics` for Prometheus. The dashboard and the alerts for it are in
//! `docs/metrics/`.
//!
//!     cargo run -p examples --example metrics
//!     curl http://127.0.0.1:3000/quote
//!     curl http://127.0.0.1:3000/metrics

use std::{env, error::Error, net::SocketAddr, time::Duration};

use axum::{Router, routing::get};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use ratelimit_runtime::{Limits, Quota, Rejection, rate_limit, tower::Limit, web::Headers};
use tokio::{net::TcpListener, time};

/// Upper bounds of the histograms, in seconds.
const BUCKETS: [f64; 10] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0, 10.0, 60.0];

#[rate_limit(key = "quote", rate = 50, per = "1s", wait = "none")]
async fn quote() -> Result<&'static str, Rejection> {
    Ok("1.0734\n")
}

/// Reports wait for each other, one in a fifth of a second.
#[rate_limit(key = "report", rate = 5, per = "1s", algorithm = "leaky_bucket", wait = "10s")]
async fn report() -> Result<&'static str, Rejection> {
    Ok("all is well\n")
}

/// Before any limit decides, or its first calls would not be measured.
fn install_recorder() -> Result<PrometheusHandle, Box<dyn Error>> {
    let seconds = Matcher::Suffix("_seconds".to_owned());
    let builder = PrometheusBuilder::new().set_buckets_for_metric(seconds, &BUCKETS)?;
    Ok(builder.install_recorder()?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let recorder = install_recorder()?;
    // Before the limits are installed, because the limits file is checked against it.
    let each_client = Limit::new("service:{ip}", Quota::per_second(1_000));
    Limits::builder().on_event(|event| eprintln!("{event}")).install().await?;

    let upkeep = recorder.clone();
    tokio::spawn(async move {
        let mut every = time::interval(Duration::from_secs(5));
        loop {
            every.tick().await;
            upkeep.run_upkeep();
        }
    });
    let service = Router::new()
        .route("/quote", get(quote))
        .route("/report", get(report))
        .layer(each_client)
        .layer(Headers::Ietf)
        .route("/metrics", get(async move || recorder.render()));
    let address = env::var("LISTEN").unwrap_or("127.0.0.1:3000".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, service.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
