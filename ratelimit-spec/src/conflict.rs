//! Settings that cannot apply together, as messages show them.

use std::fmt;

use crate::calendar::CalendarUnit;
use crate::duration::format_duration;

/// Settings that cannot apply together. Its [`Display`](fmt::Display) says what to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The setting at fault, then those that it conflicts with.
    pub settings: &'static [&'static str],
    /// Which of several limits is at fault, counted from 0.
    pub limit: Option<usize>,
    message: String,
}

impl Conflict {
    pub(crate) fn new(settings: &'static [&'static str], message: impl Into<String>) -> Self {
        Self { settings, limit: None, message: message.into() }
    }

    pub(crate) fn of_limit(limit: usize, message: String) -> Self {
        Self { settings: &["limits", "algorithm"], limit: Some(limit), message }
    }

    pub(crate) fn of_calendar(unit: CalendarUnit, algorithm: impl fmt::Display) -> Self {
        let message = format!(
            "calendar window `{unit}` requires `fixed_window`, but the algorithm is `{algorithm}`; write \
             `fixed_window`, or a length such as `{}`",
            format_duration(unit.nominal())
        );
        Self::new(&["per", "algorithm"], message)
    }

    pub(crate) fn combined(settings: &'static [&'static str; 2]) -> Self {
        let [one, other] = settings;
        Self::new(
            settings,
            format!("`{one}` cannot be combined with `{other}`; remove one of them"),
        )
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Conflict {}

/// Returns the message about a token bucket setting under another algorithm.
pub(crate) fn requires_a_bucket(name: &str, algorithm: impl fmt::Display) -> String {
    format!(
        "`{name}` requires `token_bucket`, but the algorithm is `{algorithm}`; set `algorithm` to `token_bucket`, or \
         remove `{name}`"
    )
}
