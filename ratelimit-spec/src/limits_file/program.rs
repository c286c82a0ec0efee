//! The bounds of settings that are those of the program, not of a limiter.

use std::time::Duration;

use super::shape::Shape;
use crate::duration::format_duration;

const MIN_DEADLINE: Duration = Duration::from_millis(1);
const MAX_DEADLINE: Duration = Duration::from_secs(60);

/// Has the bounds in it.
pub(super) const DEADLINE: Shape = Shape::Text("a duration from `1ms` to `1m`", "100ms");

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
