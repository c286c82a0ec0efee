//! The table of settings: everything that a limits file, an attribute or code can set for a limiter.
//!
//! There is one row for each. The rows generate the struct of one layer, the names in the limits file, the
//! merge of several layers with the source of each value, and the lines of a report.

use std::sync::Arc;
use std::time::Duration;

use crate::algorithm::Algorithm;
use crate::calendar::TimeZone;
use crate::duration::format_duration;
use crate::limit::{Limit, in_order};
use crate::penalty::Penalty;
use crate::per::Per;
use crate::words::{Mode, OnDrift, OnStoreError, RefundOn, Wait};

/// A setting, and the layer it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sourced<T, S> {
    /// The setting.
    pub value: T,
    /// Its layer.
    pub source: S,
}

/// Shows a setting in a report.
trait Show {
    fn show(&self) -> String;
}

macro_rules! shown_by_display {
    ($($ty:ty),+) => {$(
        impl Show for $ty {
            fn show(&self) -> String {
                self.to_string()
            }
        }
    )+};
}

shown_by_display!(
    bool,
    u32,
    Per,
    TimeZone,
    Mode,
    Algorithm,
    Wait,
    OnStoreError,
    RefundOn,
    OnDrift,
    Penalty
);

impl Show for Duration {
    fn show(&self) -> String {
        format_duration(*self)
    }
}

impl Show for Arc<[Limit]> {
    fn show(&self) -> String {
        let limits = in_order(self.iter().map(|limit| limit.quota(Algorithm::default())));
        limits.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
    }
}

/// The table: hands all rows to a macro.
///
/// A row is a name, a type and an optional default; then, for a number, the minimum and the maximum that a
/// limits file can set; then, for an argument of the attribute, how it is read, and a valid value for
/// messages.
#[doc(hidden)]
#[macro_export]
macro_rules! settings {
    ($with:ident) => {
        $with! {
            /// Whether it limits at all.
            enabled: bool = true =>;
            /// Whether it only counts the calls that it would reject.
            shadow: bool = false =>;
            /// Permits per window; 0 rejects every call.
            rate: u32 => number(0 " (rejects every call)", MAX_RATE) argument(Number, "100");
            /// The window: a length, or a unit of the calendar.
            per: Per => argument(LitStr, "\"1s\"");
            /// The clocks by which the windows of a calendar begin.
            time_zone: TimeZone => argument(LitStr, "\"Europe/Vienna\"");
            /// Several limits that apply together, instead of one rate and window.
            limits: Arc<[Limit]> => argument(Limits, "[(10, \"1s\"), (1000, \"1h\")]");
            /// Which processes share the budget.
            mode: Mode = Mode::Overall => argument(LitStr, "\"per_client\"");
            /// How permits are counted.
            algorithm: Algorithm = Algorithm::SlidingWindow => argument(LitStr, "\"token_bucket\"");
            /// How many permits a token bucket stores.
            burst: u32 => number(1 "", MAX_RATE) argument(Number, "200");
            /// How long a token bucket takes to warm up.
            warm_up: Duration => argument(LitStr, "\"10s\"");
            /// How long a call may wait for its permits.
            wait: Wait = Wait::Forever => argument(LitStr, "\"2s\"");
            /// How many calls of one process may wait at the same time.
            max_waiters: u32 = 10_000 => number(0 " (no call waits)", u32::MAX);
            /// How many permits can be owed for charges.
            max_debt: u32 => number(0 " (no debt)", u32::MAX);
            /// How calls are decided while the store is unavailable.
            on_store_error: OnStoreError = OnStoreError::Local => argument(LitStr, "\"reject\"");
            /// Which calls are refunded, by their result.
            refund_on: RefundOn = RefundOn::Never => argument(LitStr, "\"err\"");
            /// When a key that is rejected repeatedly is blocked, and for how long.
            penalty: Penalty =>;
            /// What happens to the state when the numbers change.
            on_drift: OnDrift = OnDrift::Reset =>;
            /// How long an idle limiter is kept.
            keep_alive: Duration =>;
            /// How many keys of a template have a limiter of their own in one process; those beyond share one.
            max_keys: u32 => number(1 "", MAX_KEYS);
            /// How many shards it is split into.
            shards: u32 = 1 => number(1 "", MAX_SHARDS);
        }
    };
}

macro_rules! layers {
    ($($(#[$doc:meta])* $name:ident: $ty:ty $(= $default:expr)? => $($kind:ident $more:tt)*;)+) => {
        /// The settings of a limiter in one layer. A field that is `None` falls back to the next source.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Settings {
            $($(#[$doc])* pub $name: Option<$ty>,)+
        }

        impl Settings {
            /// The names of the settings in a limits file, in the order of the table.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),+];

            /// Adds each setting that is absent here from another layer.
            #[must_use]
            pub fn filled_from(self, other: &Self) -> Self {
                Self { $($name: self.$name.or_else(|| other.$name.clone()),)+ }
            }
        }

        /// Several layers in one, with the source of each setting.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Merged<S> {
            $($(#[$doc])* pub $name: Option<Sourced<$ty, S>>,)+
        }

        impl<S: Copy> Merged<S> {
            /// Takes each setting from the first layer that has it.
            #[must_use]
            pub fn of(layers: &[(S, &Settings)]) -> Self {
                Self {$(
                    $name: layers.iter().find_map(|(source, said)| {
                        let value = said.$name.clone()?;
                        Some(Sourced { value, source: *source })
                    }),
                )+}
            }

            /// Sets the default of each setting that no layer sets.
            #[must_use]
            pub fn or_built_in(self, source: S) -> Self {
                Self {$(
                    $name: self.$name$(.or(Some(Sourced { value: $default, source })))?,
                )+}
            }

            /// Returns the settings that are set, as a report shows them.
            #[must_use]
            pub fn rows(&self) -> Vec<(&'static str, String, S)> {
                let mut rows = Vec::new();
                $(
                    if let Some(Sourced { value, source }) = &self.$name {
                        rows.push((stringify!($name), value.show(), *source));
                    }
                )+
                rows
            }

            /// Returns the layer that a setting came from.
            #[must_use]
            pub fn source_of(&self, name: &str) -> Option<S> {
                match name {
                    $(stringify!($name) => self.$name.as_ref().map(|set| set.source),)+
                    _ => None,
                }
            }

            $(default_of!($(#[$doc])* $name: $ty $(= $default)?);)+
        }
    };
}

/// The value of a setting with a default.
macro_rules! default_of {
    ($(#[$doc:meta])* $name:ident: $ty:ty) => {};
    ($(#[$doc:meta])* $name:ident: $ty:ty = $default:expr) => {
        $(#[$doc])*
        #[must_use]
        pub fn $name(&self) -> $ty {
            self.$name.map_or($default, |set| set.value)
        }
    };
}

settings!(layers);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_comes_from_the_first_layer_that_has_it() {
        let near = Settings { rate: Some(5), shadow: Some(true), ..Settings::default() };
        let far = Settings { rate: Some(9), max_debt: Some(3), ..Settings::default() };
        let merged = Merged::of(&[("near", &near), ("far", &far)]);
        assert_eq!(merged.rate, Some(Sourced { value: 5, source: "near" }));
        assert_eq!((merged.shadow(), merged.max_waiters(), merged.wait), (true, 10_000, None));
        let rows = merged.or_built_in("built in").rows();
        let row = |name: &str| rows.iter().find(|(known, ..)| *known == name).cloned();
        assert_eq!(row("max_debt"), Some(("max_debt", "3".to_owned(), "far")));
        assert_eq!(row("wait"), Some(("wait", "forever".to_owned(), "built in")));
        assert_eq!(row("burst"), None);
        let in_order = rows.iter().map(|(name, ..)| Settings::NAMES.iter().position(|n| n == name));
        assert!(in_order.is_sorted());
    }

    #[test]
    fn several_limits_and_one_are_alternatives() {
        let one = Settings { rate: Some(5), burst: Some(7), ..Settings::default() };
        let limits: Arc<[Limit]> = [Limit::new(1, Duration::from_secs(1))].into();
        let several = Settings { limits: Some(limits), ..Settings::default() };
        let in_force = |near, far| Merged::of(&[(0, near), (1, far)]).in_force();
        let set = in_force(&several, &one);
        assert_eq!((set.rate, set.burst, set.limits.is_some()), (None, None, true));
        let set = in_force(&one, &several);
        assert_eq!((set.rate.is_some(), set.burst.is_some(), set.limits), (true, true, None));
    }
}
