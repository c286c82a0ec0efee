//! The windows of calendars around what is now: a script knows the time and no time zones.

use std::fmt::Write;

use once_cell::sync::Lazy;
use ratelimit_spec::Calendar;
use redis::{Cmd, Value};

use super::{
    RedisStore, read,
    reply::unknown_rule,
    rule::read_rule,
    script::{Ask, RELEASE, Script, Tell},
};
use crate::{
    StoreError,
    calendar::bounds,
    store::{Config, Request, StateKeys},
};

/// How often a script is asked anew for one decision: a clock that jumps again is broken.
const MOST_ATTEMPTS: usize = 3;

/// The windows a script was not sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Missing {
    calendar: Calendar,
    /// The server's time, in milliseconds.
    now: u64,
}

/// Which windows a call takes along.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Windows {
    /// The caller's own, and the last one it found in force.
    pub(super) calendars: [Option<Calendar>; 2],
    /// What the attempt before lacked.
    pub(super) missing: Option<Missing>,
}

impl Windows {
    /// Appends them to a call that has so many arguments, unless there are none; `guess` is what the
    /// server's time may be, in milliseconds.
    pub(super) fn append(&self, command: &mut Cmd, arguments: usize, guess: impl FnOnce() -> u64) {
        let [own, other] = self.calendars;
        let missing = self.missing.map(|missing| missing.calendar);
        if [own, other, missing] == [None; 3] {
            return;
        }
        let now = self.missing.map_or_else(guess, |missing| missing.now);
        let mut text = String::new();
        for (n, calendar) in [own, other, missing].into_iter().enumerate() {
            let Some(calendar) = calendar else { continue };
            if [own, other][..n.min(2)].contains(&Some(calendar)) {
                continue;
            }
            let [first, second, third, fourth] = bounds(calendar, now);
            let end = if text.is_empty() { "" } else { ";" };
            let _ = write!(text, "{end}{calendar}={first},{second},{third},{fourth}");
        }
        // The tenth is the time, in tests.
        for _ in arguments..10 {
            command.arg("");
        }
        command.arg(text);
    }
}

/// The windows that a script lacks, when its answer says so. `own` are the numbers of who asked.
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
    let calendar = config.and_then(|config| config.calendar);
    let (Some(calendar), Ok(now)) = (calendar, u64::try_from(*now)) else {
        return Err(StoreError::unavailable(format!("redis: unknown reply {value:?}")));
    };
    Ok(Some(Missing { calendar, now }))
}

/// What there is to say when every attempt lacked windows.
fn unsteady() -> StoreError {
    StoreError::unavailable(
        "redis: the server's clock jumps, so no window of the calendar is found",
    )
}

impl RedisStore {
    /// Runs a script that answers a request, anew where it lacked the windows of the calendar.
    pub(super) async fn ask(
        &self,
        script: &Lazy<Script>,
        request: &Request<'_>,
        costs: &[u32],
    ) -> Result<Value, StoreError> {
        let calendars = [request.config.calendar, request.in_force];
        let mut windows = Windows { calendars, missing: None };
        for _ in 0..MOST_ATTEMPTS {
            let value = self.run(&Ask { script, request, costs, windows }).await?;
            windows.missing = missing(&value, Some(&request.config))?;
            if windows.missing.is_none() {
                return Ok(value);
            }
        }
        Err(unsteady())
    }

    /// Runs the script that gives permits back, likewise: it returns the outcome, how many there were
    /// to give back, and whether the rest takes another call.
    pub(super) async fn give_back(
        &self,
        keys: &StateKeys,
        permits: u64,
    ) -> Result<(u8, u64, u8), StoreError> {
        let mut windows = Windows::default();
        for _ in 0..MOST_ATTEMPTS {
            let words = vec![permits.to_string()];
            let value = self.run(&Tell { script: &RELEASE, keys, words, windows }).await?;
            windows.missing = missing(&value, None)?;
            if windows.missing.is_none() {
                return read(value);
            }
        }
        Err(unsteady())
    }
}
