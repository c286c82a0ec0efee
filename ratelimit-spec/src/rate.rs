//! Rates in the notations of other tools, for messages that say what to write instead.

use crate::duration::{parse_duration, spelled_out};
use crate::words::MAX_RATE;

/// Returns the rate and the window of a quota in one text.
///
/// # Examples
///
/// ```
/// use ratelimit_spec::rate::quota_in;
///
/// for text in ["100/s", "100r/s", "100 / 1s", "100 per second"] {
///     assert_eq!(quota_in(text), Some((100, "1s".to_owned())));
/// }
/// assert_eq!(quota_in("100"), None);
/// ```
#[must_use]
pub fn quota_in(text: &str) -> Option<(u32, String)> {
    let (rate, per) = text.split_once('/').or_else(|| text.split_once(" per "))?;
    let unit = ["requests", "req", "r"].iter().find_map(|unit| rate.trim().strip_suffix(unit));
    let (rate, per) = (unit.unwrap_or(rate).trim().parse().ok()?, per.trim());
    let per = spelled_out(per).unwrap_or(per);
    let written = [per.to_owned(), format!("1{per}")];
    let per = written.into_iter().find(|per| parse_duration(per).is_ok())?;
    Some((rate, per)).filter(|(rate, _)| (1..=MAX_RATE).contains(rate))
}

/// Returns the whole rate for a fraction, and by how much its window is longer: 0.5 is 1 in a window that is 2 times as
/// long.
#[must_use]
pub fn whole_rate(fraction: f64) -> Option<(u32, u32)> {
    let whole = |times: u32| {
        let rate = fraction * f64::from(times);
        let digits = rate.round().to_string().parse().ok()?;
        let is_whole = (rate - rate.round()).abs() < 1e-9 && (1..=MAX_RATE).contains(&digits);
        is_whole.then_some((digits, times))
    };
    (2..=1000).find_map(whole)
}
