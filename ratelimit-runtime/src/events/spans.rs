//! Spans of decisions, for the feature `tracing`. Without the feature there are none.

#[cfg(feature = "tracing")]
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Reason;

/// Which decisions have a span: one in this many, or none if zero.
#[derive(Debug)]
#[cfg_attr(not(feature = "tracing"), expect(dead_code, reason = "no decision has a span"))]
pub(crate) struct Spans {
    one_in: u32,
    #[cfg(feature = "tracing")]
    begun: AtomicU32,
}

/// The span of a decision, if it has one. Dropping it ends the span.
#[derive(Debug)]
pub(crate) struct Span(
    /// On the heap, because few decisions have one.
    #[cfg(feature = "tracing")]
    Option<Box<tracing::Span>>,
);

#[cfg(feature = "tracing")]
impl Spans {
    pub(crate) fn one_in(one_in: u32) -> Self {
        Self { one_in, begun: AtomicU32::new(0) }
    }

    /// Begins a decision on a request for permits of these limiters.
    pub(crate) fn begin<'a>(&self, limiters: impl Iterator<Item = &'a str>, permits: u64) -> Span {
        let is_due = || self.begun.fetch_add(1, Ordering::Relaxed).is_multiple_of(self.one_in);
        Span((self.one_in > 0 && is_due()).then(|| begin(limiters, permits)).flatten())
    }
}

/// Returns `None` if no subscriber is interested.
#[cfg(feature = "tracing")]
fn begin<'a>(limiters: impl Iterator<Item = &'a str>, permits: u64) -> Option<Box<tracing::Span>> {
    use tracing::field::Empty;

    let span = tracing::info_span!(
        target: "ratelimit",
        "ratelimit.decision",
        limiter = Empty,
        permits,
        outcome = Empty,
        remaining = Empty,
        degraded = Empty,
    );
    if span.is_disabled() {
        return None;
    }
    span.record("limiter", limiters.collect::<Vec<_>>().join(", "));
    Some(Box::new(span))
}

#[cfg(feature = "tracing")]
impl Span {
    /// Records that the call is admitted, and the permits that remain.
    pub(crate) fn admitted(&self, remaining: Option<u64>, degraded: bool) {
        if let Some(span) = &self.0 {
            span.record("outcome", "admitted").record("degraded", degraded);
            span.record("remaining", remaining);
        }
    }

    /// Records that the call is rejected.
    pub(crate) fn rejected(&self, reason: Reason) {
        if let Some(span) = &self.0 {
            span.record("outcome", reason.word());
        }
    }
}

#[cfg(not(feature = "tracing"))]
impl Spans {
    pub(crate) fn one_in(one_in: u32) -> Self {
        Self { one_in }
    }

    pub(crate) fn begin<'a>(&self, _: impl Iterator<Item = &'a str>, _: u64) -> Span {
        Span()
    }
}

#[cfg(not(feature = "tracing"))]
impl Span {
    pub(crate) fn admitted(&self, _: Option<u64>, _: bool) {}

    pub(crate) fn rejected(&self, _: Reason) {}
}
