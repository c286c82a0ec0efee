//! The shop of `axum.rs` in actix: the same limits, answers and headers.
//!
//!     cargo run -p examples --example actix
//!     REDIS_URL=redis://127.0.0.1/ LISTEN=0.0.0.0:8080 cargo run -p examples --example actix
//!
//!     curl -i -X POST http://127.0.0.1:3000/orders/42
//!     curl -i http://127.0.0.1:3000/quote
//!     curl -i -X POST http://127.0.0.1:3000/payments
//!
//! `shop.yaml` sets other limits for some users.

use std::{env, error::Error, net::TcpListener};

use actix_web::{
    App, HttpResponse, HttpServer,
    web::{self, Path},
};
use ratelimit_runtime::{Limits, Quota, Rejection, rate_limit, tower::Limit, web::Headers};

const LIMITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/shop.yaml");

/// Each user places five orders a minute. A rejection is an error of actix, so it can be the error as it
/// is; an error type of the shop's own would implement `From<Rejection>`.
#[rate_limit(key = "orders:{user_id}", rate = 5, per = "1m", wait = "none")]
async fn place_order(user_id: u64) -> Result<HttpResponse, Rejection> {
    Ok(HttpResponse::Created().body(format!("order of user {user_id} placed\n")))
}

/// All callers together get fifty quotes a second. A handler may also return responses.
#[rate_limit(key = "quote", rate = 50, per = "1s", wait = "none")]
async fn quote() -> HttpResponse {
    HttpResponse::Ok().insert_header(("cache-control", "no-store")).body("1.0734\n")
}

/// Ten payments a second, and none while Redis is unavailable: this limit must not be exceeded for any
/// reason. The two above then count against this process's share.
#[rate_limit(key = "payments", rate = 10, per = "1s", wait = "none", on_store_error = "reject")]
async fn pay() -> Result<&'static str, Rejection> {
    Ok("paid\n")
}

#[actix_web::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // All requests of one client, before a handler runs. Made first, since the limits file is checked against it.
    let each_client = Limit::new("shop:{ip}", Quota::per_second(100_000));
    let file = env::var("RATELIMIT_LIMITS").unwrap_or(LIMITS.to_owned());
    let limits = Limits::builder().key_prefix("shop:").limits_file(file);
    limits.on_event(|event| eprintln!("{event}")).install().await?;

    let shop = move || {
        let order = async |user_id: Path<u64>| place_order(user_id.into_inner()).await;
        App::new()
            .route("/orders/{user_id}", web::post().to(order))
            .route("/quote", web::get().to(quote))
            .route("/payments", web::post().to(pay))
            .wrap(each_client.clone())
            .wrap(Headers::Ietf)
    };
    let listener = TcpListener::bind(env::var("LISTEN").unwrap_or("127.0.0.1:3000".into()))?;
    println!("listening on http://{}", listener.local_addr()?);
    // HTTP/1 and HTTP/2 on one port.
    HttpServer::new(shop).listen_auto_h2c(listener)?.run().await?;
    Ok(())
}
