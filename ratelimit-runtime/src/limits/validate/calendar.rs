//! Windows of a calendar, held against the rule and the zone.

use ratelimit_spec::{Settings, Step};

use super::refused;
use crate::{
    Problem,
    error::Place,
    limits::file::LoadedFile,
    report::Source,
    settings::{Effective, Keys},
};

/// Finds what does not make windows of a calendar; `place` says where a layer sets a field.
pub(super) fn check(
    layers: &[(Source, &Settings)],
    effective: &Effective,
    key: &str,
    place: &dyn Fn(Source, &'static str) -> Place,
    problems: &mut Vec<Problem>,
) {
    let per = effective.window();
    if let Err(error) = per.value.check(effective.set.algorithm()) {
        let place = place(per.source, "per");
        problems.push(refused(place, key, "per", format!("`{key}`: {error}")));
    }
    // A zone of a lower layer is that of another window.
    let zoned = layers.iter().find(|(_, said)| said.time_zone.is_some());
    if let Some((source, _)) = zoned
        && *source <= per.source
        && *source != Source::Default
        && let Err(error) = per.value.check_zoned()
    {
        let place = place(*source, "time_zone");
        problems.push(refused(place, key, "time_zone", format!("`{key}`: {error}")));
    }
}

/// Entries for keys that are known only at run time.
pub(super) fn unannotated(
    file: &LoadedFile,
    global: &Settings,
    is_annotated: impl Fn(&str) -> bool,
    problems: &mut Vec<Problem>,
) {
    let mut look = |source, own: &Settings, key: &str, place: &dyn Fn(&str) -> Place| {
        let default = &file.limits.default;
        let layers = vec![(source, own), (Source::Global, global), (Source::Default, default)];
        if let Ok(effective) = Effective::resolve(layers.clone(), Keys::Many) {
            check(&layers, &effective, key, &|_, field| place(field), problems);
        }
    };
    for entry in file.limits.limiters.iter().filter(|entry| !is_annotated(&entry.key)) {
        let key = &entry.key;
        let place = |field: &str| file.place_of(key, Some(field));
        look(Source::LimitsFile, &entry.settings, key, &place);
        for own in &entry.overrides {
            look(Source::Override, &own.settings.clone().or(&entry.settings), key, &place);
        }
    }
    for (n, entry) in file.limits.prefixes.iter().enumerate() {
        let place =
            |field: &str| file.place(&[Step::Key("prefixes"), Step::Index(n), Step::Key(field)]);
        look(Source::Prefix, &entry.settings, &entry.prefix, &place);
    }
}
