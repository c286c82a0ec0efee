//! The annotation that the macro records for one place in the source, and the list of all of them.

#[cfg(feature = "tower")]
mod layer;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

#[cfg(feature = "tower")]
pub(crate) use self::layer::LayerKey;
use once_cell::sync::Lazy;
use ratelimit_spec::{
    Algorithm, CalendarUnit, Limit, MAX_RATE, Mode, OnStoreError, Per, RefundOn, Settings,
    Template, Wait,
};

/// The annotation at one place in the source. Expanded code writes the fields that are set: that takes the compiler
/// less time than calls would.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "each is the argument of the attribute")]
pub struct Annotation {
    pub key: &'static str,
    /// `src/shop.rs:12 shop::place_order`: in one text, which takes less of a program than its parts.
    pub at: &'static str,
    /// 0 if it is not set.
    pub rate: u32,
    /// 0 if it is not set.
    pub per_ms: u64,
    pub rare: Option<&'static Rare>,
    /// The limits of the limits file at compile time, for an annotation without its own.
    pub declared: Option<&'static FromFile>,
    pub mode: Option<Mode>,
    pub algorithm: Option<Algorithm>,
    /// 0 if it is not set.
    pub burst: u32,
    pub wait: Option<Wait>,
    pub on_store_error: Option<OnStoreError>,
    pub refund_on: Option<RefundOn>,
    /// Whether its function is compiled to classify results for `refund_on`.
    pub judges: bool,
    pub cost: Cost,
    /// Whether the function can return a rejection.
    pub fallible: bool,
}

/// The settings of an annotation that few annotations have.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "each is the argument of the attribute")]
pub struct Rare {
    pub unit: Option<CalendarUnit>,
    /// A name that the macro found in the database.
    pub time_zone: Option<&'static str>,
    /// The rate of each limit, and its window in milliseconds.
    pub limits: Option<&'static [(u32, u64)]>,
    pub warm_up_ms: Option<u64>,
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
pub enum Cost {
    /// The same for every call.
    Literal(u32),
    /// An expression.
    Computed,
    /// An argument of the methods of the handle that `limiter!` returns.
    OfHandle,
}

/// The position of an [`Annotation`], ordered as in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Location {
    pub(crate) file: &'static str,
    pub(crate) line: u32,
    pub(crate) function: &'static str,
}

impl Annotation {
    /// Without settings; its calls take 1 permit, and its function cannot return a rejection.
    pub const NONE: Self = Self {
        key: "",
        at: "",
        rate: 0,
        per_ms: 0,
        rare: None,
        declared: None,
        mode: None,
        algorithm: None,
        burst: 0,
        wait: None,
        on_store_error: None,
        refund_on: None,
        judges: false,
        cost: Cost::Literal(1),
        fallible: false,
    };

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
        fixed(&self.template())
    }

    /// Returns the settings of the annotation.
    pub(crate) fn settings(&self) -> Settings {
        let Rare { unit, time_zone, limits, warm_up_ms } = *self.rare.unwrap_or(&Rare::NONE);
        Settings {
            rate: set(self.rate),
            per: unit.map(calendar).or(set(self.per_ms).map(length)),
            time_zone: time_zone.and_then(|name| name.parse().ok()),
            limits: limits.map(|limits| limits.iter().map(limit).collect()),
            mode: self.mode,
            algorithm: self.algorithm,
            burst: set(self.burst),
            warm_up: warm_up_ms.map(Duration::from_millis),
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
                Settings { rate: Some(*rate), per: Some(length(*per_ms)), ..none }
            }
            Some(FromFile::Calendar(rate, unit, zone)) => Settings {
                rate: Some(*rate),
                per: Some(calendar(*unit)),
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
}

/// Returns a rate that is an expression.
///
/// # Panics
///
/// Panics at compile time if it is not a valid rate.
#[must_use]
pub const fn rate(rate: u32) -> u32 {
    assert!(rate >= 1 && rate <= MAX_RATE, "`rate` must be 1 to 2147483647 permits");
    rate
}

/// Returns a burst that is an expression.
///
/// # Panics
///
/// Panics at compile time if it is not a valid burst.
#[must_use]
pub const fn burst(burst: u32) -> u32 {
    assert!(burst >= 1 && burst <= MAX_RATE, "`burst` must be 1 to 2147483647 permits");
    burst
}

/// Returns a number unless it is 0, which stands for a setting that is not set.
fn set<N: Default + PartialEq>(number: N) -> Option<N> {
    (number != N::default()).then_some(number)
}

fn length(ms: u64) -> Per {
    Per { length: Duration::from_millis(ms), unit: None }
}

fn calendar(unit: CalendarUnit) -> Per {
    Per { length: unit.nominal(), unit: Some(unit) }
}

fn limit((rate, per_ms): &(u32, u64)) -> Limit {
    Limit::new(*rate, Duration::from_millis(*per_ms))
}

inventory::collect!(&'static Annotation);

/// Returns the name of a key without placeholders.
pub(crate) fn fixed(template: &Template) -> Option<String> {
    template.is_static().then(|| template.literals().concat())
}

/// The limits file that a crate was compiled with, on the list of all there are.
#[derive(Debug)]
pub struct CompiledWith(pub &'static str);

inventory::collect!(CompiledWith);

/// Returns a limits file that a part of the program was compiled with.
pub(crate) fn compiled_with() -> Option<&'static str> {
    inventory::iter::<CompiledWith>().map(|CompiledWith(file)| *file).next()
}

/// Returns every annotated place that is linked into the program.
pub(crate) fn all() -> Vec<&'static Annotation> {
    inventory::iter::<&'static Annotation>().copied().collect()
}

/// The same in source order.
pub(crate) fn in_source_order() -> Vec<&'static Annotation> {
    let mut all = all();
    all.sort_by_key(|annotation| annotation.location());
    all
}

/// Returns the keys of all existing layers, and their settings in code.
#[cfg(feature = "tower")]
pub(crate) fn layers() -> BTreeMap<Arc<str>, Option<Settings>> {
    let listed = LayerKey::all();
    listed.iter().map(|(key, listed)| (Arc::clone(key), listed.settings.clone())).collect()
}

#[cfg(not(feature = "tower"))]
pub(crate) fn layers() -> BTreeMap<Arc<str>, Option<Settings>> {
    BTreeMap::new()
}

/// Returns the annotated place of a key without placeholders.
pub(crate) fn of_fixed(key: &str) -> Option<&'static Annotation> {
    static FIXED: Lazy<HashMap<String, &Annotation>> =
        Lazy::new(|| all().into_iter().filter_map(|site| Some((site.fixed()?, site))).collect());
    FIXED.get(key).copied()
}
