//! Settings that cannot apply together, with the places that set them.

use ratelimit_spec::{Merged, Settings, Step};

use super::refused;
use crate::{Problem, error::Place, limits::file::LoadedFile, report::Source, settings::Label};

/// Reports the conflicts that involve settings of `own`, or all of them. `at` returns where a layer
/// sets a setting.
pub(super) fn report(
    set: &Merged<Source>,
    own: Option<Source>,
    key: &str,
    at: &dyn Fn(Source, &'static str) -> Place,
    problems: &mut Vec<Problem>,
) {
    for conflict in set.check() {
        let layers =
            conflict.settings.iter().filter_map(|name| Some((*name, set.source_of(name)?)));
        let layers: Vec<_> = layers.collect();
        let Some(&(name, source)) = layers.first() else { continue };
        // The time zone of all limiters applies to those with a calendar window.
        let is_of_all = (name, source) == ("time_zone", Source::Default);
        if is_of_all || own.is_some_and(|own| layers.iter().all(|(_, source)| *source != own)) {
            continue;
        }
        let mut message = format!("`{key}`: {conflict}");
        let elsewhere = |other: &&(_, Source)| other.1 != source && other.1 != Source::BuiltIn;
        if let Some((other, source)) = layers[1..].iter().find(elsewhere) {
            message += &format!(" (`{other}` is set at {})", at(*source, other));
        }
        problems.push(refused(at(source, name), key, name, message));
    }
}

/// Reports the conflicts of keys that exist only at run time.
pub(super) fn unannotated(
    file: &LoadedFile,
    global: &Settings,
    is_annotated: impl Fn(&str) -> bool,
    problems: &mut Vec<Problem>,
) {
    let default = &file.limits.default;
    let mut look = |own: &[(Source, &Settings)], key: &str, path: &[Step<'_>]| {
        let layers = [own, &[(Source::Global, global), (Source::Default, default)]].concat();
        let mut set = Merged::of(&layers);
        // Without rate and window, code sets a quota, and with it the algorithm.
        if set.limits.is_some() || set.rate.is_some() && set.per.is_some() {
            set = set.or_built_in(Source::BuiltIn);
        }
        let at = |source, field| match source {
            Source::Default => file.place_of_default(field),
            _ => file.place(&[path, &[Step::Key(field)]].concat()),
        };
        let own = own.first().map_or(Source::Default, |(source, _)| *source);
        report(&set, Some(own), key, &at, problems);
    };
    look(&[], "default", &[]);
    for entry in file.limits.limiters.iter().filter(|entry| !is_annotated(&entry.key)) {
        let path = [Step::Key("limiters"), Step::Key(&entry.key)];
        let limiter = (Source::LimitsFile, &entry.settings);
        look(&[limiter], &entry.key, &path);
        for (n, own) in entry.overrides.iter().enumerate() {
            let path = [&path[..], &[Step::Key("overrides"), Step::Index(n)]].concat();
            look(&[(Source::Override, &own.settings), limiter], &entry.key, &path);
        }
    }
    for (n, entry) in file.limits.prefixes.iter().enumerate() {
        let path = [Step::Key("prefixes"), Step::Index(n)];
        look(
            &[(Source::Prefix, &entry.settings)],
            &Label::prefix(&entry.prefix).to_string(),
            &path,
        );
    }
}
