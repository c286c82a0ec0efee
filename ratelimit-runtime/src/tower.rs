//! Layers that limit HTTP requests, for every tower service: axum, hyper, tonic.
//!
//! [`Limit`] limits routes, before a body is read. [`Headers`](crate::web::Headers) is a layer too: it adds the
//! headers of rate limits to the responses of handlers that are annotated with [`rate_limit`](crate::rate_limit).
//!
//! ```
//! # #[cfg(feature = "axum")] mod shop {
//! use axum::{Router, http::StatusCode, routing::{get, post}};
//! use ratelimit_runtime::{Quota, tower::Limit, web::Headers};
//!
//! # async fn sign_in() -> &'static str { "" }
//! # async fn search() -> &'static str { "" }
//! fn shop() -> Router {
//!     // Only failed attempts count: five per minute.
//!     let login = Limit::new("login:{ip}", Quota::per_minute(5))
//!         .refund_if(|response| response.status != StatusCode::UNAUTHORIZED);
//!     let api = Limit::new("api:{tenant?}", Quota::per_minute(100)).key("tenant", |request| {
//!         Some(request.headers.get("x-tenant")?.to_str().ok()?.to_owned())
//!     });
//!     Router::new()
//!         .route("/login", post(sign_in).layer(login))
//!         .route("/search", get(search))
//!         .layer(api)
//!         .layer(Headers::Ietf)
//! }
//! # }
//! ```
//!
//! `{ip}` is the [`ClientIp`](crate::web::ClientIp) unless [`Limit::key`] overrides it. It needs
//! the address of the peer: serve axum with `into_make_service_with_connect_info::<SocketAddr>()`,
//! or insert a `SocketAddr` into the extensions of the requests. With `{ip?}` all requests whose peer is unknown
//! share a limiter.
//!
//! With the feature `actix` both are middleware of actix, for `App::wrap`, `Scope::wrap` and `Resource::wrap`.
//!
//! The [`Decision`](crate::Decision) about a request is in the extensions of the request and of the response.

#[cfg(feature = "actix")]
mod actix;
mod admission;
mod body;
mod compiled;
mod grpc;
mod headers;
mod limit;
mod member;
mod outcomes;
mod part;
mod per_limits;
mod service;

#[cfg(feature = "actix")]
pub use self::actix::{HeadersMiddleware, LimitMiddleware};
pub use self::{body::LimitBody, headers::HeadersService, limit::Limit, service::LimitService};
