//! The window of a limiter: a fixed length or a calendar unit.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::calendar::CalendarUnit;
use crate::duration::{format_duration, parse_duration};
use crate::quote::{Quoted, either};
use crate::suggest::nearest;
use crate::words::WordError;

/// A window: a fixed length such as `1d` (24 hours), or a calendar unit such as `day`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Per {
    /// The length; of a unit, the usual one.
    pub length: Duration,
    /// The unit, when it is one.
    pub unit: Option<CalendarUnit>,
}

impl FromStr for Per {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Self, WordError> {
        if let Ok(unit) = text.parse::<CalendarUnit>() {
            unit.check_feature()?;
            return Ok(Self { length: unit.nominal(), unit: Some(unit) });
        }
        let length = parse_duration(text).map_err(|error| {
            WordError::new(match advice(text) {
                Some(advice) => format!("unknown `per` value {}; {advice}", Quoted(text)),
                None => error.to_string(),
            })
        })?;
        Ok(Self { length, unit: None })
    }
}

/// Suggests a replacement for an English word such as `daily`, or for a misspelled unit.
fn advice(text: &str) -> Option<String> {
    let (length, unit) = match text.to_ascii_lowercase().as_str() {
        "second" | "seconds" | "secondly" => {
            return Some("write a duration such as `1s`".to_owned());
        }
        "minutely" => ("1m", CalendarUnit::Minute),
        "hourly" => ("1h", CalendarUnit::Hour),
        "daily" => ("1d", CalendarUnit::Day),
        "weekly" => ("7d", CalendarUnit::Week),
        "monthly" => ("30d", CalendarUnit::Month),
        _ => {
            if !text.starts_with(char::is_alphabetic) {
                return None;
            }
            return Some(match nearest(text, CalendarUnit::WORDS.iter().copied()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!(
                    "write a duration such as `1h30m`, or {} for a calendar window",
                    either(CalendarUnit::WORDS)
                ),
            });
        }
    };
    Some(format!("write `{length}`, or `{unit}` for a calendar window"))
}

impl fmt::Display for Per {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.unit {
            Some(unit) => f.write_str(unit.as_str()),
            None => f.write_str(&format_duration(self.length)),
        }
    }
}

impl Per {
    /// Parses the window of one of several limits, which is a length.
    ///
    /// # Errors
    ///
    /// Returns an error if it is a calendar unit, or not a duration.
    pub fn parse_length(text: &str) -> Result<Duration, WordError> {
        if let Ok(unit) = text.parse::<CalendarUnit>() {
            let length = format_duration(unit.nominal());
            return Err(WordError::new(format!(
                "calendar window `{unit}` cannot be used in `limits`; write a length such as `{length}`"
            )));
        }
        parse_duration(text).map_err(|error| WordError::new(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn per_is_a_length_or_a_unit() {
        let day: Per = "day".parse().unwrap();
        assert_eq!((day.unit, day.to_string()), (Some(CalendarUnit::Day), "day".to_owned()));
        let length: Per = "1d".parse().unwrap();
        assert_eq!((length.unit, length.length), (None, day.length));
        let error = |text: &str| text.parse::<Per>().unwrap_err().to_string();
        assert_eq!(error("dya"), "unknown `per` value `dya`; did you mean `day`?");
        assert_eq!(
            error("daily"),
            "unknown `per` value `daily`; write `1d`, or `day` for a calendar window"
        );
        assert_eq!(
            error("year"),
            "unknown `per` value `year`; write a duration such as `1h30m`, or `minute`, `hour`, `day`, \
             `week` or `month` for a calendar window"
        );
        assert_eq!(error(" day"), parse_duration(" day").unwrap_err().to_string());
    }
}
