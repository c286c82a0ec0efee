//! The numbers of a limit: how many permits, in what time, and how they are counted.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::algorithm::Algorithm;
use crate::calendar::{Calendar, CalendarUnit, TimeZone};
use crate::duration::{MAX_PER, MIN_PER, format_duration, parse_duration};
use crate::quote::Quoted;
use crate::rule::{Rule, RuleError};
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
    /// A sliding window.
    ///
    /// # Errors
    ///
    /// Returns an error if `rate` is not in 1 to [`MAX_RATE`], or `per` not a whole number of
    /// milliseconds from [`MIN_PER`] to [`MAX_PER`].
    pub fn new(rate: u64, per: Duration) -> Result<Self, QuotaError> {
        let rate = checked(rate)?;
        if per < MIN_PER || per > MAX_PER || !per.subsec_nanos().is_multiple_of(1_000_000) {
            return Err(QuotaError(Wrong::Window(per)));
        }
        Ok(Self { rate, per, rule: Rule::SlidingWindow })
    }

    /// Fixed windows of a calendar.
    ///
    /// # Errors
    ///
    /// Returns an error if `rate` is not in 1 to [`MAX_RATE`].
    pub fn of_calendar(rate: u64, calendar: Calendar) -> Result<Self, QuotaError> {
        let rule = Rule::FixedWindow { calendar: Some(calendar) };
        Ok(Self { rate: checked(rate)?, per: calendar.unit.nominal(), rule })
    }

    /// A token bucket with the same rate and window.
    ///
    /// # Errors
    ///
    /// Returns an error if `burst` is not in 1 to [`MAX_RATE`], the bucket is too large to be counted
    /// exactly, or the windows are those of a calendar.
    pub fn token_bucket(self, burst: u64) -> Result<Self, QuotaError> {
        match u32::try_from(burst) {
            Ok(0) => Err(QuotaError(Wrong::NoBurst)),
            Ok(burst @ 1..=MAX_RATE) => self.counted_by(Rule::TokenBucket { burst }),
            _ => Err(QuotaError(Wrong::HighBurst(burst))),
        }
    }

    /// Another rule with the same rate and window.
    ///
    /// # Errors
    ///
    /// Returns an error if the rule cannot count these numbers exactly, or the windows are those of a
    /// calendar.
    pub fn counted_by(self, rule: Rule) -> Result<Self, QuotaError> {
        if let Some(Calendar { unit, .. }) = self.rule.calendar() {
            return Err(QuotaError(Wrong::Calendar(unit, rule.algorithm())));
        }
        rule.check(self.rate, self.per).map_err(|error| QuotaError(Wrong::Rule(error)))?;
        Ok(Self { rule, ..self })
    }

    /// Fixed windows with the same rate; calendar windows stay what they are.
    #[must_use]
    pub fn fixed_window(self) -> Self {
        Self { rule: Rule::FixedWindow { calendar: self.rule.calendar() }, ..self }
    }

    /// The most permits one request can get.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.rule.capacity(self.rate)
    }

    /// Rate and window without the rule.
    pub(crate) fn in_short(&self) -> impl fmt::Display {
        format!("{} per {}", self.rate, format_duration(self.per))
    }
}

fn checked(rate: u64) -> Result<u64, QuotaError> {
    match rate {
        0 => Err(QuotaError(Wrong::NoRate)),
        _ if rate <= MAX_RATE.into() => Ok(rate),
        _ => Err(QuotaError(Wrong::HighRate(rate))),
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Calendar { unit, zone }) = self.rule.calendar() {
            return write!(f, "{} per {unit} ({zone})", self.rate);
        }
        write!(f, "{}", self.in_short())?;
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

    /// Reads what [`Display`](fmt::Display) writes.
    fn from_str(text: &str) -> Result<Self, QuotaError> {
        let unreadable = || QuotaError(Wrong::Text(text.to_owned()));
        let (rate, rest) = text.split_once(" per ").ok_or_else(unreadable)?;
        let rate = rate.parse().map_err(|_| unreadable())?;
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
            quota.token_bucket(burst.parse().map_err(|_| unreadable())?)
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
pub struct QuotaError(Wrong);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Wrong {
    NoRate,
    HighRate(u64),
    Window(Duration),
    NoBurst,
    HighBurst(u64),
    Rule(RuleError),
    Word(WordError),
    Calendar(CalendarUnit, Algorithm),
    Text(String),
    NoLimits,
    TooManyLimits,
    Together(LimitProblem),
    Alone(Quota),
}

impl QuotaError {
    pub(crate) fn no_limits() -> Self {
        Self(Wrong::NoLimits)
    }

    pub(crate) fn too_many_limits() -> Self {
        Self(Wrong::TooManyLimits)
    }

    pub(crate) fn together(problem: LimitProblem) -> Self {
        Self(Wrong::Together(problem))
    }

    pub(crate) fn alone(quota: Quota) -> Self {
        Self(Wrong::Alone(quota))
    }
}

impl From<WordError> for QuotaError {
    fn from(error: WordError) -> Self {
        Self(Wrong::Word(error))
    }
}

impl fmt::Display for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Wrong::NoRate => write!(f, "rate 0 rejects every call; use 1 to {MAX_RATE} permits"),
            Wrong::HighRate(rate) => {
                write!(f, "rate {rate} is too large; use 1 to {MAX_RATE} permits")
            }
            Wrong::Window(per) => write!(
                f,
                "window {per:?} is not supported; use whole milliseconds from {} to {}",
                format_duration(MIN_PER),
                format_duration(MAX_PER)
            ),
            Wrong::NoBurst => write!(f, "burst 0 rejects every call; use 1 to {MAX_RATE} permits"),
            Wrong::HighBurst(burst) => {
                write!(f, "burst {burst} is too large; use 1 to {MAX_RATE} permits")
            }
            Wrong::Rule(error) => error.fmt(f),
            Wrong::Word(error) => error.fmt(f),
            Wrong::Calendar(unit, algorithm) => write!(
                f,
                "calendar window `{unit}` requires `fixed_window`, not `{algorithm}`; use a length \
                 with `Quota::new`"
            ),
            Wrong::Text(text) => write!(
                f,
                "{} is not a quota; write one such as `100 per 1s` or `100 per 1s, token bucket of \
                 500`",
                Quoted(text)
            ),
            Wrong::NoLimits => f.write_str("there is no limit; use at least 1"),
            Wrong::TooManyLimits => write!(f, "too many limits; use at most {MAX_LIMITS}"),
            Wrong::Together(problem) => problem.fmt(f),
            Wrong::Alone(quota) => write!(
                f,
                "`{quota}` cannot be combined with other limits; use a quota without a calendar \
                 window or warm-up"
            ),
        }
    }
}

impl std::error::Error for QuotaError {}

/// A limit that cannot stand beside the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitProblem {
    /// Which of the limits, counted from 0.
    pub index: usize,
    message: String,
}

impl LimitProblem {
    pub(crate) fn new(index: usize, message: String) -> Self {
        Self { index, message }
    }
}

impl fmt::Display for LimitProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for LimitProblem {}

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
            ("-1 per 1s", format!("`-1 per 1s` is not a quota; {example}")),
            ("1 per 1s, bucket", format!("`1 per 1s, bucket` is not a quota; {example}")),
            (
                "1 per day (UTC), leaky bucket",
                format!("`1 per day (UTC), leaky bucket` is not a quota; {example}"),
            ),
            ("0 per 1s", "rate 0 rejects every call; use 1 to 2147483647 permits".to_owned()),
            ("1 per 60", "missing unit in `60`; write `60s`, or use `d`, `h`, `m` or `ms`".into()),
            (
                "1 per day (Europe/Viena)",
                "unknown time zone `Europe/Viena`; did you mean `Europe/Vienna`?".into(),
            ),
            (
                "1 per 1s, token bucket of 0",
                "burst 0 rejects every call; use 1 to 2147483647 permits".into(),
            ),
        ] {
            assert_eq!(text.parse::<Quota>().unwrap_err().to_string(), expected);
        }
    }
}
