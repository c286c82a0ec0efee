//! The settings of one limiter: its layers, merged.

mod ages;
mod current;
mod family;
mod given;
mod label;
mod penalty;
mod places;
mod several;
mod tally;

use std::time::Duration;

use ratelimit_spec::{
    Algorithm, Conflict, Merged, Per, Settings as Layer, Sourced, Template, TimeZone, Wait,
};

pub(crate) use self::{
    current::{Current, global},
    family::Family,
    label::{Label, Name, key_of, keys_of},
    places::{Bound, Others},
    several::{Unresolved, written},
};
pub use self::{given::Settings, penalty::Penalty};
use crate::{
    Quota, Quotas,
    clock::whole_ms,
    report::{Setting, Source},
    store::Config,
};

/// The minimum time for which an idle key among many is kept.
const LEAST_KEPT: Duration = Duration::from_secs(60);

/// Layers of settings. A nearer [`Source`] takes precedence, regardless of the order.
pub(crate) type Layers<'a> = Vec<(Source, &'a Layer)>;

/// The resolved settings of one limiter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Effective {
    /// Each setting with its source. With several limits, rate, window, algorithm and burst are
    /// those of the first.
    pub(crate) set: Merged<Source>,
    /// The quotas, the shortest window first; a rate of 0 rejects every call.
    pub(crate) quotas: Quotas,
    keys: Keys,
}

/// Whether a limiter has one key or many; many keys expire when idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Keys {
    One,
    Many,
}

impl Keys {
    pub(crate) fn of(template: &Template) -> Self {
        if template.is_static() { Self::One } else { Self::Many }
    }
}

/// Returns how long an idle key among many is kept by default.
pub(crate) fn kept_idle(per: Duration) -> Duration {
    (per * 2).max(LEAST_KEPT)
}

fn built_in<T>(value: T) -> Sourced<T, Source> {
    Sourced { value, source: Source::BuiltIn }
}

/// Takes each setting from the nearest layer that has it, or else its default. Of layers of one source, the first is the
/// nearest.
pub(crate) fn merged(mut layers: Layers<'_>) -> Merged<Source> {
    layers.sort_by_key(|(source, _)| *source);
    let nearer = layers.partition_point(|(source, _)| *source < Source::Compiled);
    let sets = |is: fn(&Layer) -> bool| layers[..nearer].iter().any(|(_, layer)| is(layer));
    // A quota of compile time only stands in for one that is missing.
    if sets(|layer| layer.limits.is_some())
        || sets(|layer| layer.rate.is_some()) && sets(|layer| layer.per.is_some())
    {
        layers.retain(|(source, _)| *source != Source::Compiled);
    }
    Merged::of(&layers).or_built_in(Source::BuiltIn)
}

/// Returns how long the calls of one function may wait, who share their limiter with those of other functions: what the
/// limits file sets for the limiter, else its `own` attribute, else the `default` of the file. The attribute of another
/// function has no effect.
pub(crate) fn wait_of_calls(
    set: &Merged<Source>,
    own: Option<Wait>,
    default: impl FnOnce() -> Option<Wait>,
) -> Sourced<Wait, Source> {
    let set = set.wait.unwrap_or(built_in(Wait::default()));
    match own {
        _ if set.source < Source::Annotation => set,
        Some(value) => Sourced { value, source: Source::Annotation },
        None if set.source > Source::Code => set,
        None => match default() {
            Some(value) => Sourced { value, source: Source::Default },
            None => built_in(Wait::default()),
        },
    }
}

impl Effective {
    /// Resolves layers to the settings in force.
    pub(crate) fn resolve(layers: Layers<'_>, keys: Keys) -> Result<Self, Unresolved> {
        let all = merged(layers);
        let is_of_several = |conflict: &Conflict| {
            matches!(conflict.settings, ["limits", ..] | ["rate" | "per", "limits"])
        };
        let mut conflicts = if all.enabled() { all.check() } else { Vec::new() };
        conflicts.retain(is_of_several);
        if !conflicts.is_empty() {
            return Err(Unresolved::Several(conflicts));
        }
        let mut set = all.in_force();
        let quotas = match set.limits.take().filter(|_| set.enabled()) {
            Some(limits) => several::resolve(&mut set, &limits),
            None => Quotas::from(resolve_one(&mut set)?),
        };
        Ok(Self { set, quotas, keys })
    }

    /// Returns the permits of a window, which shards divide.
    pub(crate) fn rate(&self) -> u32 {
        self.set.rate.map_or(0, |rate| rate.value)
    }

    /// Returns the configuration for the store.
    pub(crate) fn config(&self) -> Config {
        let kept = match (self.set.keep_alive, self.keys) {
            (Some(kept), _) => kept.value,
            (None, Keys::One) => Duration::ZERO,
            (None, Keys::Many) => kept_idle(self.quotas[0].per()),
        };
        self.config_of(&self.quotas[0], kept)
    }

    /// Returns the stored configurations of the limits after the first. They always expire when
    /// idle: a list that changes would leave them behind forever.
    pub(crate) fn further(&self) -> Vec<Config> {
        let kept = |quota: &Quota| match self.set.keep_alive {
            None => kept_idle(quota.per()),
            Some(kept) => kept.value,
        };
        let quotas = self.quotas.iter().skip(1);
        quotas.map(|quota| self.config_of(quota, kept(quota))).collect()
    }

    fn config_of(&self, quota: &Quota, kept: Duration) -> Config {
        let per_ms = whole_ms(quota.per());
        let config = Config::new(quota.rate(), per_ms, self.set.mode()).with_quota(quota);
        // Redisson rejects a shorter one, and state must outlive the permits it counts.
        config.keep_alive_ms(match whole_ms(kept) {
            0 => 0,
            ms => ms.max(per_ms).max(config.counts_for_ms()),
        })
    }

    /// Returns the settings for a report. Several limits replace the values of a single one.
    pub(crate) fn rows(&self) -> Vec<Setting> {
        let mut set = self.set.clone();
        if set.limits.is_some() {
            (set.rate, set.per, set.algorithm, set.burst) = (None, None, None, None);
        }
        rows(&set)
    }
}

fn rows(set: &Merged<Source>) -> Vec<Setting> {
    let rows = set.rows().into_iter();
    rows.map(|(name, value, source)| Setting { name, value, source }).collect()
}

/// Reduces the settings to those of one limit, and returns it.
fn resolve_one(set: &mut Merged<Source>) -> Result<Quota, Unresolved> {
    let enabled = set.enabled();
    // A disabled limiter needs no quota.
    let rate = set.rate.or((!enabled).then_some(built_in(0)));
    let rate = rate.ok_or(Unresolved::Missing("rate"))?;
    let idle = rate.value == 0 || !enabled;
    let second = Per { length: Duration::from_secs(1), unit: None };
    let per = set.per.or(idle.then_some(built_in(second))).ok_or(Unresolved::Missing("per"))?;
    (set.rate, set.per) = (Some(rate), Some(per));
    let is_bucket = set.algorithm() == Algorithm::TokenBucket;
    set.warm_up = set.warm_up.filter(|_| is_bucket);
    set.burst = (is_bucket && set.warm_up.is_none()).then(|| set.burst.unwrap_or(rate));
    let zone = set.time_zone.unwrap_or(built_in(TimeZone::default()));
    set.time_zone = per.value.unit.map(|_| zone);
    let rule = set.rule().unwrap_or_default();
    Ok(Quota::stored(rate.value.into(), whole_ms(per.value.length), rule))
}

#[cfg(test)]
mod tests {
    use ratelimit_spec::{CalendarUnit, Per};

    use super::*;
    use crate::Algorithm;

    #[test]
    fn a_quota_of_run_time_keeps_nothing_of_the_one_at_compile_time() {
        let hour = Per { length: Duration::from_secs(3600), unit: None };
        let day = Per { length: Duration::from_secs(86_400), unit: Some(CalendarUnit::Day) };
        let file = Layer { rate: Some(100), per: Some(hour), ..Layer::default() };
        let compiled = Layer {
            rate: Some(2),
            per: Some(day),
            algorithm: Some(ratelimit_spec::Algorithm::FixedWindow),
            ..Layer::default()
        };
        let resolved = |near| {
            let layers = vec![(Source::LimitsFile, near), (Source::Compiled, &compiled)];
            Effective::resolve(layers, Keys::One).unwrap().quotas
        };
        assert_eq!(resolved(&file)[0].algorithm(), Algorithm::SlidingWindow);
        let silent = Layer::default();
        assert_eq!(resolved(&silent)[0].algorithm(), Algorithm::FixedWindow);
        let rate = Layer { rate: Some(5), ..Layer::default() };
        assert_eq!(resolved(&rate)[0].rate(), 5);
    }
}
