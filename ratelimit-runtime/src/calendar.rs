//! The windows of a calendar: pure functions of a time and of the compiled-in time zones.

#[cfg(feature = "calendar")]
mod zones;
#[cfg(not(feature = "calendar"))]
#[path = "calendar/no_zones.rs"]
mod zones;

use std::{
    collections::HashMap,
    sync::{PoisonError, RwLock},
};

use once_cell::sync::Lazy;
use ratelimit_spec::Calendar;

/// The starts of the previous window, of the current one, of the next and of the one after that.
pub(crate) type Bounds = [u64; 4];

/// Returns the windows around a time in milliseconds since the Unix epoch. There are none before
/// it, and in a five-digit year they have their usual length.
pub(crate) fn bounds(calendar: Calendar, now: u64) -> Bounds {
    // A window lasts at least a minute, and a time zone lookup takes microseconds.
    static LAST: Lazy<RwLock<HashMap<Calendar, Bounds>>> = Lazy::new(RwLock::default);
    let last = LAST.read().unwrap_or_else(PoisonError::into_inner).get(&calendar).copied();
    if let Some(bounds) = last
        && bounds[1] <= now
        && now < bounds[2]
    {
        return bounds;
    }
    let bounds = zones::bounds(calendar, now).unwrap_or_else(|| {
        let per = u64::try_from(calendar.unit.nominal().as_millis()).unwrap_or(u64::MAX);
        let start = now - now % per;
        [start.saturating_sub(per), start, start + per, start + 2 * per]
    });
    LAST.write().unwrap_or_else(PoisonError::into_inner).insert(calendar, bounds);
    bounds
}
