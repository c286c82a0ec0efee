//! The settings of one limiter: its layers, merged.

mod ages;
mod current;
mod family;
mod given;
mod several;
mod tally;

use std::time::Duration;

use ratelimit_spec::{
    Algorithm, Calendar, Merged, Per, Rule, Settings as Layer, Sourced, TimeZone,
};

pub use self::given::Settings;
pub(crate) use self::{
    current::{Current, global},
    family::Family,
    several::{Unresolved, written},
};
use crate::{
    Quota, Quotas,
    clock::whole_ms,
    report::{Setting, Source},
    store::Config,
};

/// The least time for which an idle key among many is kept.
const LEAST_KEPT: Duration = Duration::from_secs(60);

/// Layers of settings. Those of a nearer [`Source`] take precedence, whatever order they are in.
pub(crate) type Layers<'a> = Vec<(Source, &'a Layer)>;

/// Everything one limiter goes by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Effective {
    /// Each setting with its source. Of several limits, rate, window, algorithm and burst are those of
    /// the first.
    pub(crate) set: Merged<Source>,
    /// The quotas, the shortest window first; one of rate 0 rejects every call.
    pub(crate) quotas: Quotas,
    keys: Keys,
}

/// Whether a limiter's keys are one or many; many expire when idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    One,
    Many,
}

/// How long an idle key is kept that is not to stay for ever.
pub(crate) fn kept_idle(per: Duration) -> Duration {
    (per * 2).max(LEAST_KEPT)
}

fn built_in<T>(value: T) -> Sourced<T, Source> {
    Sourced { value, source: Source::BuiltIn }
}

/// In the order of precedence; layers of one source stay as they are.
pub(crate) fn by_precedence<'a>(mut layers: Layers<'a>) -> Layers<'a> {
    layers.sort_by_key(|(source, _)| *source);
    layers
}

impl Effective {
    /// Takes each setting from the nearest layer that has it.
    pub(crate) fn resolve(layers: Layers<'_>, keys: Keys) -> Result<Self, Unresolved> {
        let layers = by_precedence(layers);
        let mut set = Merged::of(&layers).or_built_in(Source::BuiltIn);
        let enabled = set.enabled();
        let several =
            several::limits(&layers).or_else(|why| if enabled { Err(why) } else { Ok(None) })?;
        set.limits = None;
        let quotas = match several.filter(|_| enabled) {
            Some(limits) => several::settle(&mut set, &limits)?,
            None => Quotas::from(settle_one(&mut set, &layers)?),
        };
        Ok(Self { set, quotas, keys })
    }

    /// The permits of a window, and of what splits it.
    pub(crate) fn rate(&self) -> u32 {
        self.set.rate.map_or(0, |rate| rate.value)
    }

    /// The window, with what it is called.
    pub(crate) fn window(&self) -> Sourced<Per, Source> {
        self.set.per.unwrap_or(built_in(Per { length: self.quotas[0].per(), unit: None }))
    }

    /// The numbers a store holds.
    pub(crate) fn config(&self) -> Config {
        let kept = match (self.set.keep_alive, self.keys) {
            (Some(kept), _) => kept.value,
            (None, Keys::One) => Duration::ZERO,
            (None, Keys::Many) => kept_idle(self.quotas[0].per()),
        };
        self.config_of(&self.quotas[0], kept)
    }

    /// The numbers a store holds of the limits beside the first. They are always kept for a while only:
    /// a list that changes would leave them behind for ever.
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
        // Redisson refuses a shorter one, and state must outlive what it counts.
        config.keep_alive_ms(match whole_ms(kept) {
            0 => 0,
            ms => ms.max(per_ms * 2).max(config.counts_for_ms()),
        })
    }

    /// What decides whether it can be split.
    pub(crate) fn splitting(&self) -> Layer {
        Layer {
            shards: Some(self.set.shards()),
            mode: Some(self.set.mode()),
            algorithm: Some(self.set.algorithm()),
            rate: Some(self.rate()),
            burst: self.set.burst.map(|burst| burst.value),
            warm_up: self.set.warm_up.map(|warm_up| warm_up.value),
            limits: self.set.limits.as_ref().map(|limits| limits.value.clone()),
            ..Layer::default()
        }
    }

    /// The settings as a report shows them. Several limits take the place of the numbers of one.
    pub(crate) fn rows(&self) -> Vec<Setting> {
        let mut set = self.set.clone();
        if set.limits.is_some() {
            (set.rate, set.per, set.algorithm, set.burst) = (None, None, None, None);
        }
        let rows = set.rows().into_iter();
        rows.map(|(name, value, source)| Setting { name, value, source }).collect()
    }
}

/// Makes the settings those of one limit, and returns it.
fn settle_one(set: &mut Merged<Source>, layers: &Layers<'_>) -> Result<Quota, Unresolved> {
    let enabled = set.enabled();
    // A limiter that is turned off needs no numbers.
    let rate = set.rate.or((!enabled).then_some(built_in(0)));
    let rate = rate.ok_or(Unresolved::Missing("rate"))?;
    let idle = rate.value == 0 || !enabled;
    let second = Per { length: Duration::from_secs(1), unit: None };
    let per = set.per.or(idle.then_some(built_in(second))).ok_or(Unresolved::Missing("per"))?;
    (set.rate, set.per) = (Some(rate), Some(per));
    let is_bucket = set.algorithm() == Algorithm::TokenBucket;
    // Both say what a token bucket stores; the nearer one counts.
    let stored = layers.iter().find(|(_, said)| said.burst.is_some() || said.warm_up.is_some());
    let warms_up = stored.is_some_and(|(_, said)| said.warm_up.is_some());
    set.warm_up = set.warm_up.filter(|_| is_bucket && warms_up);
    set.burst = (is_bucket && !warms_up).then(|| set.burst.unwrap_or(rate));
    let zone = set.time_zone.unwrap_or(built_in(TimeZone::default()));
    set.time_zone = per.value.unit.map(|_| zone);
    let rule = match set.algorithm() {
        Algorithm::SlidingWindow => Rule::SlidingWindow,
        Algorithm::TokenBucket => match (set.warm_up, set.burst) {
            (Some(warm_up), _) => Rule::WarmingBucket { warm_up: warm_up.value },
            (None, burst) => Rule::TokenBucket { burst: burst.unwrap_or(rate).value },
        },
        Algorithm::FixedWindow => {
            let calendar = per.value.unit.map(|unit| Calendar { unit, zone: zone.value });
            Rule::FixedWindow { calendar }
        }
        Algorithm::LeakyBucket => Rule::LeakyBucket,
    };
    Ok(Quota::stored(rate.value.into(), whole_ms(per.value.length), rule))
}
