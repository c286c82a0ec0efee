//! All limiters of one declared key.

use std::sync::Arc;

use once_cell::sync::{Lazy, OnceCell};
use ratelimit_spec::Settings;

use super::{Inner, cores::Cores};
use crate::{
    limiter::{Core, Tally},
    metrics::{Measured, UNNAMED},
    settings::Keys,
};

pub(crate) struct Family {
    /// The key as it was written.
    pub(crate) key: Arc<str>,
    pub(crate) keys: Keys,
    pub(crate) annotation: Option<Settings>,
    pub(crate) declared: Option<Settings>,
    pub(crate) tally: Tally,
    pub(crate) measured: Measured,
    only: OnceCell<Arc<Core>>,
    cores: Lazy<Cores>,
}

impl Family {
    /// A key with annotations; each setting is that of the first one that has it.
    pub(crate) fn annotated(
        key: &str,
        keys: Keys,
        annotations: &[Settings],
        declared: &[Settings],
    ) -> Self {
        Self {
            annotation: Some(merge(annotations)),
            declared: Some(merge(declared)),
            ..Self::unannotated(key, keys)
        }
    }

    /// A key that only exists at run time.
    pub(crate) fn unannotated(key: &str, keys: Keys) -> Self {
        Self {
            key: key.into(),
            keys,
            annotation: None,
            declared: None,
            tally: Tally::default(),
            measured: Measured::new(key),
            only: OnceCell::new(),
            cores: Lazy::new(Cores::default),
        }
    }

    /// A name that was built at run time, of which there may be any number.
    pub(crate) fn unnamed(name: &str, keys: Keys) -> Self {
        Self { measured: Measured::new(UNNAMED), ..Self::unannotated(name, keys) }
    }

    /// The only limiter of a key without placeholders.
    pub(crate) fn only(self: &Arc<Self>, limits: &Inner, name: &str) -> Arc<Core> {
        let make = || Arc::new(Core::new(limits, Arc::clone(self), name, None));
        Arc::clone(self.only.get_or_init(make))
    }

    /// The limiter of a key that a layer rendered, with the settings that the layer was given.
    #[cfg(feature = "tower")]
    pub(crate) fn core_given(
        self: &Arc<Self>,
        limits: &Inner,
        name: &str,
        given: Option<&crate::Settings>,
    ) -> Arc<Core> {
        let make = || Core::new(limits, Arc::clone(self), name, given.cloned());
        match self.keys {
            Keys::One => Arc::clone(self.only.get_or_init(|| Arc::new(make()))),
            Keys::Many => self.cores.get_or_make(name, make),
        }
    }

    /// The limiter of a rendered key.
    pub(crate) fn core(self: &Arc<Self>, limits: &Inner, name: &str) -> Arc<Core> {
        self.cores.get_or_make(name, || Core::new(limits, Arc::clone(self), name, None))
    }
}

/// Each setting of the first layer that has it.
fn merge(layers: &[Settings]) -> Settings {
    fn first<T>(layers: &[Settings], get: impl Fn(&Settings) -> Option<T>) -> Option<T> {
        layers.iter().find_map(get)
    }
    Settings {
        enabled: first(layers, |s| s.enabled),
        shadow: first(layers, |s| s.shadow),
        rate: first(layers, |s| s.rate),
        per: first(layers, |s| s.per),
        unit: first(layers, Settings::window).and_then(|window| window.unit),
        time_zone: first(layers, |s| s.time_zone),
        limits: first(layers, |s| s.limits.clone()),
        mode: first(layers, |s| s.mode),
        algorithm: first(layers, |s| s.algorithm),
        burst: first(layers, |s| s.burst),
        warm_up: first(layers, |s| s.warm_up),
        wait: first(layers, |s| s.wait),
        max_waiters: first(layers, |s| s.max_waiters),
        max_debt: first(layers, |s| s.max_debt),
        on_store_error: first(layers, |s| s.on_store_error),
        refund_on: first(layers, |s| s.refund_on),
        on_drift: first(layers, |s| s.on_drift),
        keep_alive: first(layers, |s| s.keep_alive),
        shards: first(layers, |s| s.shards),
    }
}

impl std::fmt::Debug for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Family").field("key", &self.key).finish_non_exhaustive()
    }
}
