//! A login that counts wrong passwords, for each account and for each client, and blocks those that go on, each time for longer.
//!
//!     RATELIMIT_LIMITS=examples/login.yaml cargo run -p examples --example login
//!     curl -i http://127.0.0.1:3000/login --json '{"name":"ada","password":"wrong"}'
//!     curl -i -X POST http://127.0.0.1:3000/unblock/ada

use std::{env, error::Error, net::SocketAddr};

use axum::{
    Json, Router,
    extract::Path,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::post,
};
use ratelimit_runtime::{
    Limits, Quota, Rejection, limiter, rate_limit, tower::Limit, web::Headers,
};
use serde::Deserialize;
use tokio::net::TcpListener;

#[derive(Deserialize)]
struct Credentials {
    name: String,
    password: String,
}

/// A permit is taken before the password is checked, so that parallel guesses count too, and refunded if it is right.
#[rate_limit(key = "login:{name}", rate = 5, per = "1m", wait = "none", refund_on = "ok")]
async fn check(name: &str, password: &str) -> Result<(), Refusal> {
    if password == "correct horse" { Ok(()) } else { Err(Refusal::WrongPassword) }
}

enum Refusal {
    WrongPassword,
    Limited(Rejection),
}

impl From<Rejection> for Refusal {
    fn from(rejection: Rejection) -> Self {
        Self::Limited(rejection)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        match self {
            Self::WrongPassword => StatusCode::UNAUTHORIZED.into_response(),
            Self::Limited(rejection) => rejection.into_response(),
        }
    }
}

async fn login(Json(credentials): Json<Credentials>) -> Result<&'static str, Refusal> {
    check(&credentials.name, &credentials.password).await?;
    Ok("welcome\n")
}

/// For the help desk. A real service authenticates the caller.
async fn unblock(Path(name): Path<String>) -> Result<&'static str, StatusCode> {
    let lifted = limiter!("login:{name}").lift_penalty().await;
    match lifted.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)? {
        true => Ok("unblocked\n"),
        false => Ok("was not blocked\n"),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let failures = Limit::new("login-from:{ip}", Quota::per_minute(20))
        .refund_if(|response| response.status.is_success());
    Limits::builder().on_event(|event| eprintln!("{event}")).install().await?;

    let service = Router::new()
        .route("/login", post(login).layer(failures))
        .route("/unblock/{name}", post(unblock))
        .layer(Headers::Ietf);
    let listener = TcpListener::bind(env::var("LISTEN").unwrap_or("127.0.0.1:3000".into())).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, service.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
