//! The bounds of program-wide settings, and of the number of limiters.

use std::time::Duration;

use super::shape::Shape;
use crate::duration::format_duration;

const MIN_DEADLINE: Duration = Duration::from_millis(1);
const MAX_DEADLINE: Duration = Duration::from_secs(60);

/// The greatest revision, 2^53 − 1: the greatest integer that is exact in the scripts of a store and in JSON.
const MAX_REVISION: u64 = (1 << 53) - 1;

pub(super) const REVISION: Shape = Shape::Number(0, "", MAX_REVISION);

/// Checks a revision. A message says what to write.
///
/// # Errors
///
/// Returns an error if it is above 2^53 − 1.
pub fn check_revision(revision: u64) -> Result<(), String> {
    match revision {
        0..=MAX_REVISION => Ok(()),
        _ => Err(format!("`revision` cannot be `{revision}`; write {}", REVISION.expected())),
    }
}

/// The largest `max_remembered`: about 30 GB of limiters.
const MAX_REMEMBERED: u32 = 100_000_000;

/// The largest `max_keys`.
pub(super) const MAX_KEYS: u32 = MAX_REMEMBERED;

pub(super) const REMEMBERED: Shape = Shape::Number(1, "", MAX_REMEMBERED as u64);

/// Checks how many limiters a process remembers. A message says what to write.
///
/// # Errors
///
/// Returns an error if it is not in 1 to 10^8.
pub fn check_max_remembered(limiters: usize) -> Result<(), String> {
    match u32::try_from(limiters) {
        Ok(1..=MAX_REMEMBERED) => Ok(()),
        _ => {
            Err(format!("`max_remembered` cannot be `{limiters}`; write {}", REMEMBERED.expected()))
        }
    }
}

/// The text contains the bounds.
pub(super) const DEADLINE: Shape =
    Shape::Duration("a duration from `1ms` to `1m`, such as `100ms`", "100ms", &[]);

/// Checks how long one decision may take. A message says what to write.
///
/// # Errors
///
/// Returns an error if it is not in 1 ms to 1 min.
pub fn check_deadline(deadline: Duration) -> Result<(), String> {
    if (MIN_DEADLINE..=MAX_DEADLINE).contains(&deadline) {
        return Ok(());
    }
    let is_whole = deadline.subsec_nanos().is_multiple_of(1_000_000);
    let shown = if is_whole { format_duration(deadline) } else { format!("{deadline:?}") };
    Err(format!("`deadline` cannot be `{shown}`; write {}", DEADLINE.expected()))
}
