//! Settings that cannot apply together, with the places that set them.

use ratelimit_spec::{Merged, Settings, Step};

use super::refused;
use crate::{
    Problem, annotation, error::Place, limits::file::LoadedFile, report::Source, settings::Label,
};

/// Reports the conflicts that involve settings of `own`, or all of them. `at` returns where a layer
/// sets a setting, if that is known.
pub(super) fn report(
    set: &Merged<Source>,
    own: Option<Source>,
    key: &str,
    at: &dyn Fn(Source, &'static str) -> Option<Place>,
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
        let place = at(source, name).or_else(|| layers.iter().find_map(|(name, of)| at(*of, name)));
        let Some(place) = place else { continue };
        let elsewhere = |other: &&(_, Source)| other.1 != source && other.1 != Source::BuiltIn;
        if let Some((other, place)) =
            layers.iter().find(elsewhere).and_then(|(other, of)| Some((other, at(*of, other)?)))
        {
            message += &format!(" (`{other}` is set at {place})");
        }
        problems.push(refused(place, key, name, message));
    }
}

/// Reports the conflicts of the keys of layers, and of those that exist only at run time.
pub(super) fn unannotated(
    file: &LoadedFile,
    global: &Settings,
    is_annotated: impl Fn(&str) -> bool,
    problems: &mut Vec<Problem>,
) {
    let (default, in_code) = (&file.limits.default, annotation::layers());
    let mut look = |own: &[(Source, &Settings)], key: &str, path: &[Step<'_>]| {
        let given = in_code.get(key).and_then(Option::as_ref).map(|it| (Source::Code, it));
        let rest = [(Source::Global, global), (Source::Default, default)];
        let all: Vec<_> = own.iter().copied().chain(given).chain(rest).collect();
        let mut set = Merged::of(&all);
        if !set.enabled() {
            return;
        }
        // Without rate and window, code sets a quota, and with it the algorithm.
        if set.limits.is_some() || set.rate.is_some() && set.per.is_some() {
            set = set.or_built_in(Source::BuiltIn);
        }
        let at = |source, field| match source {
            Source::Code => None,
            Source::Default => Some(file.place_of_default(field)),
            _ => Some(file.place(&[path, &[Step::Key(field)]].concat())),
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
