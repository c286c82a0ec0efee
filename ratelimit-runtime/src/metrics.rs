//! Measurements for the `metrics` facade. Without the feature there are none.
//!
//! Labels are key templates, never key values: the number of series does not grow with the number
//! of keys.

#[cfg(not(feature = "metrics"))]
#[path = "metrics/off.rs"]
mod measured;
#[cfg(feature = "metrics")]
#[path = "metrics/on.rs"]
mod measured;

pub(crate) use self::measured::{Measured, count_event, count_requests, describe, timed};

/// The label of limiters whose names were built at run time.
pub(crate) const UNNAMED: &str = "*";
