//! Holds the limits file against the compiled program, before any traffic.

mod bucket;
mod calendar;
mod run_time;
mod several;

use std::collections::BTreeMap;

use ratelimit_spec::{
    LimiterEntry, OnStoreError, RefundOn, Settings, Step, Unmatched, Wait, check_shards,
    check_warm_up, in_order, nearest,
};

use super::{
    current::global,
    file::{LoadedFile, Source as FileSource},
};
use crate::{
    SetupError,
    annotation::{self, Annotation, Cost},
    events::Event,
    settings::{Effective, Keys, Source, Unresolved},
};

type Sites = BTreeMap<&'static str, Vec<&'static Annotation>>;

/// Reads the limits file and holds it against the program: every problem in one report, or the file
/// and what there is to warn of.
pub(super) fn load(
    source: &FileSource,
    shadow: Option<bool>,
) -> Result<(Option<LoadedFile>, Vec<Event>), SetupError> {
    let by_key = sites();
    let names = |file: &LoadedFile| {
        let mut problems = Vec::new();
        unmatched(file, &by_key, &mut problems, &mut Vec::new());
        problems
    };
    let file = source.load(&names)?;
    let warnings = check(file.as_ref(), &global(file.as_ref(), shadow), &by_key)?;
    Ok((file, warnings))
}

/// Every annotated place, by its key.
fn sites() -> Sites {
    let mut by_key = Sites::new();
    for site in annotation::all() {
        by_key.entry(site.key).or_default().push(site);
    }
    by_key
}

fn check(
    file: Option<&LoadedFile>,
    global: &Settings,
    by_key: &Sites,
) -> Result<Vec<Event>, SetupError> {
    let (mut problems, mut warnings) = (Vec::new(), Vec::new());
    for (key, sites) in by_key {
        disagreements(key, sites, &mut problems);
        limiter(key, sites, (file, global), &mut problems, &mut warnings);
    }
    if let Some(file) = file {
        run_time::idle_fields(file, by_key, &mut problems);
        unmatched(file, by_key, &mut problems, &mut warnings);
        calendar::unannotated(file, global, |key| by_key.contains_key(key), &mut problems);
    }
    if problems.is_empty() { Ok(warnings) } else { Err(SetupError::new(problems)) }
}

fn place(site: &Annotation) -> String {
    format!("{}:{}", site.location.file, site.location.line)
}

/// Two call sites with one key share one limiter, so they must agree on it.
fn disagreements(key: &str, sites: &[&Annotation], problems: &mut Vec<String>) {
    fn text<T: std::fmt::Debug>(value: Option<T>) -> Option<String> {
        value.map(|value| format!("{value:?}"))
    }
    let fields = |site: &Annotation| {
        let said = site.settings();
        let mode = said.mode.map(|mode| mode.to_string());
        let algorithm = said.algorithm.map(|algorithm| algorithm.to_string());
        let burst = text(said.burst);
        let (rate, per) = (text(said.rate), text(said.per));
        let warm_up = text(said.warm_up);
        let per = said.unit.map(|unit| unit.to_string()).or(per);
        let zone = said.time_zone.map(|zone| zone.to_string());
        let limits = said.limits.map(|limits| {
            let algorithm = said.algorithm.unwrap_or_default();
            let limits = in_order(limits.iter().map(|limit| limit.quota(algorithm)));
            limits.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
        });
        let refund_on = said.refund_on.map(|refund_on| refund_on.to_string());
        [
            ("rate", rate),
            ("per", per),
            ("time_zone", zone),
            ("limits", limits),
            ("mode", mode),
            ("algorithm", algorithm),
            ("burst", burst),
            ("warm_up", warm_up),
            ("refund_on", refund_on),
        ]
    };
    if let Some(problem) = several::beside_one(key, sites) {
        problems.push(problem);
        return;
    }
    for (n, site) in sites.iter().enumerate() {
        for (field, value) in fields(site) {
            let said_before = sites[..n].iter().find_map(|other| {
                let (_, before) = fields(other).into_iter().find(|(name, _)| *name == field)?;
                before.map(|before| (other, before))
            });
            if let (Some(value), Some((other, before))) = (value, said_before)
                && value != before
            {
                problems.push(format!(
                    "{}: `{key}` has `{field}` {value} here and {before} at {}; \
                     functions with one key share one limiter, write the same or leave it out",
                    place(site),
                    place(other),
                ));
                return;
            }
        }
    }
}

/// Everything about one compiled limiter, with the limits file and each of its overrides.
fn limiter(
    key: &str,
    sites: &[&Annotation],
    (file, global): (Option<&LoadedFile>, &Settings),
    problems: &mut Vec<String>,
    warnings: &mut Vec<Event>,
) {
    let entry = file.and_then(|file| file.limits.limiter(key));
    let annotations: Vec<Settings> = sites.iter().map(|site| site.settings()).collect();
    let declared: Vec<Settings> = sites.iter().map(|site| site.declared_settings()).collect();
    let variants = entry.map_or(0, |entry| entry.overrides.len());
    for variant in std::iter::once(None).chain((0..variants).map(Some)) {
        let mut layers = Vec::new();
        if let (Some(entry), Some(n)) = (entry, variant) {
            layers.push((Source::Override, &entry.overrides[n].settings));
        }
        layers.extend(entry.map(|entry| (Source::LimitsFile, &entry.settings)));
        layers.extend(annotations.iter().map(|said| (Source::Annotation, said)));
        layers.extend(declared.iter().map(|said| (Source::Compiled, said)));
        layers.push((Source::Global, global));
        layers.extend(file.map(|file| (Source::Default, &file.limits.default)));
        let at = |field: &str| written(file, entry, key, variant, field);
        match Effective::resolve(&layers, Keys::Many) {
            Err(why) => {
                let place = match &why {
                    Unresolved::Alone(name, _, Source::LimitsFile | Source::Override) => at(name),
                    Unresolved::Together(_, Source::LimitsFile | Source::Override) => at("limits"),
                    _ => place(sites[0]),
                };
                problems.push(format!("{place}: `{key}` {}", why.complaint()));
                return;
            }
            Ok(effective) if !effective.enabled.value => {
                warnings.push(Event::Disabled { limiter: key.into() });
            }
            // Whatever it would refuse is admitted.
            Ok(effective) if effective.shadow.value => {
                if variant.is_none() {
                    warnings.push(Event::ShadowMode { limiter: key.into() });
                }
            }
            Ok(effective) => {
                let set = |source, field: &str| match source {
                    Source::Annotation | Source::BuiltIn => place(sites[0]),
                    _ => at(field),
                };
                for (field, source) in bucket::idle(&layers, &effective) {
                    let (place, algorithm) = (set(source, field), effective.algorithm.value);
                    problems.push(bucket::complaint(&place, key, field, algorithm));
                }
                let set = |source, field: &str| format!("{}: `{key}`", set(source, field));
                calendar::check(&layers, &effective, set, problems);
                for site in sites {
                    problems.extend(unusable(key, site, &effective, &at));
                }
            }
        }
    }
}

/// Where the file sets a field of a limiter, or of one of its overrides.
fn written(
    file: Option<&LoadedFile>,
    entry: Option<&LimiterEntry>,
    key: &str,
    variant: Option<usize>,
    field: &str,
) -> String {
    let (Some(file), Some(_)) = (file, entry) else {
        return "the limits".to_owned();
    };
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

/// What a call site cannot live with.
fn unusable(
    key: &str,
    site: &Annotation,
    effective: &Effective,
    at: &dyn Fn(&str) -> String,
) -> Vec<String> {
    let mut problems = Vec::new();
    let here = place(site);
    problems.extend(uncountable(key, &here, effective, at));
    problems.extend(unsplittable(key, &here, effective, at));
    problems.extend(several::above_a_limit(key, site, effective, at));
    let rate = effective.rate.value;
    let burst = effective.burst.map(|burst| burst.value);
    let rule = effective.algorithm.value.rule(burst.unwrap_or(rate));
    let whole = u32::try_from(rule.capacity(rate.into())).unwrap_or(u32::MAX);
    let capacity = whole / effective.shards.value;
    if let Cost::Literal(permits) = site.cost
        && effective.limits.is_none()
        && permits > capacity
        && (rate > 0 || !site.fallible)
    {
        let cannot = if rate == 0 {
            "its function cannot refuse a call, so nobody would ever be answered"
        } else {
            "no call would ever get through"
        };
        let field = if rate > 0 && burst.is_some() { "burst" } else { "rate" };
        let sets = match effective.shards.value {
            shards if permits <= whole => {
                format!("{} splits a {field} of {whole} into {shards} parts", at("shards"))
            }
            _ => format!("{} sets a {field} of {whole}", at(field)),
        };
        problems
            .push(format!("{here}: `{key}` takes {permits} permits a call, but {sets}; {cannot}"));
    }
    let refund_on = effective.refund_on;
    let (word, is_written) = (refund_on.value, refund_on.source == Source::Annotation);
    if word != RefundOn::Never && !is_written && !site.judges {
        problems.push(format!(
            "{here}: `{key}` is not compiled to give permits back, but {} sets `refund_on: {word}`; \
             write `refund_on = \"{word}\"` in its attribute, or leave `refund_on` out",
            at("refund_on")
        ));
    }
    if site.fallible {
        return problems;
    }
    if effective.wait.value != Wait::Forever {
        problems.push(format!(
            "{here}: `{key}` cannot refuse a call, but {} sets `wait: {}`; \
             let the function return a rejection, or leave `wait` out",
            at("wait"),
            effective.wait.value
        ));
    }
    if effective.max_waiters.value == 0 {
        problems.push(format!(
            "{here}: `{key}` cannot refuse a call, but {} sets `max_waiters: 0`; \
             give its attribute a `wait` with an end, or let 1 call or more wait",
            at("max_waiters")
        ));
    }
    if effective.on_store_error.value == OnStoreError::Reject {
        problems.push(format!(
            "{here}: `{key}` cannot refuse a call, but {} sets `on_store_error: reject`; \
             let the function return a rejection, or write `local` or `allow`",
            at("on_store_error")
        ));
    }
    problems
}

/// What no algorithm, or not this one, can count by.
fn uncountable(
    key: &str,
    here: &str,
    effective: &Effective,
    at: &dyn Fn(&str) -> String,
) -> Option<String> {
    let Effective { rate, per, algorithm, burst, warm_up, .. } = effective;
    let (rate, per, algorithm) = (rate.value, per.value, algorithm.value);
    if let Some(warm_up) = warm_up
        && let Err(error) = check_warm_up(rate.into(), warm_up.value)
    {
        let place = at("warm_up");
        return Some(format!("{here}: `{key}` cannot be counted by what {place} sets: {error}"));
    }
    let rule = algorithm.rule(burst.map_or(rate, |burst| burst.value));
    let checked = rule.check(rate.into(), per);
    let too_large = checked.err()?;
    let place = at(too_large.name());
    Some(format!("{here}: `{key}` cannot be counted by what {place} sets: {too_large}"))
}

/// What cannot be split the way the file says.
fn unsplittable(
    key: &str,
    here: &str,
    effective: &Effective,
    at: &dyn Fn(&str) -> String,
) -> Option<String> {
    let problem = check_shards(&effective.splitting()).err()?;
    Some(format!("{here}: `{key}` cannot be split as {} says: {problem}", at("shards")))
}

/// Entries that are no compiled limiter's: nearly the name of one is a mistake, nothing like any
/// may be another program's.
fn unmatched(
    file: &LoadedFile,
    by_key: &Sites,
    problems: &mut Vec<String>,
    warnings: &mut Vec<Event>,
) {
    for entry in &file.limits.limiters {
        if by_key.contains_key(&*entry.key) {
            continue;
        }
        let undeclared = by_key.keys().filter(|key| file.limits.limiter(key).is_none());
        let at = file.place_of(&entry.key, None);
        match nearest(&entry.key, undeclared.copied()) {
            Some(near) => problems.push(format!(
                "{at}: `{}` matches no limiter of this program; did you mean `{near}`?",
                entry.key
            )),
            None if file.limits.unmatched == Unmatched::Error => {
                problems.push(format!("{at}: `{}` matches no limiter of this program", entry.key));
            }
            None => warnings.push(Event::Unmatched { key: entry.key.clone() }),
        }
    }
}
