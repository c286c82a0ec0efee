//! The calendar windows around the current time: a script knows the time, but no time zones.

use std::fmt::Write;

use ratelimit_spec::Calendar;
use redis::{Cmd, Value};

use super::{
    reply::{unknown_reply, unknown_rule},
    rule::read_rule,
};
use crate::{
    StoreError,
    calendar::bounds,
    store::{Config, Request},
};

/// The most calls of a script for one decision: a clock that jumps again is broken.
pub(super) const MOST_ATTEMPTS: usize = 3;

/// The windows that a script lacked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Missing {
    calendar: Calendar,
    /// The server's time, in milliseconds.
    now: u64,
}

/// The windows that a call includes.
#[derive(Clone, Debug, Default)]
pub(super) struct Windows {
    calendars: Vec<Calendar>,
    /// What the previous attempt lacked.
    missing: Option<Missing>,
}

impl Windows {
    /// Creates the windows of these calendars, each once.
    pub(super) fn new(calendars: impl IntoIterator<Item = Option<Calendar>>) -> Self {
        let mut all = Self::default();
        calendars.into_iter().flatten().for_each(|calendar| all.add(calendar));
        all
    }

    /// Creates the windows of the callers' own calendars, and of the last ones they found active.
    pub(super) fn of<'a>(requests: impl IntoIterator<Item = &'a Request<'a>>) -> Self {
        let both = |request: &Request<'_>| [request.config.calendar(), request.in_force];
        Self::new(requests.into_iter().flat_map(both))
    }

    fn add(&mut self, calendar: Calendar) {
        if !self.calendars.contains(&calendar) {
            self.calendars.push(calendar);
        }
    }

    /// Adds the windows that a reply lacked.
    pub(super) fn lack(&mut self, missing: Missing) {
        self.missing = Some(missing);
        self.add(missing.calendar);
    }

    /// Appends the windows, if there are any, to a call, after `between` empty arguments. `guess` is the
    /// likely server time in milliseconds.
    pub(super) fn append(&self, command: &mut Cmd, between: usize, guess: impl FnOnce() -> u64) {
        if self.calendars.is_empty() {
            return;
        }
        let now = self.missing.map_or_else(guess, |missing| missing.now);
        let mut text = String::new();
        for calendar in &self.calendars {
            let [first, second, third, fourth] = bounds(*calendar, now);
            let end = if text.is_empty() { "" } else { ";" };
            let _ = write!(text, "{end}{calendar}={first},{second},{third},{fourth}");
        }
        for _ in 0..between {
            command.arg("");
        }
        command.arg(text);
    }
}

/// Reads from a reply which windows the script lacked. `own` is the caller's configuration.
pub(super) fn missing(value: &Value, own: Option<&Config>) -> Result<Option<Missing>, StoreError> {
    let Value::Array(items) = value else { return Ok(None) };
    let (Some(Value::Int(6)), Some(Value::Int(now)), Some(rule)) =
        (items.first(), items.get(3), items.get(6))
    else {
        return Ok(None);
    };
    let config = match rule {
        Value::BulkString(text) => {
            let text = String::from_utf8_lossy(text);
            Some(read_rule(&text, 0, 1).ok_or_else(|| unknown_rule(&text))?)
        }
        _ => own.copied(),
    };
    let calendar = config.and_then(|config| config.calendar());
    let (Some(calendar), Ok(now)) = (calendar, u64::try_from(*now)) else {
        return Err(unknown_reply(value));
    };
    Ok(Some(Missing { calendar, now }))
}

/// The error when every attempt lacked windows.
pub(super) fn unsteady() -> StoreError {
    StoreError::unavailable(
        "redis: no calendar window found, because the server's clock is jumping",
    )
}
