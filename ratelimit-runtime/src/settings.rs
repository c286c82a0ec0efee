//! The numbers a limiter ends up with, and where each came from.

use std::{fmt, time::Duration};

use ratelimit_spec::{Algorithm, Mode, OnDrift, OnStoreError, Settings, Wait};

use crate::{Quota, clock::whole_ms, store::Config};

/// Calls that may wait for one limiter where nobody says how many.
const MAX_WAITERS: u32 = 10_000;

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
    /// Length of the window.
    pub per: Sourced<Duration>,
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
    /// What decides while the store is away.
    pub on_store_error: Sourced<OnStoreError>,
    /// How a difference from the stored numbers is settled.
    pub on_drift: Sourced<OnDrift>,
    /// How long idle state is kept in Redis; zero is for ever.
    pub keep_alive: Sourced<Duration>,
}

/// Whether a limiter's keys are one or many; many expire when idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    One,
    Many,
}

/// What kept a limiter from having numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Missing(pub(crate) &'static str);

impl Effective {
    /// Takes each setting from the first layer that has it.
    pub(crate) fn resolve(layers: &[(Source, &Settings)], keys: Keys) -> Result<Self, Missing> {
        fn first<T: Copy>(
            layers: &[(Source, &Settings)],
            get: impl Fn(&Settings) -> Option<T>,
        ) -> Option<Sourced<T>> {
            layers.iter().find_map(|(source, settings)| {
                get(settings).map(|value| Sourced { value, source: *source })
            })
        }
        fn or_built_in<T>(found: Option<Sourced<T>>, value: T) -> Sourced<T> {
            found.unwrap_or(Sourced { value, source: Source::BuiltIn })
        }

        let enabled = or_built_in(first(layers, |s| s.enabled), true);
        let (rate, per) = (first(layers, |s| s.rate), first(layers, |s| s.per));
        // A limiter that is turned off needs no numbers.
        let spare = |value| (!enabled.value).then_some(Sourced { value, source: Source::BuiltIn });
        let rate = rate.or(spare(0)).ok_or(Missing("rate"))?;
        let no_per = Sourced { value: Duration::from_secs(1), source: Source::BuiltIn };
        let idle = rate.value == 0 || !enabled.value;
        let per = per.or(idle.then_some(no_per)).ok_or(Missing("per"))?;
        let kept = match keys {
            Keys::One => Duration::ZERO,
            Keys::Many => (per.value * 2).max(Duration::from_secs(60)),
        };
        let algorithm = or_built_in(first(layers, |s| s.algorithm), Algorithm::SlidingWindow);
        // Both say what a token bucket stores; the nearer one counts.
        let is_bucket = algorithm.value == Algorithm::TokenBucket;
        let nearest =
            layers.iter().find(|(_, said)| said.burst.is_some() || said.warm_up.is_some());
        let warm_up = nearest.and_then(|layer| first(std::slice::from_ref(layer), |s| s.warm_up));
        let burst = first(layers, |s| s.burst);
        Ok(Self {
            enabled,
            shadow: or_built_in(first(layers, |s| s.shadow), false),
            rate,
            per,
            mode: or_built_in(first(layers, |s| s.mode), Mode::Overall),
            algorithm,
            burst: (is_bucket && warm_up.is_none()).then_some(burst.unwrap_or(rate)),
            warm_up: warm_up.filter(|_| is_bucket),
            wait: or_built_in(first(layers, |s| s.wait), Wait::Forever),
            max_waiters: or_built_in(first(layers, |s| s.max_waiters), MAX_WAITERS),
            on_store_error: or_built_in(first(layers, |s| s.on_store_error), OnStoreError::Local),
            on_drift: or_built_in(first(layers, |s| s.on_drift), OnDrift::Reset),
            keep_alive: or_built_in(first(layers, |s| s.keep_alive), kept),
        })
    }

    /// The numbers a store holds.
    pub(crate) fn config(&self) -> Config {
        let (rate, per_ms) = (self.rate.value.into(), whole_ms(self.per.value));
        let config = Config::new(rate, per_ms, self.mode.value)
            .algorithm(self.algorithm.value, self.burst.map_or(0, |burst| burst.value))
            .warm_up_ms(self.warm_up.map_or(0, |warm_up| whole_ms(warm_up.value)));
        // Redisson refuses a shorter one, and state must outlive what it counts.
        config.keep_alive_ms(match whole_ms(self.keep_alive.value) {
            0 => 0,
            ms => ms.max(per_ms * 2).max(config.counts_for_ms()),
        })
    }

    /// The quota; of rate 0 when it admits nobody.
    #[must_use]
    pub fn quota(&self) -> Quota {
        self.config().quota()
    }
}
