//! Calendar windows and time zones. The limits file can override both.

use ratelimit_spec::{Algorithm, Per};

use super::Declared;
use crate::args::Args;
use crate::problems::Problems;

/// A calendar unit requires fixed windows.
pub(super) fn windows_are_its(
    args: &Args,
    per: Option<Per>,
    algorithm: Option<Algorithm>,
    declared: &Declared<'_>,
    problems: &mut Problems,
) {
    let own = declared.entry_settings();
    let overridden =
        own.is_some_and(|settings| settings.per.is_some() || settings.algorithm.is_some());
    let (Some(literal), Some(per), Some(algorithm)) = (args.per.value(), per, algorithm) else {
        return;
    };
    if let Err(error) = per.check(algorithm)
        && !overridden
    {
        problems.at(literal.span(), error);
    }
}

/// A time zone has no effect on a fixed length.
pub(super) fn zone_has_a_calendar(
    args: &Args,
    per: Option<Per>,
    declared: &Declared<'_>,
    problems: &mut Problems,
) {
    let (Some(zone), false) = (args.time_zone.given(), per.is_none() && !args.per.is_absent())
    else {
        return;
    };
    let own = declared.entry_settings().and_then(|settings| settings.per);
    let default = declared.default_settings().and_then(|settings| settings.per);
    if let Some(window) = own.or(per).or(default)
        && let Err(error) = window.check_zoned()
    {
        problems.at(zone.name.span(), error);
    }
}
