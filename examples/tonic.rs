//! The shop of `axum.rs` as a gRPC service: a rejected call gets `RESOURCE_EXHAUSTED`, or `UNAVAILABLE` if the
//! limit could not be checked and the method does not run without it. `RetryInfo` contains the time to retry after.
//!
//!     cargo run -p examples --example tonic
//!     REDIS_URL=redis://127.0.0.1/ LISTEN=0.0.0.0:50051 cargo run -p examples --example tonic
//!
//! `shop.yaml` sets other limits for some users.

use std::{
    convert::Infallible,
    env,
    error::Error,
    pin::Pin,
    task::{Context, Poll},
};

use ratelimit_runtime::{Limits, Quota, rate_limit, tower::Limit, web::Headers};
use tonic::{
    Request, Response, Status,
    body::Body,
    server::{Grpc, NamedService},
    transport::{Server, server::TcpIncoming},
};
use tonic_prost::ProstCodec;
use tower::{Service, service_fn};

const LIMITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/shop.yaml");

/// Each user places five orders a minute. A rejection becomes a status, so methods are annotated as they are.
#[rate_limit(key = "orders:{user_id}", rate = 5, per = "1m", wait = "none")]
async fn place_order(user_id: u64) -> Result<Response<String>, Status> {
    Ok(Response::new(format!("order of user {user_id} placed")))
}

/// All callers together get fifty quotes a second.
#[rate_limit(key = "quote", rate = 50, per = "1s", wait = "none")]
async fn quote(_: Request<()>) -> Result<Response<String>, Status> {
    Ok(Response::new("1.0734".to_owned()))
}

/// Ten payments a second, and none while Redis is unavailable: this limit must not be exceeded for any
/// reason. The two above then count against this process's share.
#[rate_limit(key = "payments", rate = 10, per = "1s", wait = "none", on_store_error = "reject")]
async fn pay(_: Request<()>) -> Result<Response<String>, Status> {
    Ok(Response::new("paid".to_owned()))
}

/// What a compiler of protocols would generate: the methods by their paths.
#[derive(Clone)]
struct Shop;

impl NamedService for Shop {
    const NAME: &'static str = "shop.Shop";
}

impl Service<http::Request<Body>> for Shop {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(async move {
            Ok(match request.uri().path() {
                "/shop.Shop/PlaceOrder" => {
                    let order =
                        service_fn(|user_id: Request<u64>| place_order(user_id.into_inner()));
                    Grpc::new(ProstCodec::default()).unary(order, request).await
                }
                "/shop.Shop/Quote" => {
                    Grpc::new(ProstCodec::default()).unary(service_fn(quote), request).await
                }
                "/shop.Shop/Pay" => {
                    Grpc::new(ProstCodec::default()).unary(service_fn(pay), request).await
                }
                _ => Status::unimplemented("no such method").into_http(),
            })
        })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // All calls of one client, before a method runs. Made first, since the limits file is checked against it.
    let each_client = Limit::new("shop:{ip}", Quota::per_second(100_000));
    let file = env::var("RATELIMIT_LIMITS").unwrap_or(LIMITS.to_owned());
    let limits = Limits::builder().key_prefix("shop:").limits_file(file);
    limits.on_event(|event| eprintln!("{event}")).install().await?;

    let address = env::var("LISTEN").unwrap_or("127.0.0.1:50051".into());
    let incoming = TcpIncoming::bind(address.parse()?)?;
    println!("listening on http://{}", incoming.local_addr()?);
    let shop = Server::builder().layer(Headers::Ietf).layer(each_client).add_service(Shop);
    shop.serve_with_incoming(incoming).await?;
    Ok(())
}
