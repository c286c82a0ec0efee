//! Calendar windows from the time zone database.

use std::{
    collections::HashMap,
    sync::{PoisonError, RwLock},
};

use jiff::{
    Error, Timestamp, ToSpan,
    civil::Date,
    tz::{AmbiguousOffset, TimeZone},
};
use once_cell::sync::Lazy;
use ratelimit_spec::{Calendar, CalendarUnit};

use super::Bounds;

/// Returns the windows around a time, or `None` if the database does not cover it.
pub(super) fn bounds(calendar: Calendar, now: u64) -> Option<Bounds> {
    let zone = zone(calendar.zone)?;
    let now = i64::try_from(now).ok()?;
    let bounds = match calendar.unit {
        CalendarUnit::Minute => by_the_clock(&zone, 60_000, now).ok(),
        CalendarUnit::Hour => by_the_clock(&zone, 3_600_000, now).ok(),
        unit => by_the_date(&zone, unit, now).ok().flatten(),
    };
    Some(bounds?.map(|ms| u64::try_from(ms).unwrap_or(0)))
}

fn zone(zone: ratelimit_spec::TimeZone) -> Option<TimeZone> {
    static ZONES: Lazy<RwLock<HashMap<ratelimit_spec::TimeZone, TimeZone>>> =
        Lazy::new(RwLock::default);
    let known = ZONES.read().unwrap_or_else(PoisonError::into_inner).get(&zone).cloned();
    known.or_else(|| {
        let read = TimeZone::tzif(zone.name(), zone.tzif()).ok()?;
        let mut zones = ZONES.write().unwrap_or_else(PoisonError::into_inner);
        zones.insert(zone, read.clone());
        Some(read)
    })
}

/// Returns windows that begin with a date: at its first instant, which is not always midnight.
fn by_the_date(zone: &TimeZone, unit: CalendarUnit, now: i64) -> Result<Option<[i64; 4]>, Error> {
    let today = zone.to_datetime(Timestamp::from_millisecond(now)?).date();
    let first = match unit {
        CalendarUnit::Week => {
            today.checked_sub(i64::from(today.weekday().to_monday_zero_offset()).days())?
        }
        CalendarUnit::Month => today.first_of_month(),
        _ => today,
    };
    let mut starts = Vec::new();
    for n in -3_i64..=4 {
        let away = match unit {
            CalendarUnit::Week => n.weeks(),
            CalendarUnit::Month => n.months(),
            _ => n.days(),
        };
        starts.push(first_instant(zone, first.checked_add(away)?)?);
    }
    // A date that a zone skipped begins with the next one.
    starts.dedup();
    // Clock changes may repeat a date that is over, so instants are compared.
    let next = starts.partition_point(|start| *start <= now);
    let around = next.checked_sub(2).and_then(|first| starts.get(first..first + 4));
    Ok(around.and_then(|around| around.try_into().ok()))
}

/// Returns when the local clocks first show a date, or a later one if they skip it.
fn first_instant(zone: &TimeZone, date: Date) -> Result<i64, Error> {
    let midnight = zone.to_ambiguous_timestamp(date.at(0, 0, 0, 0));
    let AmbiguousOffset::Gap { .. } = midnight.offset() else {
        return Ok(midnight.earlier()?.as_millisecond());
    };
    let before = midnight.earlier()?;
    let change = zone.following(before).next().map(|change| change.timestamp());
    Ok(change.unwrap_or(before).as_millisecond())
}

/// Returns windows that begin whenever the local clocks show a full minute or hour. A half-hour
/// change that skips one makes a window longer; no window is shorter.
fn by_the_clock(zone: &TimeZone, unit: i64, now: i64) -> Result<[i64; 4], Error> {
    let start = full_at_last(zone, unit, now)?;
    let end = full_next(zone, unit, now)?;
    Ok([full_at_last(zone, unit, start - 1)?, start, end, full_next(zone, unit, end)?])
}

fn full_at_last(zone: &TimeZone, unit: i64, mut now: i64) -> Result<i64, Error> {
    loop {
        let full = full_by(zone, unit, now)?;
        // Later than the changes that come after it.
        let change = zone.preceding(Timestamp::from_millisecond(now + 1)?).next();
        match change.map(|change| change.timestamp().as_millisecond()) {
            Some(change) if full < change => now = change - 1,
            _ => return Ok(full),
        }
    }
}

fn full_next(zone: &TimeZone, unit: i64, mut now: i64) -> Result<i64, Error> {
    let mut full = full_by(zone, unit, now)? + unit;
    loop {
        let change = zone.following(Timestamp::from_millisecond(now)?).next();
        match change.map(|change| change.timestamp().as_millisecond()) {
            Some(change) if change <= full => {
                now = change;
                full = full_by(zone, unit, now)?;
                if full == now {
                    return Ok(full);
                }
                full += unit;
            }
            _ => return Ok(full),
        }
    }
}

/// Returns the full minute or hour before a time, with the UTC offset of that time.
fn full_by(zone: &TimeZone, unit: i64, now: i64) -> Result<i64, Error> {
    let offset = zone.to_offset(Timestamp::from_millisecond(now)?);
    let shown = now + i64::from(offset.seconds()) * 1000;
    Ok(now - shown.rem_euclid(unit))
}

#[cfg(test)]
mod tests;
