//! Every limiter, its numbers, and where they came from, for people.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, PoisonError, atomic::Ordering},
};

use ratelimit_spec::format_duration;

use super::Limits;
use crate::{
    annotation,
    settings::{Effective, Family, Keys, Sourced},
    store::{AnyStore, Reconciled},
};

/// What [`Limits::report`](crate::Limits::report) tells. It displays as text.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// `memory`, or the address of Redis without its password.
    pub store: String,
    /// Every limiter that is compiled in, written in the limits file, or was used.
    pub limiters: Vec<LimiterReport>,
}

/// One limiter in a [`Report`]; all keys of a template are one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LimiterReport {
    /// The key as it was written.
    pub key: String,
    /// Its settings and where each came from; `None` when it has no quota.
    pub settings: Option<Effective>,
    /// The annotated places that use it, as `module::function (file:line)`.
    pub call_sites: Vec<String>,
    /// Decisions that admitted a call.
    pub allowed: u64,
    /// Decisions that did not.
    pub rejected: u64,
    /// Admitted calls that had to wait.
    pub waited: u64,
    /// Decisions of `on_store_error`.
    pub degraded: u64,
    /// Admitted calls that would have been refused, or made to wait, outside shadow mode.
    pub shadowed: u64,
    /// How often configured and stored numbers came together, and how.
    pub reconciled: Vec<(Reconciled, u64)>,
}

pub(super) fn report(limits: &Limits) -> Report {
    let (services, registry) = (limits.services(), limits.registry());
    let (sites, current) = (annotation::all(), services.current());
    let annotated = sites.iter().map(|site| Arc::clone(&registry.annotated(site).family));
    let entries = current.file.iter().flat_map(|file| &file.limiters);
    let written = entries.map(|entry| registry.family(&entry.key, Keys::Many));
    let known: Vec<Arc<Family>> = annotated.chain(written).chain(registry.families()).collect();
    let families: BTreeMap<_, _> =
        known.into_iter().map(|family| (Arc::clone(&family.key), family)).collect();
    let limiters = families.values().map(|family| {
        let sites = sites.iter().filter(|site| site.key == &*family.key).map(|site| {
            let at = site.location;
            format!("{} ({}:{})", at.function, at.file, at.line)
        });
        let tally = &family.tally;
        LimiterReport {
            key: family.key.to_string(),
            settings: current.resolve(family, &family.key, None).ok(),
            call_sites: sites.collect(),
            allowed: tally.allowed.load(Ordering::Relaxed),
            rejected: tally.rejected.load(Ordering::Relaxed),
            waited: tally.waited.load(Ordering::Relaxed),
            degraded: tally.degraded.load(Ordering::Relaxed),
            shadowed: tally.shadowed.load(Ordering::Relaxed),
            reconciled: tally.reconciled.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    });
    let store = match &services.store {
        AnyStore::Memory(_) => "memory".to_owned(),
        AnyStore::Redis(store) => store.address().to_string(),
    };
    Report { store, limiters: limiters.collect() }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "store {}", self.store)?;
        self.limiters.iter().try_for_each(|limiter| write!(f, "\n{limiter}"))
    }
}

impl fmt::Display for LimiterReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.key)?;
        let Some(settings) = &self.settings else {
            return f.write_str("\n  no quota");
        };
        if !settings.enabled.value {
            return write!(f, "\n  off ({})", settings.enabled.source);
        }
        fn line<T>(
            f: &mut fmt::Formatter<'_>,
            name: &str,
            setting: &Sourced<T>,
            text: impl fmt::Display,
        ) -> fmt::Result {
            write!(f, "\n  {name}: {text} ({})", setting.source)
        }
        line(f, "shadow", &settings.shadow, settings.shadow.value)?;
        match &settings.limits {
            Some(limits) => {
                limits.value.iter().try_for_each(|quota| line(f, "limit", limits, quota))?;
            }
            None => {
                line(f, "rate", &settings.rate, settings.rate.value)?;
                line(f, "per", &settings.per, settings.window())?;
            }
        }
        if let Some(zone) = &settings.time_zone {
            line(f, "time_zone", zone, zone.value)?;
        }
        line(f, "mode", &settings.mode, settings.mode.value)?;
        if settings.limits.is_none() {
            line(f, "algorithm", &settings.algorithm, settings.algorithm.value)?;
            if let Some(burst) = &settings.burst {
                line(f, "burst", burst, burst.value)?;
            }
            if let Some(warm_up) = &settings.warm_up {
                line(f, "warm_up", warm_up, format_duration(warm_up.value))?;
            }
        }
        line(f, "wait", &settings.wait, settings.wait.value)?;
        line(f, "max_waiters", &settings.max_waiters, settings.max_waiters.value)?;
        if let Some(max_debt) = &settings.max_debt {
            line(f, "max_debt", max_debt, max_debt.value)?;
        }
        line(f, "on_store_error", &settings.on_store_error, settings.on_store_error.value)?;
        line(f, "refund_on", &settings.refund_on, settings.refund_on.value)?;
        line(f, "on_drift", &settings.on_drift, settings.on_drift.value)?;
        if settings.shards.value > 1 {
            line(f, "shards", &settings.shards, settings.shards.value)?;
        }
        for site in &self.call_sites {
            write!(f, "\n  used by {site}")?;
        }
        write!(
            f,
            "\n  allowed {}, rejected {}, waited {}, degraded {}, shadowed {}",
            self.allowed, self.rejected, self.waited, self.degraded, self.shadowed
        )?;
        for (outcome, count) in &self.reconciled {
            write!(f, "\n  {outcome:?} {count}")?;
        }
        Ok(())
    }
}
