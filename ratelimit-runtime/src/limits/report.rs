//! Collects what [`Limits::report`](crate::Limits::report) returns.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, atomic::Ordering},
};

use super::Limits;
use crate::{
    Quotas, Settings,
    annotation::{self, Annotation, Cost, Location},
    report::{LimiterReport, Report, Setting, Source},
    settings::{Current, Effective, Family, wait_of_calls},
};

pub(super) fn report(limits: &Limits) -> Report {
    let (services, registry) = (limits.services(), limits.registry());
    let (sites, current) = (annotation::in_source_order(), services.current());
    let annotated = sites.iter().map(|site| Arc::clone(&registry.annotated(site).family));
    let entries = current.file.iter().flat_map(|file| &file.limiters);
    let written = entries.map(|entry| registry.reported(entry.key.as_str().into()));
    let layers = annotation::layers();
    let of_layers = layers.keys().map(|key| registry.reported((&**key).into()));
    let known = annotated.chain(written).chain(of_layers);
    let known: Vec<Arc<Family>> = known.chain(registry.families()).collect();
    let families: BTreeMap<_, _> = known
        .into_iter()
        .map(|family| ((Arc::clone(&family.key), family.label.clone()), family))
        .collect();
    let limiters = families.values().map(|family| {
        let sites = sites.iter().copied().filter(|site| family.label.key() == Some(site.key));
        let sites: Vec<&Annotation> = sites.collect();
        let call_sites = sites.iter().map(|site| {
            let Location { file, line, function } = site.location();
            format!("{function} ({file}:{line})")
        });
        let mut call_sites: Vec<_> = call_sites.collect();
        // Two handles of one line.
        call_sites.dedup();
        let tally = &family.tally;
        let given = family.given.load();
        // A layer gives its settings with its first request.
        let of_layer = || layers.get(&family.key)?.as_ref().filter(|_| sites.is_empty());
        let given = given.as_deref().cloned().or_else(|| of_layer().map(Settings::of_layer));
        let effective = current.resolve(family, None, given.as_ref()).ok();
        let stored =
            registry.cached(&family.label).and_then(|core| core.confirmed_quotas(services));
        let is_other = |quotas: &Quotas| effective.as_ref().is_none_or(|one| one.quotas != *quotas);
        LimiterReport {
            key: family.key.to_string(),
            quotas: effective
                .as_ref()
                .filter(|one| one.set.enabled())
                .map(|one| one.quotas.clone()),
            in_force: stored.filter(is_other),
            settings: match &effective {
                Some(one) => rows(one, &sites, &current),
                // Code may set the rest, for each name.
                None if family.is_of_a_prefix() => current.rows(family),
                None => Vec::new(),
            },
            overrides: current.overrides(&family.label),
            call_sites,
            allowed: tally.allowed.get(),
            rejected: tally.rejections(),
            waited: tally.waited.load(Ordering::Relaxed),
            degraded: tally.degraded.load(Ordering::Relaxed),
            shadowed: tally.shadowed.load(Ordering::Relaxed),
            shared: family.places.shared(),
            reconciled: tally.reconciled.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    });
    let address = services.store.shared().map(|store| store.address().to_string());
    Report {
        store: address.unwrap_or_else(|| "memory".to_owned()),
        settings: settings(limits),
        limiters: limiters.collect(),
        prefixes: current.prefixes(),
    }
}

/// Returns the settings of a limiter, with the `wait` of each function that waits otherwise than those before it.
fn rows(effective: &Effective, sites: &[&Annotation], current: &Current) -> Vec<Setting> {
    let mut rows = effective.rows();
    let Some(at) = rows.iter().position(|row| row.name == "wait") else { return rows };
    let sites = sites.iter().filter(|site| site.cost != Cost::OfHandle);
    let mut waits: Vec<Setting> = Vec::new();
    for site in sites {
        let wait = wait_of_calls(&effective.set, site.wait, || current.default_wait());
        let row = Setting { name: "wait", value: wait.value.to_string(), source: wait.source };
        if !waits.contains(&row) {
            waits.push(row);
        }
    }
    if !waits.is_empty() {
        rows.splice(at..=at, waits);
    }
    rows
}

/// Returns the program's settings: those fixed at startup, and those that the limits file can change.
fn settings(limits: &Limits) -> Vec<Setting> {
    let (services, current) = (limits.services(), limits.services().current());
    let file = current.file.as_ref();
    let reread = [
        ("instances", services.instances.map(u64::from), current.instances().map(u64::from)),
        ("revision", services.revision, file.and_then(|file| file.revision)),
    ];
    let reread = reread.into_iter().filter_map(|(name, built, written)| {
        let built = built.map(|value| (value, Source::Builder));
        let (value, source) = built.or(written.map(|value| (value, Source::LimitsFile)))?;
        Some(Setting { name, value: value.to_string(), source })
    });
    limits.made.settings.iter().cloned().chain(reread).collect()
}
