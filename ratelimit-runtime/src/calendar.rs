//! When the windows of a calendar begin: pure functions of a time and the zones compiled in.

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

/// When the window before that of a time begins, this one, the next, and the one after that.
pub(crate) type Bounds = [u64; 4];

/// The windows around a time in milliseconds since the Unix epoch. Before it there are none, and in a
/// year with five digits they are of the usual length.
pub(crate) fn bounds(calendar: Calendar, now: u64) -> Bounds {
    // A window lasts for a minute at the least, and a zone takes microseconds to ask.
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
