//! Outbound requests within the limit of an upstream service.
//!
//! [`Throttle`] is a layer for services that send requests: `reqwest::Client` (feature `reqwest`), hyper's clients, tonic's
//! channels. A request waits in line for its limiter before it is sent. When the upstream requests
//! a pause (`Retry-After`, `RateLimit` with nothing left, or the `RetryInfo` of gRPC), this process
//! sends nothing more for that limiter until the pause is over.
//!
//! ```no_run,standalone_crate
//! # #[cfg(feature = "reqwest")]
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use ratelimit_runtime::{client::Throttle, limiter};
//! use tower::{Service, ServiceBuilder, ServiceExt};
//!
//! // One limit for each host, shared by all processes; its rate is in the limits file.
//! let throttle = Throttle::new(|request: &reqwest::Request| {
//!     limiter!("partner:{host}", host = request.url().host_str().unwrap_or(""))
//! });
//! let mut partners = ServiceBuilder::new()
//!     .layer(throttle.timeout(Duration::from_secs(30)))
//!     .service(reqwest::Client::new());
//!
//! let request = reqwest::Request::new(reqwest::Method::GET, "https://api.example.org/".parse()?);
//! let response = partners.ready().await?.call(request).await?;
//! # Ok(())
//! # }
//! ```

mod error;
mod pauses;
mod throttle;
mod upstream;

pub use self::{
    error::ThrottleError,
    throttle::{Throttle, ThrottleService},
};
