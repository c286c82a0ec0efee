//! What the macro wrote down of one place in the source, and the list of all there are.

use std::{collections::HashMap, time::Duration};

use once_cell::sync::Lazy;
use ratelimit_spec::{Algorithm, MAX_RATE, Mode, OnStoreError, Settings, Wait};

/// What was written in one place in the source.
#[derive(Clone, Copy, Debug)]
pub struct Annotation {
    pub(crate) key: &'static str,
    pub(crate) literals: &'static [&'static str],
    pub(crate) location: Location,
    rate: Option<u32>,
    per_ms: Option<u64>,
    declared: Option<(u32, u64)>,
    mode: Option<Mode>,
    algorithm: Option<Algorithm>,
    burst: Option<u32>,
    warm_up_ms: Option<u64>,
    wait: Option<Wait>,
    on_store_error: Option<OnStoreError>,
    pub(crate) cost: Cost,
    /// Whether the function can carry a rejection.
    pub(crate) fallible: bool,
}

/// How many permits a call takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cost {
    Literal(u32),
    Computed,
}

/// Where an [`Annotation`] stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    pub(crate) function: &'static str,
    pub(crate) file: &'static str,
    pub(crate) line: u32,
}

impl Location {
    /// A place in the source.
    #[must_use]
    pub const fn new(function: &'static str, file: &'static str, line: u32) -> Self {
        Self { function, file, line }
    }
}

impl Annotation {
    /// An annotation whose call takes 1 permit and whose function cannot carry a rejection.
    #[must_use]
    pub const fn new(
        key: &'static str,
        literals: &'static [&'static str],
        location: Location,
    ) -> Self {
        Self {
            key,
            literals,
            location,
            rate: None,
            per_ms: None,
            declared: None,
            mode: None,
            algorithm: None,
            burst: None,
            warm_up_ms: None,
            wait: None,
            on_store_error: None,
            cost: Cost::Literal(1),
            fallible: false,
        }
    }

    /// Permits per window.
    ///
    /// # Panics
    ///
    /// At compile time, when a constant is no rate.
    #[must_use]
    pub const fn rate(mut self, rate: u32) -> Self {
        assert!(rate >= 1 && rate <= MAX_RATE, "`rate` must be 1 to 2147483647 permits");
        self.rate = Some(rate);
        self
    }

    /// The window, in milliseconds.
    #[must_use]
    pub const fn per_ms(mut self, per_ms: u64) -> Self {
        self.per_ms = Some(per_ms);
        self
    }

    /// What the limits file said at compile time, where the annotation says nothing.
    #[must_use]
    pub const fn declared(mut self, rate: u32, per_ms: u64) -> Self {
        self.declared = Some((rate, per_ms));
        self
    }

    /// One budget for all, or one per process.
    #[must_use]
    pub const fn mode(mut self, mode: Mode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// The rule by which permits are counted.
    #[must_use]
    pub const fn algorithm(mut self, algorithm: Algorithm) -> Self {
        self.algorithm = Some(algorithm);
        self
    }

    /// What a token bucket holds.
    ///
    /// # Panics
    ///
    /// At compile time, when a constant is no burst.
    #[must_use]
    pub const fn burst(mut self, burst: u32) -> Self {
        assert!(burst >= 1 && burst <= MAX_RATE, "`burst` must be 1 to 2147483647 permits");
        self.burst = Some(burst);
        self
    }

    /// How long a token bucket takes to warm up, in milliseconds.
    #[must_use]
    pub const fn warm_up_ms(mut self, warm_up_ms: u64) -> Self {
        self.warm_up_ms = Some(warm_up_ms);
        self
    }

    /// How long a call may wait.
    #[must_use]
    pub const fn wait(mut self, wait: Wait) -> Self {
        self.wait = Some(wait);
        self
    }

    /// What decides while the store is away.
    #[must_use]
    pub const fn on_store_error(mut self, on_store_error: OnStoreError) -> Self {
        self.on_store_error = Some(on_store_error);
        self
    }

    /// What a call takes.
    #[must_use]
    pub const fn permits(mut self, permits: u32) -> Self {
        self.cost = Cost::Literal(permits);
        self
    }

    /// A call takes what an expression says.
    #[must_use]
    pub const fn computed_permits(mut self) -> Self {
        self.cost = Cost::Computed;
        self
    }

    /// The function can carry a rejection.
    #[must_use]
    pub const fn fallible(mut self) -> Self {
        self.fallible = true;
        self
    }

    /// Marks a `limiter!`, whose cost is whatever its methods are asked for.
    #[must_use]
    pub const fn handle(self) -> Self {
        self.computed_permits().fallible()
    }

    /// The name of a key without placeholders.
    pub(crate) fn fixed(&self) -> Option<&'static str> {
        match self.literals {
            [name] => Some(name),
            _ => None,
        }
    }

    /// What the annotation says.
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            rate: self.rate,
            per: self.per_ms.map(Duration::from_millis),
            mode: self.mode,
            algorithm: self.algorithm,
            burst: self.burst,
            warm_up: self.warm_up_ms.map(Duration::from_millis),
            wait: self.wait,
            on_store_error: self.on_store_error,
            ..Settings::default()
        }
    }

    /// What the limits file said at compile time.
    pub(crate) fn declared_settings(&self) -> Settings {
        Settings {
            rate: self.declared.map(|(rate, _)| rate),
            per: self.declared.map(|(_, per_ms)| Duration::from_millis(per_ms)),
            ..Settings::default()
        }
    }
}

/// An annotation on the list of all there are.
#[derive(Debug)]
pub struct Registered(pub &'static Annotation);

inventory::collect!(Registered);

/// Every annotated place the program was linked with.
pub(crate) fn all() -> Vec<&'static Annotation> {
    inventory::iter::<Registered>().map(|Registered(annotation)| *annotation).collect()
}

/// The annotated place of a key without placeholders.
pub(crate) fn of_fixed(key: &str) -> Option<&'static Annotation> {
    static FIXED: Lazy<HashMap<&str, &Annotation>> =
        Lazy::new(|| all().into_iter().filter_map(|site| Some((site.fixed()?, site))).collect());
    FIXED.get(key).copied()
}
