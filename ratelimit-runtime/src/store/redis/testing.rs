//! The scripts, for tests that call them with a time of their own.

use ratelimit_spec::Calendar;
use redis::{Cmd, Value};

use super::{
    read_replies,
    script::{Ask, PEEK, RELEASE, Tell, acquire},
    windows::{Windows, missing},
};
use crate::{
    StoreError,
    store::{Config, Reply, Request, StateKeys},
};

/// A call of the script `acquire` or `peek` as the runtime makes it, for tests that append a time of
/// their own or run it by the thousand. `since_us` is since when the process has its configuration.
#[must_use]
pub fn script_call(
    name: &str,
    request: &Request<'_>,
    costs: &[u32],
    since_us: u64,
    by_name: bool,
) -> Cmd {
    let script = if name == "peek" { &PEEK } else { acquire(&request.config) };
    Ask { script, request, costs, windows: Windows::default() }.since(since_us, by_name)
}

/// A call that gives permits back, for tests that append a time of their own.
#[must_use]
pub fn script_release(keys: &StateKeys, permits: u32) -> Cmd {
    // The time comes after as many arguments as the longest call has.
    let mut words = vec![permits.to_string()];
    words.resize(9, String::new());
    Tell { script: &RELEASE, keys, words, windows: Windows::default() }.by_text()
}

/// What comes after the time in such a call: the windows of calendars.
#[derive(Debug, Default)]
pub struct CalendarCall(Windows);

impl CalendarCall {
    /// A call by a process of this calendar, and by one that found another in force.
    #[must_use]
    pub fn new(own: Option<Calendar>, in_force: Option<Calendar>) -> Self {
        Self(Windows { calendars: [own, in_force], missing: None })
    }

    /// Appends the time that is to be the server's, and the windows around what the process takes for
    /// it.
    pub fn append(&self, call: &mut Cmd, now: u64, guess: u64) {
        call.arg(now);
        self.0.append(call, 10, || guess);
    }

    /// Whether the script lacked windows, which the next call takes along then.
    ///
    /// # Errors
    ///
    /// When they are of a calendar that nobody knows.
    pub fn lacks(&mut self, value: &Value, own: Option<&Config>) -> Result<bool, StoreError> {
        self.0.missing = missing(value, own)?;
        Ok(self.0.missing.is_some())
    }
}

/// What the answer to such a call by a process with these numbers says.
///
/// # Errors
///
/// As for the call itself.
pub fn script_replies(
    name: &str,
    value: &Value,
    own: &Config,
    costs: &[u32],
) -> Result<Vec<Reply>, StoreError> {
    read_replies(value, costs, name != "peek", own)
}
