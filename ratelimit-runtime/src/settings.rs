//! The numbers a limiter ends up with, and where each came from.

mod given;
mod several;

use std::{fmt, sync::Arc, time::Duration};

use ratelimit_spec::{
    self as spec, Algorithm, Calendar, CalendarUnit, Limit, Mode, OnDrift, OnStoreError, Per,
    RefundOn, Rule, TimeZone, Wait,
};

pub use self::given::Settings;
pub(crate) use self::several::{Unresolved, written};
use crate::{Quota, clock::whole_ms, store::Config};

/// Calls that may wait for one limiter where nobody says how many.
const MAX_WAITERS: u32 = 10_000;

/// The least time for which an idle key among many is kept.
const LEAST_KEPT: Duration = Duration::from_secs(60);

/// Where a setting came from; the earlier in this list wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Source {
    /// An entry under `overrides` in the limits file.
    Override,
    /// The limiter's entry in the limits file.
    LimitsFile,
    /// An entry under `prefixes` in the limits file.
    Prefix,
    /// The attribute, or the quota given in code.
    Annotation,
    /// The limits file as it was when the program was compiled.
    Compiled,
    /// What is said of all limiters: the limits file's own `shadow`, or the builder's.
    Global,
    /// `default` in the limits file.
    Default,
    /// Nobody set it.
    BuiltIn,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Override => "override",
            Self::LimitsFile => "limits file",
            Self::Prefix => "prefix",
            Self::Annotation => "annotation",
            Self::Compiled => "limits file at compile time",
            Self::Global => "global",
            Self::Default => "default",
            Self::BuiltIn => "built in",
        })
    }
}

/// A setting and where it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sourced<T> {
    /// The setting.
    pub value: T,
    /// Where it came from.
    pub source: Source,
}

/// Everything one limiter goes by.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Effective {
    /// Whether it limits at all.
    pub enabled: Sourced<bool>,
    /// Whether it only counts whom it would refuse.
    pub shadow: Sourced<bool>,
    /// Permits per window; 0 admits nobody.
    pub rate: Sourced<u32>,
    /// Length of the window; of a calendar's, how long one usually is.
    pub per: Sourced<Duration>,
    /// The unit of the calendar that `per` is; `None` when it is a length.
    pub unit: Option<CalendarUnit>,
    /// By whose clocks the windows of a calendar begin; `None` when `per` is a length.
    pub time_zone: Option<Sourced<TimeZone>>,
    /// All limits, where there are several, the shortest window first; `rate`, `per`, `algorithm` and
    /// `burst` are those of the first.
    pub limits: Option<Sourced<Arc<[Quota]>>>,
    /// One budget for all, or one per process.
    pub mode: Sourced<Mode>,
    /// The rule by which permits are counted.
    pub algorithm: Sourced<Algorithm>,
    /// What a token bucket holds; `None` for one that warms up, and for every other algorithm.
    pub burst: Option<Sourced<u32>>,
    /// How long a token bucket that warms up takes for that.
    pub warm_up: Option<Sourced<Duration>>,
    /// How long a call may wait.
    pub wait: Sourced<Wait>,
    /// How many calls of this process may wait at the same time.
    pub max_waiters: Sourced<u32>,
    /// How many permits can be owed; `None` for as many as can be granted at once.
    pub max_debt: Option<Sourced<u32>>,
    /// What decides while the store is away.
    pub on_store_error: Sourced<OnStoreError>,
    /// Whether a call whose body fails gives its permits back.
    pub refund_on: Sourced<RefundOn>,
    /// How a difference from the stored numbers is settled.
    pub on_drift: Sourced<OnDrift>,
    /// How long idle state is kept in Redis; zero is for ever.
    pub keep_alive: Sourced<Duration>,
    /// How many parts it is split into in Redis.
    pub shards: Sourced<u32>,
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

impl Effective {
    /// Takes each setting from the first layer that has it.
    pub(crate) fn resolve(
        layers: &[(Source, &spec::Settings)],
        keys: Keys,
    ) -> Result<Self, Unresolved> {
        fn first<T: Copy>(
            layers: &[(Source, &spec::Settings)],
            get: impl Fn(&spec::Settings) -> Option<T>,
        ) -> Option<Sourced<T>> {
            layers.iter().find_map(|(source, settings)| {
                get(settings).map(|value| Sourced { value, source: *source })
            })
        }
        fn or_built_in<T>(found: Option<Sourced<T>>, value: T) -> Sourced<T> {
            found.unwrap_or(Sourced { value, source: Source::BuiltIn })
        }

        let enabled = or_built_in(first(layers, |s| s.enabled), true);
        let algorithm = or_built_in(first(layers, |s| s.algorithm), Algorithm::SlidingWindow);
        let several = several::limits(layers)
            .or_else(|why| if enabled.value { Err(why) } else { Ok(None) })?;
        if let Some(limits) = several.filter(|_| enabled.value) {
            let quotas = several::quotas(&limits, algorithm.value)?;
            return Self::of_several(quotas, layers, keys);
        }
        let (rate, window) = (first(layers, |s| s.rate), first(layers, spec::Settings::window));
        let per = window.map(|Sourced { value, source }| Sourced { value: value.length, source });
        let unit = window.and_then(|window| window.value.unit);
        // A limiter that is turned off needs no numbers.
        let spare = |value| (!enabled.value).then_some(Sourced { value, source: Source::BuiltIn });
        let rate = rate.or(spare(0)).ok_or(Unresolved::Missing("rate"))?;
        let no_per = Sourced { value: Duration::from_secs(1), source: Source::BuiltIn };
        let idle = rate.value == 0 || !enabled.value;
        let per = per.or(idle.then_some(no_per)).ok_or(Unresolved::Missing("per"))?;
        let kept = match keys {
            Keys::One => Duration::ZERO,
            Keys::Many => kept_idle(per.value),
        };
        // Both say what a token bucket stores; the nearer one counts.
        let is_bucket = algorithm.value == Algorithm::TokenBucket;
        let nearest =
            layers.iter().find(|(_, said)| said.burst.is_some() || said.warm_up.is_some());
        let warm_up = nearest.and_then(|layer| first(std::slice::from_ref(layer), |s| s.warm_up));
        let burst = first(layers, |s| s.burst).unwrap_or(rate);
        let time_zone = or_built_in(first(layers, |s| s.time_zone), TimeZone::default());
        Ok(Self {
            enabled,
            shadow: or_built_in(first(layers, |s| s.shadow), false),
            rate,
            per,
            unit,
            time_zone: unit.map(|_| time_zone),
            limits: None,
            mode: or_built_in(first(layers, |s| s.mode), Mode::Overall),
            algorithm,
            burst: (is_bucket && warm_up.is_none()).then_some(burst),
            warm_up: warm_up.filter(|_| is_bucket),
            wait: or_built_in(first(layers, |s| s.wait), Wait::Forever),
            max_waiters: or_built_in(first(layers, |s| s.max_waiters), MAX_WAITERS),
            max_debt: first(layers, |s| s.max_debt),
            on_store_error: or_built_in(first(layers, |s| s.on_store_error), OnStoreError::Local),
            refund_on: or_built_in(first(layers, |s| s.refund_on), RefundOn::Never),
            on_drift: or_built_in(first(layers, |s| s.on_drift), OnDrift::Reset),
            keep_alive: or_built_in(first(layers, |s| s.keep_alive), kept),
            shards: or_built_in(first(layers, |s| s.shards), 1),
        })
    }

    /// The window, with what it is called.
    pub(crate) fn window(&self) -> Per {
        Per { length: self.per.value, unit: self.unit }
    }

    /// As by [`resolve`](Self::resolve), with these limits: it is asked for the first one alone, and
    /// told of the others.
    fn of_several(
        quotas: Sourced<Arc<[Quota]>>,
        layers: &[(Source, &spec::Settings)],
        keys: Keys,
    ) -> Result<Self, Unresolved> {
        let Limit { rate, per, algorithm, burst } = written(&quotas.value[0]);
        let main = spec::Settings {
            rate: Some(rate),
            per: Some(per),
            algorithm,
            burst,
            ..spec::Settings::default()
        };
        let main = (quotas.source, &main);
        let layers: Vec<_> = std::iter::once(main).chain(layers.iter().copied()).collect();
        let one = Self::resolve(&layers, keys)?;
        let several = quotas.value.len() > 1;
        Ok(Self { limits: several.then_some(quotas), ..one })
    }

    /// The numbers a store holds.
    pub(crate) fn config(&self) -> Config {
        let quota = Quota::stored(self.rate.value.into(), whole_ms(self.per.value), self.rule());
        self.config_of(&quota, self.keep_alive.value)
    }

    fn rule(&self) -> Rule {
        match self.algorithm.value {
            Algorithm::SlidingWindow => Rule::SlidingWindow,
            Algorithm::TokenBucket => match self.warm_up {
                Some(warm_up) => Rule::WarmingBucket { warm_up: warm_up.value },
                None => Rule::TokenBucket { burst: self.burst.unwrap_or(self.rate).value },
            },
            Algorithm::FixedWindow => {
                let calendar = self.unit.zip(self.time_zone);
                let calendar = calendar.map(|(unit, zone)| Calendar { unit, zone: zone.value });
                Rule::FixedWindow { calendar }
            }
            Algorithm::LeakyBucket => Rule::LeakyBucket,
        }
    }

    /// The numbers a store holds of the limits beside the first. They are always kept for a while only:
    /// a list that changes would leave them behind for ever.
    pub(crate) fn further(&self) -> Vec<Config> {
        let kept = |quota: &Quota| match self.keep_alive.source {
            Source::BuiltIn => kept_idle(quota.per()),
            _ => self.keep_alive.value,
        };
        let quotas = self.limits.iter().flat_map(|limits| limits.value.iter().skip(1));
        quotas.map(|quota| self.config_of(quota, kept(quota))).collect()
    }

    fn config_of(&self, quota: &Quota, kept: Duration) -> Config {
        let per_ms = whole_ms(quota.per());
        let config = Config::new(quota.rate(), per_ms, self.mode.value).with_quota(quota);
        // Redisson refuses a shorter one, and state must outlive what it counts.
        config.keep_alive_ms(match whole_ms(kept) {
            0 => 0,
            ms => ms.max(per_ms * 2).max(config.counts_for_ms()),
        })
    }

    /// What decides whether it can be split.
    pub(crate) fn splitting(&self) -> spec::Settings {
        let several = self.limits.as_ref();
        spec::Settings {
            shards: Some(self.shards.value),
            mode: Some(self.mode.value),
            algorithm: Some(self.algorithm.value),
            rate: Some(self.rate.value),
            burst: self.burst.map(|burst| burst.value),
            warm_up: self.warm_up.map(|warm_up| warm_up.value),
            limits: several.map(|limits| limits.value.iter().map(written).collect()),
            ..spec::Settings::default()
        }
    }

    /// The quota; of rate 0 when it admits nobody.
    #[must_use]
    pub fn quota(&self) -> Quota {
        self.config().quota()
    }
}
