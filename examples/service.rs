//! The service of the guide `docs/web.md`: a login that counts failures for each client and for each account,
//! a search for each tenant, headers in all answers, and metrics.
//!
//!     cargo run -p examples --example service
//!     curl -i http://127.0.0.1:3000/search -H 'x-tenant: acme'
//!     curl -i http://127.0.0.1:3000/login --json '{"name":"ada","password":"wrong"}'
//!     curl http://127.0.0.1:3000/metrics
//!     curl -i http://127.0.0.1:3000/ready

use std::{env, error::Error, net::SocketAddr, time::Duration};

use axum::{
    Json, Router,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use ratelimit_runtime::{Limits, Quota, Rejection, rate_limit, tower::Limit, web::Headers};
use serde::Deserialize;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};

#[derive(Deserialize)]
struct Credentials {
    name: String,
    password: String,
}

/// What goes wrong in this service. A rejection is one of its errors.
enum ServiceError {
    WrongPassword,
    Limited(Rejection),
}

impl From<Rejection> for ServiceError {
    fn from(rejection: Rejection) -> Self {
        Self::Limited(rejection)
    }
}

impl IntoResponse for ServiceError {
    fn into_response(self) -> Response {
        match self {
            Self::WrongPassword => StatusCode::UNAUTHORIZED.into_response(),
            Self::Limited(rejection) => rejection.into_response(),
        }
    }
}

/// Each account has five wrong passwords in a quarter of an hour: a permit is taken before the check, so that
/// parallel guesses count too, and refunded if the password is right.
#[rate_limit(
    key = "login:{credentials.name}",
    rate = 5,
    per = "15m",
    wait = "none",
    refund_on = "ok"
)]
async fn login(Json(credentials): Json<Credentials>) -> Result<&'static str, ServiceError> {
    if credentials.password == "correct horse" {
        Ok("welcome\n")
    } else {
        Err(ServiceError::WrongPassword)
    }
}

async fn search() -> &'static str {
    "nothing found\n"
}

/// Whether the store replies and the limits file is in force.
async fn ready(State(limits): State<Limits>) -> StatusCode {
    if limits.health().is_ok() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // First, because a limiter keeps the recorder that it finds with its first decision. The dashboard and the alerts
    // select buckets, which a histogram lacks by default.
    let seconds = Matcher::Suffix("_seconds".into());
    let buckets = [0.001, 0.01, 0.05, 0.5, 10., 60.];
    let metrics = PrometheusBuilder::new().set_buckets_for_metric(seconds, &buckets)?;
    let metrics = metrics.install_recorder()?;
    // Each client may fail twenty times a minute, over all accounts. Layers are created before the limits are installed,
    // because the limits file is checked against them.
    let failures = Limit::new("login-from:{ip}", Quota::per_minute(20))
        .refund_if(|response| response.status.is_success());
    let searches = Limit::new("search:{tenant?}", Quota::per_minute(100))
        .key("tenant", |request| Some(request.headers.get("x-tenant")?.to_str().ok()?.to_owned()));
    // Reads `ratelimit.yaml` and the environment, and reloads the file if it changed, or on `kill -HUP`. A file with
    // mistakes changes nothing, and an event reports them.
    let builder = Limits::builder().watch(Duration::from_secs(5)).reload_on_hangup();
    let limits = builder.on_event(|event| eprintln!("{event}")).install().await?;

    let service = Router::new()
        .route("/login", post(login).layer(failures))
        .route("/search", get(search).layer(searches))
        .layer(Headers::Ietf)
        .route("/metrics", get(async move || metrics.render()))
        .route("/ready", get(ready).with_state(limits.clone()));

    let listener = TcpListener::bind(env::var("LISTEN").unwrap_or("127.0.0.1:3000".into())).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let mut terminate = signal(SignalKind::terminate())?;
    axum::serve(listener, service.into_make_service_with_connect_info::<SocketAddr>())
        .with_graceful_shutdown(async move { terminate.recv().await.unwrap_or_default() })
        .await?;
    // All requests are served: sends pending refunds, and removes this process from those that share the store.
    limits.shutdown().await;
    Ok(())
}
