//! Calendar windows, such as a day in a time zone.

#[cfg(feature = "calendar")]
mod zones;
#[cfg(not(feature = "calendar"))]
#[path = "calendar/no_zones.rs"]
mod zones;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::duration::format_duration;
use crate::words::{WordError, words};

/// The length of a calendar window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CalendarUnit {
    /// `minute`: begins with each full minute.
    Minute,
    /// `hour`: begins with each full hour of the clocks.
    Hour,
    /// `day`: begins at midnight.
    Day,
    /// `week`: begins on Monday.
    Week,
    /// `month`: begins on the first.
    Month,
}

words!(
    CalendarUnit, "per",
    "minute" => Minute,
    "hour" => Hour,
    "day" => Day,
    "week" => Week,
    "month" => Month
);

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

impl CalendarUnit {
    /// Returns the usual length of a window; of a month, that of the longest.
    #[must_use]
    pub const fn nominal(self) -> Duration {
        match self {
            Self::Minute => Duration::from_secs(60),
            Self::Hour => HOUR,
            Self::Day => DAY,
            Self::Week => Duration::from_secs(7 * 24 * 3600),
            Self::Month => Duration::from_secs(31 * 24 * 3600),
        }
    }

    /// Returns the least length of a window: clocks are put forward by up to two hours, and a zone
    /// that crosses the date line skips a day.
    #[must_use]
    pub const fn shortest(self) -> Duration {
        match self {
            Self::Minute | Self::Hour => self.nominal(),
            Self::Day => Duration::from_secs(22 * 3600),
            Self::Week => Duration::from_secs(6 * 24 * 3600 - 2 * 3600),
            Self::Month => Duration::from_secs(27 * 24 * 3600 - 2 * 3600),
        }
    }

    /// Rejects every unit without the feature `calendar`.
    pub(crate) fn check_feature(self) -> Result<(), WordError> {
        if cfg!(feature = "calendar") {
            return Ok(());
        }
        let length = format_duration(self.nominal());
        Err(WordError::new(format!(
            "calendar window `{self}` requires the crate feature `calendar`; enable it, or write a \
             length such as `{length}`"
        )))
    }
}

/// A zone of the IANA time zone database, whose copy is compiled in by the feature `calendar`.
///
/// # Examples
///
/// ```
/// use ratelimit_spec::TimeZone;
///
/// let zone: TimeZone = "Europe/Vienna".parse()?;
/// assert_eq!(zone.name(), "Europe/Vienna");
/// assert_eq!(TimeZone::default().name(), "UTC");
/// # Ok::<(), ratelimit_spec::WordError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TimeZone(u16);

impl TimeZone {
    /// Returns its name, such as `Europe/Vienna`.
    #[must_use]
    pub fn name(self) -> &'static str {
        zones::name(self.0)
    }

    /// Returns the changes of its clocks, in the format of RFC 9636.
    #[must_use]
    pub fn tzif(self) -> &'static [u8] {
        zones::tzif(self.name())
    }
}

impl FromStr for TimeZone {
    type Err = WordError;

    fn from_str(name: &str) -> Result<Self, WordError> {
        zones::find(name).map(Self)
    }
}

impl Default for TimeZone {
    /// `UTC`.
    fn default() -> Self {
        "UTC".parse().unwrap_or(Self(0))
    }
}

impl fmt::Display for TimeZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for TimeZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TimeZone({})", self.name())
    }
}

/// Calendar windows in a time zone, written `day@Europe/Vienna`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Calendar {
    /// The length of a window.
    pub unit: CalendarUnit,
    /// The time zone in which windows begin.
    pub zone: TimeZone,
}

impl fmt::Display for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.unit, self.zone)
    }
}

impl FromStr for Calendar {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Self, WordError> {
        let (unit, zone) = text.split_once('@').unwrap_or((text, "UTC"));
        Ok(Self { unit: unit.parse()?, zone: zone.parse()? })
    }
}
