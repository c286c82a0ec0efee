//! A small shop with limited handlers. A rejected request gets a 429 with `Retry-After`, or a 503 if
//! the limit could not be checked and the handler does not run without it.
//!
//!     cargo run -p examples --example axum
//!     REDIS_URL=redis://127.0.0.1/ LISTEN=0.0.0.0:8080 cargo run -p examples --example axum
//!
//!     curl -i -X POST http://127.0.0.1:3000/orders/42
//!     curl -i http://127.0.0.1:3000/quote
//!     curl -i -X POST http://127.0.0.1:3000/payments

use std::{env, error::Error, net::SocketAddr};

use axum::{
    Router,
    extract::Path,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::{get, post},
};
use ratelimit_runtime::{Limits, Quota, Rejection, rate_limit, tower::Limit, web::Headers};
use tokio::net::TcpListener;

/// Each user places five orders a minute. A rejection is a response, so it can be the error as it
/// is; an error type of the shop's own would implement `From<Rejection>`.
#[rate_limit(key = "orders:{user_id}", rate = 5, per = "1m", wait = "none")]
async fn place_order(Path(user_id): Path<u64>) -> Result<impl IntoResponse, Rejection> {
    Ok((StatusCode::CREATED, format!("order of user {user_id} placed\n")))
}

/// All callers together get fifty quotes a second. A handler may also return responses.
#[rate_limit(key = "quote", rate = 50, per = "1s", wait = "none")]
async fn quote() -> impl IntoResponse {
    ([(header::CACHE_CONTROL, "no-store")], "1.0734\n").into_response()
}

/// Ten payments a second, and none while Redis is unavailable: this limit must not be exceeded for any
/// reason. The two above then count against this process's share.
#[rate_limit(key = "payments", rate = 10, per = "1s", wait = "none", on_store_error = "reject")]
async fn pay() -> Result<&'static str, Rejection> {
    Ok("paid\n")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // All requests of one client, before a handler runs. Layers are created before the limits are installed, because
    // the limits file is checked against them.
    let each_client = Limit::new("shop:{ip}", Quota::per_second(100_000));
    Limits::builder().key_prefix("shop:").on_event(|event| eprintln!("{event}")).install().await?;

    // `Headers` describes the limits in the responses of the handlers above.
    let shop = Router::new()
        .route("/orders/{user_id}", post(place_order))
        .route("/quote", get(quote))
        .route("/payments", post(pay))
        .layer(each_client)
        .layer(Headers::Ietf);
    let address = env::var("LISTEN").unwrap_or("127.0.0.1:3000".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, shop.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
