//! The names of a limiter's state in a store.

use std::sync::Arc;

/// The names under which a limiter's state is stored, by Redisson's scheme: the configuration under
/// the limiter's own name, counter and log beside it in the same cluster slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateKeys(Arc<str>);

impl StateKeys {
    /// Returns the names for a limiter with this name.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// Returns a name with this suffix in the same cluster slot.
    pub(crate) fn beside(&self, suffix: &str) -> String {
        let name = self.config();
        let (open, end) = if name.contains('{') { ("", ":") } else { ("{", "}:") };
        // A call needs two of these names: concatenated, not formatted.
        [open, name, end, suffix].concat()
    }

    /// Returns the name of the limiter, under which its configuration is stored.
    #[must_use]
    pub fn config(&self) -> &str {
        &self.0
    }

    /// Returns the same name, to be stored with the limiter.
    pub(crate) fn shared(&self) -> &Arc<str> {
        &self.0
    }

    /// Returns what determines the cluster slot of all names: the text in the first braces of the name, or
    /// the whole name if there is none.
    pub(crate) fn tag(&self) -> &str {
        let name = self.config();
        let tag = name.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
        tag.map(|(tag, _)| tag).filter(|tag| !tag.is_empty()).unwrap_or(name)
    }

    /// Returns the name of the counter.
    #[must_use]
    pub fn counter(&self) -> String {
        self.beside("value")
    }

    /// Returns the name of the record of rejected windows, which no value in a key makes.
    #[must_use]
    pub fn penalty(&self) -> String {
        self.beside("~penalty")
    }

    /// Returns the name of the log.
    #[must_use]
    pub fn log(&self) -> String {
        self.beside("permits")
    }
}

#[cfg(test)]
mod tests {
    use super::StateKeys;

    #[test]
    fn keys_of_one_limiter_share_a_slot() {
        let keys = StateKeys::new("orders:42");
        assert_eq!(keys.counter(), "{orders:42}:value");
        assert_eq!(keys.log(), "{orders:42}:permits");
        assert_eq!(StateKeys::new("t:{acme}:7").log(), "t:{acme}:7:permits");
    }
}
