//! The names of limiters, and what they are counted and reported under.

use std::{borrow::Cow, fmt, iter, sync::Arc};

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

    /// Returns whether it is the key of this name, or is written like it.
    pub(crate) fn is_of(&self, name: &str) -> bool {
        self.key().is_some_and(|key| keys_of(name).any(|own| *own == *key))
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

/// The name of a limiter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name<'a> {
    /// In the store.
    pub(crate) stored: &'a str,
    /// As code gives it, which the limits file matches.
    pub(crate) given: &'a str,
}

impl<'a> From<&'a str> for Name<'a> {
    /// A name that is stored as it is given.
    fn from(name: &'a str) -> Self {
        Self { stored: name, given: name }
    }
}

/// Returns the key without placeholders that stands for a name: its braces are doubled.
pub(crate) fn key_of(name: &str) -> Cow<'_, str> {
    // Bytes are quicker to search than characters, and the first use of each key asks.
    if name.bytes().any(|byte| matches!(byte, b'{' | b'}')) {
        name.replace('{', "{{").replace('}', "}}").into()
    } else {
        name.into()
    }
}

/// Returns the keys whose entries in the limits file apply to a name: the one that has only this name, then the one that
/// is written like it.
pub(crate) fn keys_of(name: &str) -> impl Iterator<Item = Cow<'_, str>> + Clone {
    let key = key_of(name);
    let text = matches!(key, Cow::Owned(_)).then_some(Cow::Borrowed(name));
    iter::once(key).chain(text)
}

impl From<&str> for Label {
    fn from(key: &str) -> Self {
        Self::Key(key.into())
    }
}
