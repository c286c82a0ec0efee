//! The metrics: their names, and their recording.
//!
//! The handles of a limiter are created with its first decision and cached, so that a decision
//! costs one addition. Install a recorder before the limits, which describe the metrics.

use std::time::Duration;

use ::metrics::{Counter, Gauge, Histogram, SharedString, Unit, counter, gauge, histogram};
use once_cell::sync::OnceCell;

use crate::{Reason, StoreError, clock};

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

use Kind::{Counter as C, Gauge as G, Histogram as H};

const ADMITTED: &str = "ratelimit_admitted_total";
const REJECTED: &str = "ratelimit_rejected_total";
const NEAR_LIMIT: &str = "ratelimit_near_limit_total";
const WAITING: &str = "ratelimit_waiting";
const WAIT: &str = "ratelimit_wait_seconds";
const DEGRADED: &str = "ratelimit_degraded_total";
const BLOCKED: &str = "ratelimit_blocked_total";
const SHADOWED: &str = "ratelimit_shadowed_total";
const SHARED: &str = "ratelimit_shared_keys_total";
const REFUNDED: &str = "ratelimit_refunded_permits_total";
const RECONCILED: &str = "ratelimit_reconciled_total";
const STORE_CALL: &str = "ratelimit_store_call_seconds";
const STORE_REQUESTS: &str = "ratelimit_store_requests_total";
const EVENTS: &str = "ratelimit_events_total";

/// All metrics: name, kind, labels and description. `docs/metrics.md` has the same rows.
const METRICS: [(&str, Kind, &str, &str); 14] = [
    (ADMITTED, C, "limiter", "calls that were admitted"),
    (REJECTED, C, "limiter, reason", "calls that were rejected"),
    (BLOCKED, C, "limiter", "penalties: how often a key was blocked"),
    (
        NEAR_LIMIT,
        C,
        "limiter",
        "admitted calls that left at most a fifth of the permits, of more than one",
    ),
    (WAITING, G, "limiter", "calls that wait for their permits now"),
    (WAIT, H, "limiter", "how long admitted calls waited, of those that had to wait"),
    (
        DEGRADED,
        C,
        "limiter",
        "calls that `on_store_error` decided, and refunds that did not reach the store",
    ),
    (SHADOWED, C, "limiter", "calls that only shadow mode admitted"),
    (SHARED, C, "limiter", "calls whose key is beyond `max_keys` and shared a limiter"),
    (REFUNDED, C, "limiter", "permits that were refunded or released"),
    (RECONCILED, C, "limiter, outcome", "reconciliations of configured and stored settings"),
    (STORE_CALL, H, "operation, outcome", "how long calls to Redis took; each is one script call"),
    (
        STORE_REQUESTS,
        C,
        "",
        "requests for permits that calls to Redis decided, of which one call can decide many",
    ),
    (
        EVENTS,
        C,
        "event",
        "events, such as `store_down` and `reload_failed`; rejections and shared keys have metrics of their own",
    ),
];

/// The events that are worth an alert when they happen once. Their series begin at 0, because a query for an increase
/// does not see a series that begins at 1.
const ALERTING: [&str; 4] = ["store_down", "misconfigured", "reload_failed", "needs_restart"];

/// Registers the metrics with the recorder.
pub(crate) fn describe() {
    for event in ALERTING {
        counter!(EVENTS, "event" => event).increment(0);
    }
    for (name, kind, _, text) in METRICS {
        match kind {
            C => ::metrics::describe_counter!(name, Unit::Count, text),
            G => ::metrics::describe_gauge!(name, Unit::Count, text),
            H => ::metrics::describe_histogram!(name, Unit::Seconds, text),
        }
    }
}

/// The metrics of the limiters with one label. A series exists once something is counted in it.
#[derive(Default)]
pub(crate) struct Measured {
    label: SharedString,
    admitted: OnceCell<Counter>,
    near_limit: OnceCell<Counter>,
    rejected: [OnceCell<Counter>; Reason::COUNT],
    degraded: OnceCell<Counter>,
    shadowed: OnceCell<Counter>,
    shared: OnceCell<Counter>,
    refunded: OnceCell<Counter>,
    waiting: OnceCell<Gauge>,
    wait: OnceCell<Histogram>,
}

impl Measured {
    pub(crate) fn new(label: &str) -> Self {
        Self { label: SharedString::from(label.to_owned()), ..Self::default() }
    }

    fn counter<'a>(&self, cell: &'a OnceCell<Counter>, name: &'static str) -> &'a Counter {
        cell.get_or_init(|| counter!(name, "limiter" => self.label.clone()))
    }

    /// Counts an admitted call.
    pub(crate) fn admitted(&self, is_near_limit: bool) {
        self.counter(&self.admitted, ADMITTED).increment(1);
        if is_near_limit {
            self.counter(&self.near_limit, NEAR_LIMIT).increment(1);
        }
    }

    pub(crate) fn rejected(&self, reason: Reason) {
        let make =
            || counter!(REJECTED, "limiter" => self.label.clone(), "reason" => reason.word());
        self.rejected[reason as usize].get_or_init(make).increment(1);
    }

    pub(crate) fn waited(&self, time: Duration) {
        let make = || histogram!(WAIT, "limiter" => self.label.clone());
        self.wait.get_or_init(make).record(time);
    }

    /// Counts a waiting call until the result is dropped.
    pub(crate) fn waits(&self) -> Waiting {
        let make = || gauge!(WAITING, "limiter" => self.label.clone());
        let waiting = self.waiting.get_or_init(make).clone();
        waiting.increment(1);
        Waiting(waiting)
    }

    pub(crate) fn degraded(&self) {
        self.counter(&self.degraded, DEGRADED).increment(1);
    }

    /// Looked up each time, because it is rare.
    pub(crate) fn blocked(&self) {
        counter!(BLOCKED, "limiter" => self.label.clone()).increment(1);
    }

    pub(crate) fn shadowed(&self) {
        self.counter(&self.shadowed, SHADOWED).increment(1);
    }

    pub(crate) fn shared(&self) {
        self.counter(&self.shared, SHARED).increment(1);
    }

    pub(crate) fn refunded(&self, permits: u64) {
        self.counter(&self.refunded, REFUNDED).increment(permits);
    }

    pub(crate) fn reconciled(&self, outcome: &'static str) {
        counter!(RECONCILED, "limiter" => self.label.clone(), "outcome" => outcome).increment(1);
    }
}

pub(crate) struct Waiting(Gauge);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.decrement(1);
    }
}

pub(crate) fn count_event(event: &'static str) {
    counter!(EVENTS, "event" => event).increment(1);
}

/// Counts the requests that one store call decides.
pub(crate) fn count_requests(requests: usize) {
    counter!(STORE_REQUESTS).increment(u64::try_from(requests).unwrap_or(u64::MAX));
}

/// Measures a call to the store, unless it was not sent.
pub(crate) async fn timed<T>(
    operation: &'static str,
    call: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let started = clock::instant();
    let result = call.await;
    let outcome = match &result {
        Ok(_) => "ok",
        Err(error) if error.is_held() => return result,
        Err(_) => "error",
    };
    let histogram = histogram!(STORE_CALL, "operation" => operation, "outcome" => outcome);
    histogram.record(clock::instant().saturating_duration_since(started));
    result
}

#[cfg(test)]
mod tests {
    use super::METRICS;

    /// ```sh
    /// cargo test -p ratelimit-runtime --all-features the_page_has_the_metrics
    /// ```
    #[test]
    fn the_page_has_the_metrics_and_no_others() {
        let page = include_str!("../../docs/metrics.md");
        let rows: Vec<&str> =
            page.lines().filter(|line| line.starts_with("| `ratelimit_")).collect();
        let expected = METRICS.map(|(name, kind, labels, text)| {
            let kind = format!("{kind:?}").to_lowercase();
            let labels: Vec<_> = labels.split(", ").filter(|label| !label.is_empty()).collect();
            let labels = labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>();
            format!("| `{name}` | {kind} | {} | {text} |", labels.join(", "))
        });
        assert_eq!(rows, expected, "docs/metrics.md (left) and the table of this module");
    }
}
