//! Durations as people write them: `500ms`, `1s`, `1h30m`.
//!
//! One grammar for the attribute and the limits file: whole numbers with a unit, the units getting
//! smaller from left to right. There is no sign, no fraction, no space and no default unit: a bare
//! `60` has been read as seconds, minutes and milliseconds by different programs, and the limit is
//! then silently wrong by a large factor.

use std::fmt;
use std::time::Duration;

use crate::quote::{Quoted, either};

/// The shortest duration: limiters count in milliseconds.
pub const MIN_PER: Duration = Duration::from_millis(1);

/// The longest duration: 366 days, a leap year.
pub const MAX_PER: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// The units and their milliseconds, the longest first.
const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Parses a duration such as `500ms`, `1s` or `1h30m`.
///
/// # Errors
///
/// Returns an error if the text is not of that form, or the duration is shorter than [`MIN_PER`] or
/// longer than [`MAX_PER`]. The error's text says what to write.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use ratelimit_spec::parse_duration;
///
/// assert_eq!(parse_duration("1h30m"), Ok(Duration::from_secs(5400)));
/// assert_eq!(
///     parse_duration("60").unwrap_err().to_string(),
///     "missing unit in `60`; write `60ms`, `60s`, `60m`, `60h` or `60d`",
/// );
/// ```
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let error = |kind| Err(DurationError { text: text.to_owned(), kind });
    // Zero needs no unit to be too short.
    if !text.is_empty() && text.bytes().all(|byte| byte == b'0') {
        return error(Kind::TooShort);
    }
    match parse_any(text)? {
        short if short < MIN_PER => error(Kind::TooShort),
        long if long > MAX_PER => error(Kind::TooLong),
        duration => Ok(duration),
    }
}

/// Parses a duration of any length.
pub(crate) fn parse_any(text: &str) -> Result<Duration, DurationError> {
    let error = |kind| DurationError { text: text.to_owned(), kind };
    if text.is_empty() {
        return Err(error(Kind::Empty));
    }
    let mut rest = text;
    let mut total: u64 = 0;
    let mut larger_units: &[(&str, u64)] = &[];
    while !rest.is_empty() {
        let (amount, unit, after) = split_term(rest).map_err(&error)?;
        let index = UNITS
            .iter()
            .position(|&(name, _)| name == unit)
            .ok_or_else(|| error(Kind::UnknownUnit(unit.to_owned())))?;
        if index < larger_units.len() {
            return Err(error(Kind::Order));
        }
        larger_units = &UNITS[..=index];
        // A sum that overflows is too long in any case, so it may saturate.
        total = total.saturating_add(amount.saturating_mul(UNITS[index].1));
        rest = after;
    }
    Ok(Duration::from_millis(total))
}

/// Splits `90m30s` into 90, `m` and `30s`.
fn split_term(text: &str) -> Result<(u64, &str, &str), Kind> {
    let n_digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, rest) = text.split_at(n_digits);
    let n_letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
    let (unit, after) = rest.split_at(n_letters);
    match rest.chars().next() {
        _ if digits.is_empty() => Err(Kind::Unexpected(text.chars().next().unwrap_or_default())),
        None => Err(Kind::NoUnit),
        Some('.' | ',') => Err(Kind::Fraction),
        Some(c) if unit.is_empty() => Err(Kind::Unexpected(c)),
        Some(_) => Ok((digits.parse().unwrap_or(u64::MAX), unit, after)),
    }
}

/// Returns a regular expression for durations of any length and for some words; empty text matches too.
pub(crate) fn pattern(words: &[&str]) -> String {
    let terms: String = UNITS.iter().map(|(unit, _)| format!("([0-9]+{unit})?")).collect();
    let words: String = words.iter().map(|word| format!("|{word}")).collect();
    format!("^({terms}{words})$")
}

/// Writes a duration the way [`parse_duration`] reads it, with the largest units that fit: `1h30m`,
/// not `90m`.
///
/// Parts of a millisecond are dropped; zero is `0s`.
#[must_use]
pub fn format_duration(duration: Duration) -> String {
    let mut rest = duration.as_millis();
    let mut text = String::new();
    for (unit, millis) in UNITS {
        let amount = rest / u128::from(millis);
        if amount > 0 {
            text.push_str(&format!("{amount}{unit}"));
        }
        rest %= u128::from(millis);
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// A text that is not a duration. Its [`Display`](fmt::Display) says why and what to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurationError {
    text: String,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Empty,
    NoUnit,
    UnknownUnit(String),
    Fraction,
    Unexpected(char),
    Order,
    TooShort,
    TooLong,
}

impl fmt::Display for DurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = Quoted(&self.text);
        match &self.kind {
            Kind::Empty => {
                f.write_str("empty duration; write a duration such as `500ms`, `1s` or `1h30m`")
            }
            Kind::NoUnit => {
                let with_unit = UNITS.iter().rev().map(|(unit, _)| format!("{}{unit}", self.text));
                let valid: Vec<String> = with_unit
                    .filter(|text| text.len() < 32 && parse_duration(text).is_ok())
                    .collect();
                let valid: Vec<&str> = valid.iter().map(String::as_str).collect();
                match valid.is_empty() {
                    true => write!(f, "missing unit in {text}; write a duration such as `1h30m`"),
                    false => write!(f, "missing unit in {text}; write {}", either(&valid)),
                }
            }
            Kind::UnknownUnit(unit) => {
                write!(f, "unknown unit {} in {text}; ", Quoted(unit))?;
                match spelled_out(unit) {
                    Some(known) => write!(f, "did you mean `{known}`?"),
                    None => f.write_str("expected `d`, `h`, `m`, `s` or `ms`"),
                }
            }
            Kind::Fraction => write!(
                f,
                "{text} has a fraction; write whole numbers, such as `1s500ms` or `1h30m`"
            ),
            Kind::Unexpected(c) => write!(
                f,
                "unexpected {} in {text}; write a duration such as `500ms`, `1s` or `1h30m`",
                Quoted(c.encode_utf8(&mut [0; 4])),
            ),
            Kind::Order => write!(
                f,
                "units out of order in {text}; write the largest unit first, such as `1h30m`"
            ),
            Kind::TooShort => write!(f, "{text} is too short; write at least `1ms`"),
            Kind::TooLong => write!(f, "{text} is too long; write at most `366d`"),
        }
    }
}

impl DurationError {
    /// Returns whether the duration is zero.
    pub(crate) fn is_too_short(&self) -> bool {
        self.kind == Kind::TooShort
    }

    /// Returns whether the text ends with a number.
    pub(crate) fn lacks_unit(&self) -> bool {
        self.kind == Kind::NoUnit
    }
}

impl std::error::Error for DurationError {}

/// Returns the unit for a word that is spelled out or capitalized.
///
/// # Examples
///
/// ```
/// use ratelimit_spec::duration::spelled_out;
///
/// assert_eq!(spelled_out("Minutes"), Some("m"));
/// assert_eq!(spelled_out("week"), None);
/// ```
#[must_use]
pub fn spelled_out(unit: &str) -> Option<&'static str> {
    let unit = unit.to_ascii_lowercase();
    Some(match unit.as_str() {
        "d" | "day" | "days" => "d",
        "h" | "hr" | "hrs" | "hour" | "hours" => "h",
        "m" | "min" | "mins" | "minute" | "minutes" => "m",
        "s" | "sec" | "secs" | "second" | "seconds" => "s",
        "ms" | "msec" | "msecs" | "milli" | "millis" | "millisecond" | "milliseconds" => "ms",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{MAX_PER, MIN_PER, format_duration, parse_duration};
    use std::time::Duration;

    #[test]
    fn well_formed_durations_are_read() {
        for (text, millis) in [
            ("1ms", 1),
            ("500ms", 500),
            ("1s", 1_000),
            ("007s", 7_000),
            ("90m", 5_400_000),
            ("1h30m", 5_400_000),
            ("1d2h3m4s5ms", 93_784_005),
            ("1d5ms", 86_400_005),
            ("0s1ms", 1),
            ("366d", 31_622_400_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(parse_duration("1ms"), Ok(MIN_PER));
        assert_eq!(parse_duration("366d"), Ok(MAX_PER));
    }

    #[test]
    fn a_bad_duration_says_what_to_write() {
        let order = "write the largest unit first, such as `1h30m`";
        for (text, message) in [
            ("", "empty duration; write a duration such as `500ms`, `1s` or `1h30m`".into()),
            ("0", "`0` is too short; write at least `1ms`".into()),
            ("60", "missing unit in `60`; write `60ms`, `60s`, `60m`, `60h` or `60d`".into()),
            ("999", "missing unit in `999`; write `999ms`, `999s`, `999m` or `999h`".into()),
            ("1h30", "missing unit in `1h30`; write `1h30ms`, `1h30s` or `1h30m`".into()),
            ("1s5ms5", "missing unit in `1s5ms5`; write a duration such as `1h30m`".into()),
            ("5sec", "unknown unit `sec` in `5sec`; did you mean `s`?".into()),
            ("5M", "unknown unit `M` in `5M`; did you mean `m`?".into()),
            ("1e9s", "unknown unit `e` in `1e9s`; expected `d`, `h`, `m`, `s` or `ms`".into()),
            ("1w", "unknown unit `w` in `1w`; expected `d`, `h`, `m`, `s` or `ms`".into()),
            ("100us", "unknown unit `us` in `100us`; expected `d`, `h`, `m`, `s` or `ms`".into()),
            (
                "1.5h",
                "`1.5h` has a fraction; write whole numbers, such as `1s500ms` or `1h30m`".into(),
            ),
            ("-1s", unexpected("-", "-1s")),
            ("+1s", unexpected("+", "+1s")),
            (" 1s", unexpected(" ", " 1s")),
            ("1 s", unexpected(" ", "1 s")),
            ("1s ", unexpected(" ", "1s ")),
            ("1s\n", unexpected("\\n", "1s\\n")),
            ("1:30", unexpected(":", "1:30")),
            ("100µs", unexpected("µ", "100µs")),
            ("１s", unexpected("１", "１s")),
            ("s", unexpected("s", "s")),
            ("30m1h", format!("units out of order in `30m1h`; {order}")),
            ("1h1h", format!("units out of order in `1h1h`; {order}")),
            ("0s", "`0s` is too short; write at least `1ms`".into()),
            ("367d", "`367d` is too long; write at most `366d`".into()),
            ("366d1ms", "`366d1ms` is too long; write at most `366d`".into()),
            (
                "99999999999999999999d",
                "`99999999999999999999d` is too long; write at most `366d`".into(),
            ),
        ] {
            let found =
                parse_duration(text).err().map(|error| error.to_string()).unwrap_or_default();
            assert_eq!(found, message, "{text:?}");
        }
    }

    fn unexpected(c: &str, text: &str) -> String {
        format!("unexpected `{c}` in `{text}`; write a duration such as `500ms`, `1s` or `1h30m`")
    }

    #[test]
    fn durations_are_written_in_the_largest_units() {
        for (millis, text) in [
            (0, "0s"),
            (1, "1ms"),
            (1_000, "1s"),
            (1_500, "1s500ms"),
            (90_000, "1m30s"),
            (5_400_000, "1h30m"),
            (86_400_000, "1d"),
            (93_784_005, "1d2h3m4s5ms"),
        ] {
            assert_eq!(format_duration(Duration::from_millis(millis)), text);
        }
        assert_eq!(format_duration(Duration::from_micros(1_999)), "1ms");
        assert_eq!(format_duration(Duration::MAX), "213503982334601d7h15s999ms");
    }
}
