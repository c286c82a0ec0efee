//! The state shared by all limiters of one declared key.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU32, Ordering},
};

use arc_swap::ArcSwapOption;
use ratelimit_spec::Settings;

use super::{Keys, Label, Name, key_of, places::Places, tally::Tally};
use crate::{
    Rejection,
    events::Events,
    metrics::{Measured, UNNAMED},
    store::Reconciled,
};

/// A declared key, or a name that exists only at run time.
pub(crate) struct Family {
    /// Unique among the key templates of this process; 0 for a name that was built at run time.
    pub(crate) number: u32,
    pub(crate) label: Label,
    /// As it is shown: the key as it was written, the prefix with a `*`, or the stored name.
    pub(crate) key: Arc<str>,
    pub(crate) keys: Keys,
    pub(crate) annotation: Option<Settings>,
    pub(crate) declared: Option<Settings>,
    /// The settings in code, for the report: those of its first layer, or the last ones of the limiter with this name.
    pub(crate) given: ArcSwapOption<super::Settings>,
    pub(crate) tally: Tally,
    pub(crate) measured: Measured,
    pub(crate) places: Places,
    /// For a name without an entry in the limits file: the one that a reload added.
    added: OnceLock<Arc<Family>>,
}

impl Family {
    /// Creates the template of a key with annotations; each setting is that of the first annotation that has it.
    pub(crate) fn annotated(
        label: Label,
        keys: Keys,
        annotations: &[Settings],
        declared: &[Settings],
    ) -> Self {
        Self {
            annotation: Some(merge(annotations)),
            declared: Some(merge(declared)),
            ..Self::unannotated(label, keys)
        }
    }

    /// Creates the template of a key that exists only at run time.
    pub(crate) fn unannotated(label: Label, keys: Keys) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let key: Arc<str> = match &label {
            Label::Key(key) => Arc::clone(key),
            Label::Prefix(_) => label.to_string().into(),
        };
        let (tally, measured) = (Tally::of_many_threads(), Measured::new(&key));
        Self { number, tally, measured, ..Self::new(label, key, keys) }
    }

    /// Creates the template of a name that was built at run time; there may be any number of these.
    pub(crate) fn unnamed(name: Name<'_>, keys: Keys) -> Self {
        let stored: Arc<str> = name.stored.into();
        let label = match key_of(name.given) {
            key if *key == *stored => Arc::clone(&stored),
            key => key.into(),
        };
        Self::new(Label::Key(label), stored, keys)
    }

    fn new(label: Label, key: Arc<str>, keys: Keys) -> Self {
        Self {
            number: 0,
            label,
            key,
            keys,
            annotation: None,
            declared: None,
            given: ArcSwapOption::empty(),
            tally: Tally::default(),
            measured: Measured::new(UNNAMED),
            places: Places::default(),
            added: OnceLock::new(),
        }
    }

    /// Returns the template in whose row of the report calls are counted.
    #[inline]
    pub(crate) fn row(&self) -> &Self {
        self.added.get().map_or(self, |added| added)
    }

    /// Counts the calls from now on in the row of another template. The first one stays.
    pub(crate) fn count_in(&self, added: Arc<Self>) {
        let _ = self.added.set(added);
    }

    /// Counts an admitted call, and whether it left little.
    #[inline(always)]
    pub(crate) fn count_admitted(&self, is_near_limit: bool) {
        let row = self.row();
        row.tally.allowed.increase();
        row.measured.admitted(is_near_limit);
    }

    /// Counts a rejected call.
    pub(crate) fn count_rejected(&self, events: &Events, rejection: &Rejection) {
        let row = self.row();
        events.rejected(row.tally.rejected(rejection.reason()), rejection);
        row.measured.rejected(rejection.reason());
    }

    /// Counts the outcome of a reconciliation.
    pub(crate) fn count_reconciled(&self, outcome: Reconciled) {
        let row = self.row();
        row.tally.reconciled(outcome);
        row.measured.reconciled(outcome.word());
    }

    /// Returns whether its names are those with a prefix in the limits file.
    pub(crate) fn is_of_a_prefix(&self) -> bool {
        self.label.key().is_none()
    }

    /// Returns the name in metrics and spans, which never contains a key value.
    pub(crate) fn measured_as(&self) -> &str {
        let row = self.row();
        if row.is_unnamed() { UNNAMED } else { &row.key }
    }

    /// Returns whether it is a single name that was built at run time.
    pub(crate) fn is_unnamed(&self) -> bool {
        self.number == 0
    }
}

/// Takes each setting from the first layer that has it.
fn merge(layers: &[Settings]) -> Settings {
    layers.iter().fold(Settings::default(), Settings::filled_from)
}

impl std::fmt::Debug for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Family").field("key", &self.key).finish_non_exhaustive()
    }
}
