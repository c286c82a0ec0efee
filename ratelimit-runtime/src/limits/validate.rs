//! Validates the limits file against the compiled call sites at startup.

mod conflicts;
mod overlap;

use std::{collections::BTreeMap, fmt::Display, iter};

use ratelimit_spec::{
    LimiterEntry, Merged, OnStoreError, RefundOn, Settings, Step, Template, Unmatched, Wait,
    nearest, nearest_words,
};

use super::file::{LoadedFile, Source as FileSource};
use crate::{
    Problem, ProblemKind, SetupError,
    annotation::{self, Annotation, Cost, Location},
    error::Place,
    events::Event,
    report::Source,
    settings::{Effective, Keys, Layers, Unresolved, global, merged, wait_of_calls},
};

type Sites = BTreeMap<&'static str, Vec<&'static Annotation>>;

/// Reads the limits file and validates it against the program. Returns the file, what `rest` reads besides, and the
/// warnings; or every problem in one report, with those of `rest`.
pub(super) fn load<T>(
    source: &FileSource,
    shadow: Option<bool>,
    rest: impl Fn(Option<&LoadedFile>, &mut Vec<Problem>) -> Option<T>,
) -> Result<(Option<LoadedFile>, T, Vec<Event>), SetupError> {
    let by_key = sites();
    let names = |file: &LoadedFile| {
        let mut problems = Vec::new();
        rest(Some(file), &mut problems);
        unmatched(file, &by_key, &mut problems, &mut Vec::new());
        problems
    };
    let file = source.load(&names)?;
    let global = global(file.as_ref().map(|file| &file.limits), shadow);
    let mut problems = Vec::new();
    let read = rest(file.as_ref(), &mut problems);
    let mut warnings = check(file.as_ref(), &global, &by_key, &mut problems);
    if file.is_none() && matches!(source, FileSource::Found(_)) {
        let missing = annotation::compiled_with().map(|file| Event::LimitsFileMissing { file });
        warnings.extend(missing);
    }
    match read {
        Some(read) if problems.is_empty() => Ok((file, read, warnings)),
        _ => Err(SetupError::new(problems)),
    }
}

/// Returns all annotated places by key, in source order.
fn sites() -> Sites {
    let mut by_key = Sites::new();
    for site in annotation::in_source_order() {
        by_key.entry(site.key).or_default().push(site);
    }
    by_key
}

fn check(
    file: Option<&LoadedFile>,
    global: &Settings,
    by_key: &Sites,
    problems: &mut Vec<Problem>,
) -> Vec<Event> {
    let mut warnings = Vec::new();
    for (key, sites) in by_key {
        disagreements(key, sites, problems);
        limiter(key, sites, (file, global), problems, &mut warnings);
    }
    overlap::check(by_key, problems);
    if let Some(file) = file {
        let layers = annotation::layers();
        let unannotated = layers.keys().filter(|key| !by_key.contains_key(&***key));
        warnings.extend(unannotated.filter_map(|key| unenforced(file, key)));
        unmatched(file, by_key, problems, &mut warnings);
        conflicts::unannotated(file, global, |key| by_key.contains_key(key), problems);
    }
    warnings
}

fn place(site: &Annotation) -> Place {
    let Location { file, line, .. } = site.location();
    Place::file(file).line(line)
}

/// Creates the problem of an invalid setting of a limiter.
fn refused(place: Place, key: &str, setting: &'static str, message: String) -> Problem {
    Problem::new(ProblemKind::Setting, message).at(place).of(key).about(setting)
}

/// Two call sites with one key share one limiter, so they must agree on it.
fn disagreements(key: &str, sites: &[&Annotation], problems: &mut Vec<Problem>) {
    let fields = |site: &Annotation| {
        let rows = Merged::of(&[((), &site.settings())]).rows().into_iter();
        // How long its calls wait is up to each function.
        rows.filter(|(name, ..)| *name != "wait")
            .map(|(name, value, ())| (name, value))
            .collect::<Vec<_>>()
    };
    if let Some(problem) = several_beside_one(key, sites) {
        problems.push(problem);
        return;
    }
    for (n, site) in sites.iter().enumerate() {
        for (field, value) in fields(site) {
            let said_before = sites[..n].iter().find_map(|other| {
                let (_, before) = fields(other).into_iter().find(|(name, _)| *name == field)?;
                Some((other, before))
            });
            if let Some((other, before)) = said_before
                && value != before
            {
                let message = format!(
                    "`{field}` of `{key}` is {value} here, but {before} at {}; functions with the same \
                     key share one limiter, so write the same value or remove one",
                    place(other),
                );
                let problem = Problem::new(ProblemKind::Conflict, message);
                problems.push(problem.at(place(site)).of(key).about(field));
                return;
            }
        }
    }
}

/// Reports a call site with several limits and another with one rate or window.
fn several_beside_one(key: &str, sites: &[&Annotation]) -> Option<Problem> {
    let first = |which: fn(&Settings) -> bool| sites.iter().find(|site| which(&site.settings()));
    let one = first(|said| said.rate.is_some() || said.per.is_some())?;
    let several = first(|said| said.limits.is_some())?;
    let message = format!(
        "`{key}` has `limits` here, but `rate` or `per` at {}; functions with the same key share one \
         limiter, so write the same value or remove one",
        place(one),
    );
    let problem = Problem::new(ProblemKind::Conflict, message);
    Some(problem.at(place(several)).of(key).about("limits"))
}

/// Validates one compiled limiter, with the limits file and each of its overrides.
fn limiter(
    key: &str,
    sites: &[&Annotation],
    (file, global): (Option<&LoadedFile>, &Settings),
    problems: &mut Vec<Problem>,
    warnings: &mut Vec<Event>,
) {
    let entry = file.and_then(|file| file.limits.limiter(key));
    let annotations: Vec<Settings> = sites.iter().map(|site| site.settings()).collect();
    let declared: Vec<Settings> = sites.iter().map(|site| site.declared_settings()).collect();
    let variants = entry.map_or(0, |entry| entry.overrides.len());
    for variant in iter::once(None).chain((0..variants).map(Some)) {
        let mut layers = Layers::new();
        if let (Some(entry), Some(n)) = (entry, variant) {
            layers.push((Source::Override, &entry.overrides[n].settings));
        }
        layers.extend(entry.map(|entry| (Source::LimitsFile, &entry.settings)));
        layers.extend(annotations.iter().map(|said| (Source::Annotation, said)));
        layers.extend(declared.iter().map(|said| (Source::Compiled, said)));
        layers.push((Source::Global, global));
        layers.extend(file.map(|file| (Source::Default, &file.limits.default)));
        let set = merged(layers.clone());
        let at = |source, field: &'static str| match (source, file) {
            (Source::Override | Source::LimitsFile, Some(file)) => {
                written(file, key, variant, field)
            }
            (Source::Default, Some(file)) => file.place_of_default(field),
            _ => place(sites[0]),
        };
        let (resolved, is_shadow) = (Effective::resolve(layers, Keys::Many), set.shadow());
        if let Err(why @ Unresolved::Missing(setting)) = &resolved {
            problems.push(refused(place(sites[0]), key, setting, why.complaint(key)));
            return;
        }
        if !set.enabled() {
            warnings.push(Event::Disabled { limiter: key.into() });
            continue;
        }
        // Calls over the limit are admitted.
        if is_shadow && resolved.is_ok() {
            if variant.is_none() {
                warnings.push(Event::ShadowMode { limiter: key.into() });
            }
            continue;
        }
        let found = problems.len();
        // Reported for the limiter that is overridden.
        let own = variant.map(|_| Source::Override);
        let known = |source, field| Some(at(source, field));
        conflicts::report(&set, own, key, &known, problems);
        if problems.len() == found {
            let default = || file.and_then(|file| file.limits.default.wait);
            for site in sites {
                let wait = Some(wait_of_calls(&set, site.wait, default));
                unusable(key, site, &Merged { wait, ..set.clone() }, &at, problems);
            }
        }
    }
}

/// Returns where the file sets a field of a limiter, or of one of its overrides.
fn written(file: &LoadedFile, key: &str, variant: Option<usize>, field: &str) -> Place {
    let Some(n) = variant else {
        return file.place_of(key, Some(field));
    };
    let own = [
        Step::Key("limiters"),
        Step::Key(key),
        Step::Key("overrides"),
        Step::Index(n),
        Step::Key(field),
    ];
    match file.limits.position(&own) {
        Some(_) => file.place(&own),
        None => file.place_of(key, Some(field)),
    }
}

/// Finds the settings that a call site cannot work with.
fn unusable(
    key: &str,
    site: &Annotation,
    set: &Merged<Source>,
    at: &dyn Fn(Source, &'static str) -> Place,
    problems: &mut Vec<Problem>,
) {
    let at = |field| at(set.source_of(field).unwrap_or(Source::BuiltIn), field);
    let mut refuse = |field, message| problems.push(refused(place(site), key, field, message));
    let cannot_reject = |field, value: &dyn Display, advice| {
        format!("`{key}` cannot reject calls, but {} sets `{field}: {value}`; {advice}", at(field))
    };
    if let Cost::Literal(permits) = site.cost {
        if let Some(conflict) = set.check_cost(permits) {
            let field = conflict.settings[0];
            refuse(field, format!("`{key}`: {conflict} (`{field}` is set at {})", at(field)));
        } else if permits > 0 && !site.fallible && set.rate.is_some_and(|rate| rate.value == 0) {
            let advice = "give its attribute a `wait` with an end, or raise the rate";
            refuse("rate", cannot_reject("rate", &0, advice));
        }
    }
    let word = set.refund_on();
    let source = set.source_of("refund_on");
    if word != RefundOn::Never && source != Some(Source::Annotation) && !site.judges {
        let message = format!(
            "`{key}` is compiled without refunds, but {} sets `refund_on: {word}`; write `refund_on = \
             \"{word}\"` in its attribute, or remove `refund_on`",
            at("refund_on")
        );
        refuse("refund_on", message);
    }
    if site.fallible {
        return;
    }
    if set.wait() != Wait::Forever {
        let advice = "give its attribute a `wait` with an end, or remove `wait`";
        refuse("wait", cannot_reject("wait", &set.wait(), advice));
    }
    if set.max_waiters() == 0 {
        let advice = "give its attribute a `wait` with an end, or let 1 call or more wait";
        refuse("max_waiters", cannot_reject("max_waiters", &0, advice));
    }
    if set.on_store_error() == OnStoreError::Reject {
        let advice =
            "write `on_store_error = \"reject\"` in its attribute, or set `local` or `allow`";
        refuse("on_store_error", cannot_reject("on_store_error", &"reject", advice));
    }
}

/// Finds a setting that a layer cannot work with.
fn unusable_by_layer(file: &LoadedFile, entry: &LimiterEntry) -> Option<Problem> {
    let (key, word) = (&entry.key, entry.settings.refund_on?);
    let message = format!(
        "`{key}` is the key of a layer, but `refund_on: {word}` is for functions; call `refund_if` on the \
         layer, and remove `refund_on`"
    );
    let at = file.place_of(key, Some("refund_on"));
    (word != RefundOn::Never).then(|| refused(at, key, "refund_on", message))
}

/// Returns the event about a layer that the file disables, for some keys at least, or puts in shadow mode.
fn unenforced(file: &LoadedFile, key: &str) -> Option<Event> {
    let entry = file.limits.limiter(key);
    let is_disabled = |own: Option<&Settings>| {
        let settings = own.into_iter().chain(entry.map(|entry| &entry.settings));
        let mut settings = settings.chain([&file.limits.default]);
        settings.find_map(|settings| settings.enabled) == Some(false)
    };
    let overrides = entry.into_iter().flat_map(|entry| &entry.overrides);
    let mut variants = iter::once(None).chain(overrides.map(|own| Some(&own.settings)));
    if variants.any(is_disabled) {
        return Some(Event::Disabled { limiter: key.into() });
    }
    // What code sets takes precedence over the rest of the file.
    let is_shadow = entry.is_some_and(|entry| entry.settings.shadow == Some(true));
    is_shadow.then(|| Event::ShadowMode { limiter: key.into() })
}

/// Reports entries that match no compiled limiter: a name similar to one is a mistake, any other
/// may belong to another program.
fn unmatched(
    file: &LoadedFile,
    by_key: &Sites,
    problems: &mut Vec<Problem>,
    warnings: &mut Vec<Event>,
) {
    let layers = annotation::layers();
    let known = || by_key.keys().copied().chain(layers.keys().map(|key| &**key));
    let undeclared: Vec<_> = known().filter(|key| file.limits.limiter(key).is_none()).collect();
    for entry in &file.limits.limiters {
        if by_key.contains_key(&*entry.key) {
            continue;
        }
        if layers.contains_key(&*entry.key) {
            problems.extend(unusable_by_layer(file, entry));
            continue;
        }
        let key = &entry.key;
        let refused = |advice: String| {
            let message = format!("`{key}` matches no limiter in this program; {advice}");
            let problem = Problem::new(ProblemKind::Unmatched, message);
            problem.at(file.place_of(key, None)).of(key)
        };
        let near = nearest(key, undeclared.iter().copied());
        let similar = || nearest_words(key, undeclared.iter().copied());
        match (file.limits.unmatched, near) {
            (Unmatched::Ignore, _) => {}
            (Unmatched::Warn, None) => {
                let has_name = |template: &&str| {
                    Template::parse(template).is_ok_and(|template| template.can_render(key))
                };
                let template = known().find(has_name).map(str::to_owned);
                let similar = similar().map(str::to_owned);
                warnings.push(Event::Unmatched { key: key.clone(), template, similar });
            }
            (Unmatched::Warn | Unmatched::Error, near) => {
                problems.push(refused(match near.or_else(similar) {
                    Some(near) => format!(
                        "did you mean `{near}`? If it is the name of another limiter, write `unmatched: ignore`"
                    ),
                    None => "remove it, or write `unmatched: warn`".to_owned(),
                }));
            }
        }
    }
}
