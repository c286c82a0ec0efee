//! The annotation that the macro records for one place in the source, and the list of all of them.

#[cfg(feature = "tower")]
mod layer;

use std::{
    collections::{BTreeSet, HashMap},
    num::{NonZeroU32, NonZeroU64},
    time::Duration,
};

#[cfg(feature = "tower")]
pub(crate) use self::layer::LayerKey;
use once_cell::sync::Lazy;
use ratelimit_spec::{
    Algorithm, CalendarUnit, Limit, MAX_RATE, Mode, OnStoreError, Per, RefundOn, Settings,
    Template, Wait,
};

/// The annotation at one place in the source.
#[derive(Clone, Copy, Debug)]
pub struct Annotation {
    pub(crate) key: &'static str,
    /// `src/shop.rs:12 shop::place_order`: in one text, which takes less of a program than its parts.
    at: &'static str,
    rate: Option<NonZeroU32>,
    per_ms: Option<NonZeroU64>,
    rare: Option<&'static Rare>,
    declared: Option<&'static FromFile>,
    mode: Option<Mode>,
    algorithm: Option<Algorithm>,
    burst: Option<NonZeroU32>,
    wait: Option<Wait>,
    on_store_error: Option<OnStoreError>,
    refund_on: Option<RefundOn>,
    /// Whether its function is compiled to classify results for `refund_on`.
    pub(crate) judges: bool,
    pub(crate) cost: Cost,
    /// Whether the function can return a rejection.
    pub(crate) fallible: bool,
}

/// The settings of an annotation that few annotations have.
#[derive(Clone, Copy, Debug)]
pub struct Rare {
    unit: Option<CalendarUnit>,
    time_zone: Option<&'static str>,
    limits: Option<&'static [(u32, u64)]>,
    warm_up_ms: Option<NonZeroU64>,
}

/// The limits that the limits file sets at compile time. Windows are in milliseconds.
#[derive(Clone, Copy, Debug)]
pub enum FromFile {
    /// A rate and its window.
    Rate(u32, u64),
    /// A rate, its window as a unit of the calendar, and the time zone in which it begins.
    Calendar(u32, CalendarUnit, &'static str),
    /// Several limits: the rate, the window, the algorithm and the burst of each.
    Several(&'static [(u32, u64, Option<Algorithm>, Option<u32>)]),
}

/// The number of permits that a call takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cost {
    Literal(u32),
    Computed,
}

/// The position of an [`Annotation`], ordered as in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Location {
    pub(crate) file: &'static str,
    pub(crate) line: u32,
    pub(crate) function: &'static str,
}

impl Annotation {
    /// An annotation whose call takes 1 permit and whose function cannot carry a rejection; `at` is
    /// `src/shop.rs:12 shop::place_order`.
    #[must_use]
    pub const fn new(key: &'static str, at: &'static str) -> Self {
        Self {
            key,
            at,
            rate: None,
            per_ms: None,
            rare: None,
            declared: None,
            mode: None,
            algorithm: None,
            burst: None,
            wait: None,
            on_store_error: None,
            refund_on: None,
            judges: false,
            cost: Cost::Literal(1),
            fallible: false,
        }
    }

    /// Permits per window.
    ///
    /// # Panics
    ///
    /// Panics at compile time if a constant is not a valid rate.
    #[must_use]
    pub const fn rate(mut self, rate: u32) -> Self {
        assert!(rate >= 1 && rate <= MAX_RATE, "`rate` must be 1 to 2147483647 permits");
        self.rate = NonZeroU32::new(rate);
        self
    }

    /// The window, in milliseconds.
    #[must_use]
    pub const fn per_ms(mut self, per_ms: u64) -> Self {
        self.per_ms = NonZeroU64::new(per_ms);
        self
    }

    /// Sets what few annotations set.
    #[must_use]
    pub const fn rare(mut self, rare: &'static Rare) -> Self {
        self.rare = Some(rare);
        self
    }

    /// Sets the limits of the limits file at compile time, for an annotation without its own.
    #[must_use]
    pub const fn declared(mut self, limits: &'static FromFile) -> Self {
        self.declared = Some(limits);
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

    /// Sets how many permits a token bucket stores.
    ///
    /// # Panics
    ///
    /// Panics at compile time if a constant is not a valid burst.
    #[must_use]
    pub const fn burst(mut self, burst: u32) -> Self {
        assert!(burst >= 1 && burst <= MAX_RATE, "`burst` must be 1 to 2147483647 permits");
        self.burst = NonZeroU32::new(burst);
        self
    }

    /// How long a call may wait.
    #[must_use]
    pub const fn wait(mut self, wait: Wait) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Sets how calls are decided while the store is unavailable.
    #[must_use]
    pub const fn on_store_error(mut self, on_store_error: OnStoreError) -> Self {
        self.on_store_error = Some(on_store_error);
        self
    }

    /// Which calls give their permits back. The function is compiled to do so either way.
    #[must_use]
    pub const fn refund_on(mut self, refund_on: RefundOn) -> Self {
        self.refund_on = Some(refund_on);
        self.judges = true;
        self
    }

    /// Sets how many permits a call takes.
    #[must_use]
    pub const fn permits(mut self, permits: u32) -> Self {
        self.cost = Cost::Literal(permits);
        self
    }

    /// Marks a call whose cost is an expression.
    #[must_use]
    pub const fn computed_permits(mut self) -> Self {
        self.cost = Cost::Computed;
        self
    }

    /// Marks a function that can return a rejection.
    #[must_use]
    pub const fn fallible(mut self) -> Self {
        self.fallible = true;
        self
    }

    /// Marks a `limiter!`, whose cost is an argument of its methods.
    #[must_use]
    pub const fn handle(mut self) -> Self {
        // The holder decides which permits to release.
        self.judges = true;
        self.computed_permits().fallible()
    }

    /// Returns where the annotation is.
    pub(crate) fn location(&self) -> Location {
        let (place, function) = self.at.rsplit_once(' ').unwrap_or((self.at, ""));
        let (file, line) = place.rsplit_once(':').unwrap_or((place, ""));
        Location { file, line: line.parse().unwrap_or(0), function }
    }

    /// Returns the parsed key.
    pub(crate) fn template(&self) -> Template {
        Template::parse(self.key).expect("the macro has parsed it")
    }

    /// Returns the name of a key without placeholders.
    pub(crate) fn fixed(&self) -> Option<String> {
        let template = self.template();
        template.is_static().then(|| template.literals().concat())
    }

    /// Returns the settings of the annotation.
    pub(crate) fn settings(&self) -> Settings {
        let Rare { unit, time_zone, limits, warm_up_ms } = *self.rare.unwrap_or(&Rare::NONE);
        Settings {
            rate: self.rate.map(NonZeroU32::get),
            per: window(self.per_ms.map(NonZeroU64::get), unit),
            time_zone: time_zone.and_then(|name| name.parse().ok()),
            limits: limits.map(|limits| limits.iter().map(limit).collect()),
            mode: self.mode,
            algorithm: self.algorithm,
            burst: self.burst.map(NonZeroU32::get),
            warm_up: warm_up_ms.map(|ms| Duration::from_millis(ms.get())),
            wait: self.wait,
            on_store_error: self.on_store_error,
            refund_on: self.refund_on,
            ..Settings::default()
        }
    }

    /// Returns the settings of the limits file at compile time.
    pub(crate) fn declared_settings(&self) -> Settings {
        let none = Settings::default();
        match self.declared {
            None => none,
            Some(FromFile::Rate(rate, per_ms)) => {
                Settings { rate: Some(*rate), per: window(Some(*per_ms), None), ..none }
            }
            Some(FromFile::Calendar(rate, unit, zone)) => Settings {
                rate: Some(*rate),
                per: window(None, Some(*unit)),
                time_zone: zone.parse().ok(),
                algorithm: Some(Algorithm::FixedWindow),
                ..none
            },
            Some(FromFile::Several(limits)) => {
                let limits = limits.iter().map(|(rate, per_ms, algorithm, burst)| Limit {
                    algorithm: *algorithm,
                    burst: *burst,
                    ..limit(&(*rate, *per_ms))
                });
                Settings { limits: Some(limits.collect()), ..none }
            }
        }
    }
}

impl Rare {
    /// The settings of an annotation that sets none of them.
    pub const NONE: Self = Self { unit: None, time_zone: None, limits: None, warm_up_ms: None };

    /// The window, as a unit of the calendar.
    #[must_use]
    pub const fn unit(mut self, unit: CalendarUnit) -> Self {
        self.unit = Some(unit);
        self
    }

    /// Sets the time zone in which it begins; a name that the macro found in the database.
    #[must_use]
    pub const fn time_zone(mut self, name: &'static str) -> Self {
        self.time_zone = Some(name);
        self
    }

    /// Sets several limits that apply together: the rate of each, and its window in milliseconds.
    ///
    /// # Panics
    ///
    /// Panics at compile time if a constant is not a valid rate.
    #[must_use]
    pub const fn limits(mut self, limits: &'static [(u32, u64)]) -> Self {
        let mut n = 0;
        while n < limits.len() {
            let (rate, _) = limits[n];
            assert!(rate >= 1 && rate <= MAX_RATE, "`rate` must be 1 to 2147483647 permits");
            n += 1;
        }
        self.limits = Some(limits);
        self
    }

    /// How long a token bucket takes to warm up, in milliseconds.
    #[must_use]
    pub const fn warm_up_ms(mut self, warm_up_ms: u64) -> Self {
        self.warm_up_ms = NonZeroU64::new(warm_up_ms);
        self
    }
}

/// Returns a window from its length, or from the name of its calendar unit.
fn window(per_ms: Option<u64>, unit: Option<CalendarUnit>) -> Option<Per> {
    let length = unit.map(CalendarUnit::nominal).or(per_ms.map(Duration::from_millis))?;
    Some(Per { length, unit })
}

fn limit((rate, per_ms): &(u32, u64)) -> Limit {
    Limit::new(*rate, Duration::from_millis(*per_ms))
}

/// An annotation on the list of all there are.
#[derive(Debug)]
pub struct Registered(pub &'static Annotation);

inventory::collect!(Registered);

/// Returns every annotated place that is linked into the program.
pub(crate) fn all() -> Vec<&'static Annotation> {
    inventory::iter::<Registered>().map(|Registered(annotation)| *annotation).collect()
}

/// Returns the keys of all existing layers.
#[cfg(feature = "tower")]
pub(crate) fn layers() -> BTreeSet<String> {
    LayerKey::all().keys().map(ToString::to_string).collect()
}

#[cfg(not(feature = "tower"))]
pub(crate) fn layers() -> BTreeSet<String> {
    BTreeSet::new()
}

/// Returns the annotated place of a key without placeholders.
pub(crate) fn of_fixed(key: &str) -> Option<&'static Annotation> {
    static FIXED: Lazy<HashMap<String, &Annotation>> =
        Lazy::new(|| all().into_iter().filter_map(|site| Some((site.fixed()?, site))).collect());
    FIXED.get(key).copied()
}
