//! Distributed rate limiting for async functions: an attribute, a limits file, and Redisson-compatible state in Redis.
//!
//! ```
//! use ratelimit_runtime::{Limits, Reason, Rejection, rate_limit};
//!
//! #[rate_limit(key = "quotes:{user_id}", rate = 2, per = "1m", wait = "none")]
//! async fn quote(user_id: u64) -> Result<&'static str, Rejection> {
//!     Ok("festina lente")
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let limits = Limits::builder().memory().build().await?;
//! limits.scope(async {
//!     assert!(quote(1).await.is_ok());
//!     assert!(quote(1).await.is_ok());
//!     assert_eq!(quote(1).await.unwrap_err().reason(), Reason::Limited);
//!     assert!(quote(2).await.is_ok(), "another user has another window");
//! }).await;
//! # Ok(())
//! # }
//! ```
//!
//! # Further reading
//!
//! - [`rate_limit`] is the attribute; its page shows what each argument expands to.
//! - [`init`] sets up a program's limits from the limits file and the environment;
//!   [`Limits::builder`] does so in code. Tests run functions in a [`Limits::scope`].
//! - Outages and failed reloads are reported as an [`Event`]: enable the feature `tracing`, or set
//!   [`LimitsBuilder::on_event`]. By default nothing is logged.
//! - [`guide::web`]: a rate-limited web service from scratch, and its deployment.
//! - [`guide::migration`]: coming from governor, `tower_governor`, Redisson or Redis scripts.
//! - [`Limiter`] is a limiter without the attribute; [`limiter!`] returns that of a declared key.
//! - [`guide::algorithms`]: the ways to count permits, and how to choose.
//! - [`guide::reconciliation`]: what happens if configured and stored settings differ.
//! - [`guide::outages`]: what happens while Redis is slow or unavailable.
//! - [`guide::shadow`]: trying out a limit before enforcing it.
//! - [`guide::penalties`]: blocks for keys that are rejected repeatedly.
//! - [`guide::several_limits`], [`guide::shards`]: several limits for one key; one limiter on several Redis nodes.
//! - [`guide::settlement`]: refunds, several limits on one function, costs known only afterwards.
//! - [`guide::redisson`]: sharing limiters with Java services.
//! - [`guide::metrics`]: the metrics, a dashboard and alert rules.
//! - The module `test_util`, with the feature of that name: testing a program with limits.
//! - [`guide::architecture`]: the layers, the call path, the format of the state.
//! - [`guide::benchmarks`]: the cost of a decision, compared with other rate limiters.
//!
//! # The limits file
//!
//! ```yaml
//! store: redis://127.0.0.1:6379/0
//! default: { rate: 100, per: 1s }
//! limiters:
//!   "quotes:{user_id}": { rate: 5, per: 1m, on_drift: carry }
//! ```
//!
//! Every option is in the reference at [`ratelimit_spec::limits_file`]. The file takes precedence
//! over the attribute, field by field.
//!
//! # Crate features
//!
//! `redis` and `limits-file` are on by default. Without them this is an embedded limiter with few
//! dependencies: `default-features = false`.
//!
//! - `redis`: limits that all processes share, in Redis or a Redis Cluster. Without it, the address
//!   of a store is an error at startup.
//! - `limits-file`: the limits file. Without it, a `ratelimit.yaml` that is found is an error at
//!   compile time or at startup.
//! - `calendar`: calendar windows, such as `per = "day"`, with the time zone database.
//!   Without it, these are an error at compile time or at startup.
//! - `sentinel`: Redis Sentinel. `cluster` is an alias of `redis`, which includes Redis Cluster.
//! - `redis-connect`: connections to Redis that the program opens, with `LimitsBuilder::redis_connect`.
//! - `tls`: `rediss://` by rustls, with the system's root certificates; `tls-webpki-roots` compiles
//!   roots in.
//! - `tower`: layers that limit HTTP requests and add headers to responses; see the module `tower`.
//! - `actix`: rejections as actix responses, the extractor `web::ClientIp`, `tower::Limit` and `web::Headers` as middleware.
//! - `axum`: rejections as axum responses, and the extractor `web::ClientIp`.
//! - `tonic`: rejections as gRPC statuses, with `RetryInfo`.
//! - `client`: outbound requests that wait for a limiter, and pause when an upstream requests it;
//!   see the module `client`. With `reqwest` also those of `reqwest::Client`.
//! - `metrics`: counts of admitted, rejected, waiting and refunded calls, for the `metrics` facade; see
//!   [`guide::metrics`].
//! - `serde`: [`Quota`], [`Quotas`] and [`Settings`] in your own configuration files; what [`Limits::report`] returns
//!   can be serialized.
//! - `ulid`, `uuid`: `Ulid` and `Uuid` in keys.
//! - `signal`: the limits file is reloaded when the process receives `SIGHUP`
//!   (`LimitsBuilder::reload_on_hangup`, on Unix only).
//! - `tracing`: events through `tracing`, with the target `ratelimit`, and spans of decisions
//!   (`LimitsBuilder::trace_decisions`).
//! - `test-util`: a manual clock, a store that fails on demand, and more for the tests of a program; see the
//!   module `test_util`.
//!
//! # Runtimes
//!
//! Any executor can poll the futures of this crate. A tokio runtime needs its timers and, for Redis, its I/O, as with
//! `enable_all` or `#[tokio::main]`. Without timers, the first call that has to wait panics; without I/O, Redis is
//! unavailable.
//!
//! # Versions
//!
//! Rust 1.88 or later. A minor release may require a newer one.
//!
//! The features `tower`, `client`, `axum`, `actix` and `tonic` have types of the crates of these names and of `http` in their
//! API. A new major version of one of these crates gets a feature of its own, next to the present one. `redis-connect` has
//! types of `redis`, whose next major version is also one of this crate.
//!
//! The fields of the limits file, the environment variables, the names and labels of [metrics](guide::metrics), the names and
//! fields of events, the text of a value in a key, and the state in Redis are part of the API: processes of two releases share
//! their limiters. The text of messages, the packages `ratelimit-macros` and `ratelimit-spec`, and hidden items are not.
//!
//! # What is counted
//!
//! A sliding window: at most `rate` permits in *any* window of length `per`. A permit is free again
//! `per` after it was taken; with more than 64 log entries in a window, up to 2 % of the window
//! later, never earlier. Rejected calls do not count. Time is the Redis server's, or without Redis this process's. A limiter can
//! also use a token bucket, a fixed window or a leaky bucket (`algorithm`): [`guide::algorithms`].

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    not(all(feature = "limits-file", feature = "redis")),
    allow(dead_code, reason = "some of it is for the Redis store or the limits file alone")
)]

// First, so that its macro is known below.
#[doc(hidden)]
pub mod __private;

mod algorithm;
mod annotation;
mod calendar;
mod call_site;
#[cfg(feature = "client")]
pub mod client;
mod clock;
mod count;
mod decision;
mod engine;
mod error;
mod events;
pub mod guide;
mod home;
mod key;
mod limiter;
mod limits;
mod members;
mod metrics;
mod quota;
mod refund;
mod registry;
mod rejection;
pub mod report;
#[cfg(any(feature = "client", feature = "_web"))]
mod retry_after;
mod settings;
mod store;
mod task;
#[cfg(feature = "test-util")]
pub mod test_util;
#[cfg(feature = "tower")]
pub mod tower;
// By the features that users enable, because rustc shows them if none is enabled.
#[cfg(any(feature = "actix", feature = "axum", feature = "tonic", feature = "tower"))]
pub mod web;
mod words;

#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/limiter.md")]
pub use ratelimit_macros::limiter;
#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/rate_limit.md")]
pub use ratelimit_macros::rate_limit;

pub(crate) use self::clock::Clock;
pub use self::{
    decision::{Decision, Reason, Settlement},
    error::{Problem, ProblemKind, SetupError, StoreError, StoreErrorKind},
    events::Event,
    key::KeyPart,
    limiter::{Limiter, LimiterConfig, Permit, RateChange},
    limits::{Health, Limits, LimitsBuilder, init, observe},
    quota::{Quota, QuotaError, Quotas},
    rejection::{FromRejection, Rejection},
    settings::{Penalty, Settings},
    words::{Algorithm, CalendarUnit, Mode, OnDrift, OnStoreError, Wait},
};
