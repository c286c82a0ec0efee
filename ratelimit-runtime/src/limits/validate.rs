//! Holds the limits file against the compiled program, before any traffic.

mod bucket;
mod calendar;
mod overlap;
mod run_time;
mod several;

use std::collections::BTreeMap;

use ratelimit_spec::{
    LimiterEntry, OnStoreError, RefundOn, Settings, Step, Unmatched, Wait, check_shards,
    check_warm_up, in_order, nearest,
};

use super::file::{LoadedFile, Source as FileSource};
use crate::{
    Problem, ProblemKind, SetupError,
    annotation::{self, Annotation, Cost},
    error::Place,
    events::Event,
    report::Source,
    settings::{Effective, Keys, Layers, Unresolved, by_precedence, global},
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
    let global = global(file.as_ref().map(|file| &file.limits), shadow);
    let warnings = check(file.as_ref(), &global, &by_key)?;
    Ok((file, warnings))
}

/// Every annotated place, by its key, in the order of the source.
fn sites() -> Sites {
    let mut by_key = Sites::new();
    let mut all = annotation::all();
    all.sort_by_key(|site| (site.location.file, site.location.line));
    for site in all {
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
    overlap::check(by_key, &mut problems);
    if let Some(file) = file {
        run_time::idle_fields(file, by_key, &mut problems);
        unmatched(file, by_key, &mut problems, &mut warnings);
        calendar::unannotated(file, global, |key| by_key.contains_key(key), &mut problems);
    }
    if problems.is_empty() { Ok(warnings) } else { Err(SetupError::new(problems)) }
}

fn place(site: &Annotation) -> Place {
    Place::file(site.location.file).line(site.location.line)
}

/// A setting of a limiter that cannot be.
fn refused(place: Place, key: &str, setting: &'static str, message: String) -> Problem {
    Problem::new(ProblemKind::Setting, message).at(place).of(key).about(setting)
}

/// Two call sites with one key share one limiter, so they must agree on it.
fn disagreements(key: &str, sites: &[&Annotation], problems: &mut Vec<Problem>) {
    fn text<T: std::fmt::Debug>(value: Option<T>) -> Option<String> {
        value.map(|value| format!("{value:?}"))
    }
    let fields = |site: &Annotation| {
        let said = site.settings();
        let mode = said.mode.map(|mode| mode.to_string());
        let algorithm = said.algorithm.map(|algorithm| algorithm.to_string());
        let burst = text(said.burst);
        let rate = text(said.rate);
        let warm_up = text(said.warm_up);
        let per = said.per.map(|per| per.to_string());
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

/// Everything about one compiled limiter, with the limits file and each of its overrides.
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
    for variant in std::iter::once(None).chain((0..variants).map(Some)) {
        let mut layers = Layers::new();
        if let (Some(entry), Some(n)) = (entry, variant) {
            layers.push((Source::Override, &entry.overrides[n].settings));
        }
        layers.extend(entry.map(|entry| (Source::LimitsFile, &entry.settings)));
        layers.extend(annotations.iter().map(|said| (Source::Annotation, said)));
        layers.extend(declared.iter().map(|said| (Source::Compiled, said)));
        layers.push((Source::Global, global));
        layers.extend(file.map(|file| (Source::Default, &file.limits.default)));
        let layers = by_precedence(layers);
        let at = |field: &str| written(file, entry, key, variant, field);
        match Effective::resolve(layers.clone(), Keys::Many) {
            Err(why) => {
                let place = match &why {
                    Unresolved::Alone(name, _, Source::LimitsFile | Source::Override) => at(name),
                    Unresolved::Together(_, Source::LimitsFile | Source::Override) => at("limits"),
                    _ => place(sites[0]),
                };
                problems.push(refused(place, key, why.setting(), why.complaint(key)));
                return;
            }
            Ok(effective) if !effective.set.enabled() => {
                warnings.push(Event::Disabled { limiter: key.into() });
            }
            // Whatever it would refuse is admitted.
            Ok(effective) if effective.set.shadow() => {
                if variant.is_none() {
                    warnings.push(Event::ShadowMode { limiter: key.into() });
                }
            }
            Ok(effective) => {
                let set = |source, field: &'static str| match source {
                    Source::Annotation | Source::BuiltIn => place(sites[0]),
                    _ => at(field),
                };
                for (field, source) in bucket::idle(&layers, &effective) {
                    let (place, algorithm) = (set(source, field), effective.set.algorithm());
                    problems.push(bucket::complaint(place, key, field, algorithm));
                }
                calendar::check(&layers, &effective, key, &set, problems);
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
) -> Place {
    let (Some(file), Some(_)) = (file, entry) else {
        return Place::file("the limits");
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
    at: &dyn Fn(&str) -> Place,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    let here = || place(site);
    problems.extend(uncountable(key, here(), effective, at));
    problems.extend(unsplittable(key, here(), effective, at));
    problems.extend(several::above_a_limit(key, site, effective, at));
    let rate = effective.rate();
    let burst = effective.set.burst.map(|burst| burst.value);
    let rule = effective.set.algorithm().rule(burst.unwrap_or(rate));
    let whole = u32::try_from(rule.capacity(rate.into())).unwrap_or(u32::MAX);
    let capacity = whole / effective.set.shards();
    if let Cost::Literal(permits) = site.cost
        && effective.set.limits.is_none()
        && permits > capacity
        && (rate > 0 || !site.fallible)
    {
        let cannot = if rate == 0 {
            "so every call would wait forever; raise it, or let the function return a rejection"
        } else {
            "so no call can succeed; lower `permits`, or raise the rate"
        };
        let field = if rate > 0 && burst.is_some() { "burst" } else { "rate" };
        let sets = match effective.set.shards() {
            shards if permits <= whole => {
                format!("{} splits a {field} of {whole} into {shards} shards", at("shards"))
            }
            _ => format!("{} sets a {field} of {whole}", at(field)),
        };
        let message = format!("`{key}` costs {permits} permits per call, but {sets}, {cannot}");
        problems.push(refused(here(), key, field, message));
    }
    let word = effective.set.refund_on();
    let source = effective.set.refund_on.map(|refund_on| refund_on.source);
    let is_written = source == Some(Source::Annotation);
    if word != RefundOn::Never && !is_written && !site.judges {
        let message = format!(
            "`{key}` is compiled without refunds, but {} sets `refund_on: {word}`; write `refund_on = \
             \"{word}\"` in its attribute, or remove `refund_on`",
            at("refund_on")
        );
        problems.push(refused(here(), key, "refund_on", message));
    }
    if site.fallible {
        return problems;
    }
    if effective.set.wait() != Wait::Forever {
        let message = format!(
            "`{key}` cannot reject calls, but {} sets `wait: {}`; let the function return a rejection, \
             or remove `wait`",
            at("wait"),
            effective.set.wait()
        );
        problems.push(refused(here(), key, "wait", message));
    }
    if effective.set.max_waiters() == 0 {
        let message = format!(
            "`{key}` cannot reject calls, but {} sets `max_waiters: 0`; give its attribute a `wait` with \
             an end, or let 1 call or more wait",
            at("max_waiters")
        );
        problems.push(refused(here(), key, "max_waiters", message));
    }
    if effective.set.on_store_error() == OnStoreError::Reject {
        let message = format!(
            "`{key}` cannot reject calls, but {} sets `on_store_error: reject`; let the function return \
             a rejection, or write `local` or `allow`",
            at("on_store_error")
        );
        problems.push(refused(here(), key, "on_store_error", message));
    }
    problems
}

/// What no algorithm, or not this one, can count by.
fn uncountable(
    key: &str,
    here: Place,
    effective: &Effective,
    at: &dyn Fn(&str) -> Place,
) -> Option<Problem> {
    let (rate, per, burst) =
        (effective.rate(), effective.window().value.length, effective.set.burst);
    let algorithm = effective.set.algorithm();
    if let Some(warm_up) = effective.set.warm_up
        && let Err(error) = check_warm_up(rate.into(), warm_up.value)
    {
        let message = format!("`{key}` cannot use the value set at {}: {error}", at("warm_up"));
        return Some(refused(here, key, "warm_up", message));
    }
    let rule = algorithm.rule(burst.map_or(rate, |burst| burst.value));
    let checked = rule.check(rate.into(), per);
    let too_large = checked.err()?;
    let name = too_large.name();
    let message = format!("`{key}` cannot use the value set at {}: {too_large}", at(name));
    Some(refused(here, key, name, message))
}

/// What cannot be split the way the file says.
fn unsplittable(
    key: &str,
    here: Place,
    effective: &Effective,
    at: &dyn Fn(&str) -> Place,
) -> Option<Problem> {
    let problem = check_shards(&effective.splitting()).err()?;
    let message = format!("`{key}` cannot be sharded as set at {}: {problem}", at("shards"));
    Some(refused(here, key, "shards", message))
}

/// Entries that are no compiled limiter's: nearly the name of one is a mistake, nothing like any
/// may be another program's.
fn unmatched(
    file: &LoadedFile,
    by_key: &Sites,
    problems: &mut Vec<Problem>,
    warnings: &mut Vec<Event>,
) {
    for entry in &file.limits.limiters {
        if by_key.contains_key(&*entry.key) {
            continue;
        }
        let undeclared = by_key.keys().filter(|key| file.limits.limiter(key).is_none());
        let key = &entry.key;
        let refused = |advice: String| {
            let message = format!("`{key}` matches no limiter in this program; {advice}");
            let problem = Problem::new(ProblemKind::Unmatched, message);
            problem.at(file.place_of(key, None)).of(key)
        };
        match (file.limits.unmatched, nearest(key, undeclared.copied())) {
            (Unmatched::Ignore, _) => {}
            (Unmatched::Warn | Unmatched::Error, Some(near)) => problems.push(refused(format!(
                "did you mean `{near}`? If it is the name of another limiter, write `unmatched: ignore`"
            ))),
            (Unmatched::Error, None) => {
                problems.push(refused("remove it, or write `unmatched: warn`".to_owned()));
            }
            (Unmatched::Warn, None) => warnings.push(Event::Unmatched { key: key.clone() }),
        }
    }
}
