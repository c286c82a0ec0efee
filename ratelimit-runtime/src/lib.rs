//! Distributed rate limiting for async functions.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod algorithm;
mod call_site;
mod clock;
mod decision;
mod error;
mod events;
mod key;
mod limiter;
mod limits;

#[doc(hidden)]
pub mod __private;
mod quota;
mod rejection;
mod settings;
pub mod store;
mod waiting;
#[cfg(feature = "axum")]
mod web;

pub use ratelimit_macros::{limiter, rate_limit};
pub use ratelimit_spec::{Mode, OnDrift, OnStoreError, Wait, format_duration, parse_duration};

pub use self::{
    clock::{Clock, ManualClock},
    decision::Decision,
    error::{SetupError, StoreError, StoreErrorKind},
    events::Event,
    key::{KeyPart, KeyText},
    limiter::Limiter,
    limits::{LimiterReport, Limits, LimitsBuilder, Report, init},
    quota::{Quota, QuotaError},
    rejection::{FromRejection, Reason, Rejection},
    settings::{Effective, Source, Sourced},
};
use self::__private as private;
