//! Collects what [`Limits::report`](crate::Limits::report) returns.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, atomic::Ordering},
};

use super::Limits;
use crate::{
    annotation::{self, Location},
    report::{LimiterReport, Report, Setting, Source},
    settings::{Family, Keys},
    store::AnyStore,
};

pub(super) fn report(limits: &Limits) -> Report {
    let (services, registry) = (limits.services(), limits.registry());
    let (sites, current) = (annotation::all(), services.current());
    let annotated = sites.iter().map(|site| Arc::clone(&registry.annotated(site).family));
    let entries = current.file.iter().flat_map(|file| &file.limiters);
    let written = entries.map(|entry| registry.written(entry.key.as_str().into(), Keys::Many));
    let known: Vec<Arc<Family>> = annotated.chain(written).chain(registry.families()).collect();
    let families: BTreeMap<_, _> = known
        .into_iter()
        .map(|family| ((Arc::clone(&family.key), family.label.clone()), family))
        .collect();
    let limiters = families.values().map(|family| {
        let sites = sites.iter().filter(|site| family.label.key() == Some(site.key)).map(|site| {
            let Location { file, line, function } = site.location();
            format!("{function} ({file}:{line})")
        });
        let tally = &family.tally;
        let given = family.given.load();
        let effective = current.resolve(family, None, given.as_deref()).ok();
        LimiterReport {
            key: family.key.to_string(),
            quotas: effective
                .as_ref()
                .filter(|one| one.set.enabled())
                .map(|one| one.quotas.clone()),
            settings: effective.map_or_else(Vec::new, |effective| effective.rows()),
            overrides: current.overrides(&family.label),
            call_sites: sites.collect(),
            allowed: tally.allowed.get(),
            rejected: tally.rejections(),
            waited: tally.waited.load(Ordering::Relaxed),
            degraded: tally.degraded.load(Ordering::Relaxed),
            shadowed: tally.shadowed.load(Ordering::Relaxed),
            shared: family.places.shared(),
            reconciled: tally.reconciled.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    });
    let store = match &services.store {
        AnyStore::Memory(_) => "memory".to_owned(),
        AnyStore::Redis(store) => store.address().to_string(),
    };
    Report::new(store, settings(limits), limiters.collect(), current.prefixes())
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
