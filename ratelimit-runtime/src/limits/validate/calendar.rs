//! Windows of a calendar, held against the rule and the zone.

use ratelimit_spec::{Settings, Step};

use crate::{
    limits::file::LoadedFile,
    settings::{Effective, Keys, Source},
};

/// Tells what does not make windows of a calendar; `place` says where a layer sets a field, and for
/// whom.
pub(super) fn check(
    layers: &[(Source, &Settings)],
    effective: &Effective,
    place: impl Fn(Source, &str) -> String,
    problems: &mut Vec<String>,
) {
    let per = effective.window();
    if let Err(error) = per.check(effective.algorithm.value) {
        let place = place(effective.per.source, "per");
        problems.push(format!("{place} has windows it cannot be counted by: {error}"));
    }
    // A zone of a lower layer is that of another window.
    let zoned = layers.iter().find(|(_, said)| said.time_zone.is_some());
    if let Some((source, _)) = zoned
        && *source <= effective.per.source
        && *source != Source::Default
        && let Err(error) = per.check_zoned()
    {
        let place = place(*source, "time_zone");
        problems.push(format!("{place} has a zone that means nothing: {error}"));
    }
}

/// Entries for keys that are known only at run time.
pub(super) fn unannotated(
    file: &LoadedFile,
    global: &Settings,
    is_annotated: impl Fn(&str) -> bool,
    problems: &mut Vec<String>,
) {
    let mut look = |source, own: &Settings, place: &dyn Fn(&str) -> String| {
        let default = &file.limits.default;
        let layers = [(source, own), (Source::Global, global), (Source::Default, default)];
        if let Ok(effective) = Effective::resolve(&layers, Keys::Many) {
            check(&layers, &effective, |_, field| place(field), problems);
        }
    };
    for entry in file.limits.limiters.iter().filter(|entry| !is_annotated(&entry.key)) {
        let key = &entry.key;
        let place = |field: &str| format!("{}: `{key}`", file.place_of(key, Some(field)));
        look(Source::LimitsFile, &entry.settings, &place);
        for own in &entry.overrides {
            look(Source::Override, &own.settings.clone().or(&entry.settings), &place);
        }
    }
    for (n, entry) in file.limits.prefixes.iter().enumerate() {
        let place = |field: &str| {
            let at = file.place(&[Step::Key("prefixes"), Step::Index(n), Step::Key(field)]);
            format!("{at}: `{}`", entry.prefix)
        };
        look(Source::Prefix, &entry.settings, &place);
    }
}
