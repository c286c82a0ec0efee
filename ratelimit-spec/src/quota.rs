//! The quota of a limit: permits, window and algorithm.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::calendar::{Calendar, TimeZone};
use crate::conflict::Conflict;
use crate::duration::{MAX_PER, MIN_PER, format_duration, parse_duration};
use crate::quote::Quoted;
use crate::rule::Rule;
use crate::words::{MAX_RATE, WordError};

/// The most limits on one key.
pub const MAX_LIMITS: usize = 8;

/// The numbers of one limit. The attribute, the limits file, code and the stores all build this type.
///
/// A store may hold a rate of 0, which rejects every call, or one beyond [`MAX_RATE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    /// Permits per window.
    pub rate: u64,
    /// The length of the window; of a calendar window, its usual length.
    pub per: Duration,
    /// How permits are counted.
    pub rule: Rule,
}

impl Quota {
    /// Creates a sliding window.
    ///
    /// # Errors
    ///
    /// Returns an error if `rate` is not in 1 to [`MAX_RATE`], or `per` not a whole number of
    /// milliseconds from [`MIN_PER`] to [`MAX_PER`].
    pub fn new(rate: u64, per: Duration) -> Result<Self, QuotaError> {
        let rate = u64::from(check_number("rate", rate.into())?);
        if per < MIN_PER || per > MAX_PER || !per.subsec_nanos().is_multiple_of(1_000_000) {
            let (least, most) = (format_duration(MIN_PER), format_duration(MAX_PER));
            let advice = format!("use whole milliseconds from {least} to {most}");
            return Err(QuotaError(format!("window {per:?} is not supported; {advice}")));
        }
        Ok(Self { rate, per, rule: Rule::SlidingWindow })
    }

    /// Creates fixed windows of a calendar.
    ///
    /// # Errors
    ///
    /// Returns an error if `rate` is not in 1 to [`MAX_RATE`].
    pub fn of_calendar(rate: u64, calendar: Calendar) -> Result<Self, QuotaError> {
        let rule = Rule::FixedWindow { calendar: Some(calendar) };
        let rate = u64::from(check_number("rate", rate.into())?);
        Ok(Self { rate, per: calendar.unit.nominal(), rule })
    }

    /// Returns a token bucket with the same rate and window.
    ///
    /// # Errors
    ///
    /// Returns an error if `burst` is not in 1 to [`MAX_RATE`], the bucket is too large to be counted
    /// exactly, or the windows are those of a calendar.
    pub fn token_bucket(self, burst: u64) -> Result<Self, QuotaError> {
        let burst = check_number("burst", burst.into())?;
        self.counted_by(Rule::TokenBucket { burst })
    }

    /// Returns the same rate and window under another rule.
    ///
    /// # Errors
    ///
    /// Returns an error if the rule cannot count these numbers exactly, or the windows are those of a
    /// calendar.
    pub fn counted_by(self, rule: Rule) -> Result<Self, QuotaError> {
        if let Some(Calendar { unit, .. }) = self.rule.calendar() {
            return Err(Conflict::of_calendar(unit, rule.algorithm()).into());
        }
        rule.check(self.rate, self.per)?;
        Ok(Self { rule, ..self })
    }

    /// Returns fixed windows with the same rate; calendar windows stay unchanged.
    #[must_use]
    pub fn fixed_window(self) -> Self {
        Self { rule: Rule::FixedWindow { calendar: self.rule.calendar() }, ..self }
    }

    /// Returns the most permits that one request can get.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.rule.capacity(self.rate)
    }

    /// Shows rate and window without the rule.
    pub(crate) fn in_short(&self) -> String {
        format!("{} per {}", self.rate, format_duration(self.per))
    }
}

/// Checks a rate, a burst or a number of permits, by the name of the setting.
///
/// # Errors
///
/// Returns an error if it is not in 1 to [`MAX_RATE`].
pub fn check_number(name: &str, number: i128) -> Result<u32, QuotaError> {
    let wrong = match u32::try_from(number) {
        // A call for 0 permits is free, but an annotation with it would limit nothing.
        Ok(0) if name == "permits" => "0",
        Ok(0) => "0, which rejects every call",
        Ok(number @ 1..=MAX_RATE) => return Ok(number),
        _ if number < 0 => "negative",
        _ => "too large",
    };
    Err(QuotaError(format!("`{name}` is {wrong}; write a number from 1 to {MAX_RATE}")))
}

/// Checks how many limits a key has.
///
/// # Errors
///
/// Returns an error if there are none, or more than [`MAX_LIMITS`].
pub fn check_count(limits: usize) -> Result<(), QuotaError> {
    match limits {
        1..=MAX_LIMITS => Ok(()),
        _ => Err(QuotaError(format!("`limits` has {limits} entries; write 1 to {MAX_LIMITS}"))),
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Calendar { unit, zone }) = self.rule.calendar() {
            return write!(f, "{} per {unit} ({zone})", self.rate);
        }
        f.write_str(&self.in_short())?;
        match self.rule {
            Rule::SlidingWindow => Ok(()),
            Rule::TokenBucket { burst } => write!(f, ", {BUCKET_OF}{burst}"),
            Rule::WarmingBucket { warm_up } => {
                write!(f, ", {WARMING_BUCKET}{}", format_duration(warm_up))
            }
            Rule::FixedWindow { .. } => write!(f, ", {FIXED_WINDOW}"),
            Rule::LeakyBucket => write!(f, ", {LEAKY_BUCKET}"),
        }
    }
}

const BUCKET_OF: &str = "token bucket of ";
const WARMING_BUCKET: &str = "token bucket that warms up in ";
const FIXED_WINDOW: &str = "fixed window";
const LEAKY_BUCKET: &str = "leaky bucket";

impl FromStr for Quota {
    type Err = QuotaError;

    /// Parses the output of [`Display`](fmt::Display).
    fn from_str(text: &str) -> Result<Self, QuotaError> {
        let unreadable = || {
            let example = "`100 per 1s` or `100 per 1s, token bucket of 500`";
            QuotaError(format!("{} is not a quota; write one such as {example}", Quoted(text)))
        };
        let (rate, rest) = text.split_once(" per ").ok_or_else(unreadable)?;
        let number = |name: &str, text: &str| {
            check_number(name, text.parse().map_err(|_| unreadable())?).map(u64::from)
        };
        let rate = number("rate", rate)?;
        let (per, rule) = match rest.split_once(", ") {
            Some((per, rule)) => (per, Some(rule)),
            None => (rest, None),
        };
        if let Some((unit, zone)) = per.split_once(" (") {
            let zone = zone.strip_suffix(')').filter(|_| rule.is_none()).ok_or_else(unreadable)?;
            let (unit, zone) = (unit.parse()?, zone.parse()?);
            return Self::of_calendar(rate, Calendar { unit, zone });
        }
        let duration =
            |text: &str| parse_duration(text).map_err(|error| WordError::new(error.to_string()));
        let quota = Self::new(rate, duration(per)?)?;
        let Some(rule) = rule else { return Ok(quota) };
        if let Some(burst) = rule.strip_prefix(BUCKET_OF) {
            quota.token_bucket(number("burst", burst)?)
        } else if let Some(warm_up) = rule.strip_prefix(WARMING_BUCKET) {
            quota.counted_by(Rule::WarmingBucket { warm_up: duration(warm_up)? })
        } else if rule == FIXED_WINDOW {
            Ok(quota.fixed_window())
        } else if rule == LEAKY_BUCKET {
            quota.counted_by(Rule::LeakyBucket)
        } else {
            Err(unreadable())
        }
    }
}

/// Numbers that cannot be a quota. Its [`Display`](fmt::Display) says what to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaError(String);

impl QuotaError {
    pub(crate) fn alone(quota: Quota) -> Self {
        Self(format!(
            "`{quota}` cannot be combined with other limits; use a quota without a calendar window or warm-up"
        ))
    }
}

impl From<WordError> for QuotaError {
    fn from(error: WordError) -> Self {
        Self(error.to_string())
    }
}

impl From<Conflict> for QuotaError {
    fn from(conflict: Conflict) -> Self {
        Self(conflict.to_string())
    }
}

impl fmt::Display for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for QuotaError {}

/// Reads a time zone, for a calendar window.
///
/// # Errors
///
/// Returns an error if the IANA database has no such zone.
pub fn time_zone(name: &str) -> Result<TimeZone, QuotaError> {
    Ok(name.parse::<TimeZone>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_its_text_and_back() {
        for text in [
            "100 per 1s",
            "1 per 366d",
            "100 per 1h30m, token bucket of 500",
            "100 per 1s, token bucket that warms up in 4s",
            "100 per 1s, leaky bucket",
            "2147483647 per 1ms, fixed window",
            "1000 per day (Europe/Vienna)",
            "1000 per month (Etc/GMT+5)",
        ] {
            assert_eq!(text.parse::<Quota>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_text_that_is_no_quota_says_what_to_write() {
        let example = "write one such as `100 per 1s` or `100 per 1s, token bucket of 500`";
        for (text, expected) in [
            ("100/1s", format!("`100/1s` is not a quota; {example}")),
            ("1.5 per 1s", format!("`1.5 per 1s` is not a quota; {example}")),
            ("-1 per 1s", "`rate` is negative; write a number from 1 to 2147483647".to_owned()),
            (
                "99999999999999999999 per 1s",
                "`rate` is too large; write a number from 1 to 2147483647".to_owned(),
            ),
            (
                "1 per 1s, token bucket of 99999999999999999999",
                "`burst` is too large; write a number from 1 to 2147483647".to_owned(),
            ),
            ("1 per 1s, bucket", format!("`1 per 1s, bucket` is not a quota; {example}")),
            (
                "1 per day (UTC), leaky bucket",
                format!("`1 per day (UTC), leaky bucket` is not a quota; {example}"),
            ),
            (
                "0 per 1s",
                "`rate` is 0, which rejects every call; write a number from 1 to 2147483647"
                    .to_owned(),
            ),
            ("1 per 60", "missing unit in `60`; write `60ms`, `60s`, `60m`, `60h` or `60d`".into()),
            (
                "1 per day (Europe/Viena)",
                "unknown time zone `Europe/Viena`; did you mean `Europe/Vienna`?".into(),
            ),
            (
                "1 per 1s, token bucket of 0",
                "`burst` is 0, which rejects every call; write a number from 1 to 2147483647"
                    .into(),
            ),
        ] {
            assert_eq!(text.parse::<Quota>().unwrap_err().to_string(), expected);
        }
    }
}
