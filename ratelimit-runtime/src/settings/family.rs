//! What the limiters of one declared key have in common.

use std::sync::Arc;

use ratelimit_spec::Settings;

use super::{Keys, tally::Tally};
use crate::metrics::{Measured, UNNAMED};

/// A declared key, or a name that exists only at run time.
pub(crate) struct Family {
    /// The key as it was written.
    pub(crate) key: Arc<str>,
    pub(crate) keys: Keys,
    pub(crate) annotation: Option<Settings>,
    pub(crate) declared: Option<Settings>,
    pub(crate) tally: Tally,
    pub(crate) measured: Measured,
    /// Whether it is one name that was built at run time.
    pub(crate) is_unnamed: bool,
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
        let (tally, measured) = (Tally::default(), Measured::new(key));
        Self {
            key: key.into(),
            keys,
            annotation: None,
            declared: None,
            tally,
            measured,
            is_unnamed: false,
        }
    }

    /// A name that was built at run time, of which there may be any number.
    pub(crate) fn unnamed(name: &str, keys: Keys) -> Self {
        let measured = Measured::new(UNNAMED);
        Self { measured, is_unnamed: true, ..Self::unannotated(name, keys) }
    }
}

/// Each setting of the first layer that has it.
fn merge(layers: &[Settings]) -> Settings {
    layers.iter().fold(Settings::default(), Settings::filled_from)
}

impl std::fmt::Debug for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Family").field("key", &self.key).finish_non_exhaustive()
    }
}
