//! Stands in for the time zones without the feature `calendar`.

use crate::quote::Quoted;
use crate::words::WordError;

/// The name of the only zone.
pub(super) fn name(_: u16) -> &'static str {
    "UTC"
}

/// Rejects every name.
pub(super) fn find(name: &str) -> Result<u16, WordError> {
    let message =
        format!("time zone {} requires the crate feature `calendar`; enable it", Quoted(name));
    Err(WordError::new(message))
}

/// Returns no data: the database is not compiled in.
pub(super) fn tzif(_: &str) -> &'static [u8] {
    &[]
}
