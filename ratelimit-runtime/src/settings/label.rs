//! What limiters are counted and reported under.

use std::{fmt, sync::Arc};

/// A key or a prefix: `a*` is a key, and a prefix of `a` is shown like it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Label {
    /// A key as it is written.
    Key(Arc<str>),
    /// An entry of `prefixes`, for all names with this prefix.
    Prefix(Arc<str>),
}

impl Label {
    pub(crate) fn prefix(text: &str) -> Self {
        Self::Prefix(text.into())
    }

    /// Returns the text of the limits file: the key, or the prefix.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Key(text) | Self::Prefix(text) => text,
        }
    }

    /// Returns the key, if it is one.
    pub(crate) fn key(&self) -> Option<&str> {
        match self {
            Self::Key(key) => Some(key),
            Self::Prefix(_) => None,
        }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) => f.write_str(key),
            Self::Prefix(prefix) => write!(f, "{prefix}*"),
        }
    }
}

impl From<&str> for Label {
    fn from(key: &str) -> Self {
        Self::Key(key.into())
    }
}
