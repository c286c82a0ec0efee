//! The names of what a store holds.

/// The names one limiter's state lives under, by Redisson's rule: the configuration under the
/// limiter's own name, counter and log beside it in the same cluster slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateKeys {
    config: String,
    counter: String,
    log: String,
}

impl StateKeys {
    /// The names for a limiter of this name.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        let config = name.into();
        let (counter, log) = (beside(&config, "value"), beside(&config, "permits"));
        Self { config, counter, log }
    }

    /// A name of this ending in the same cluster slot.
    pub(crate) fn beside(&self, suffix: &str) -> String {
        beside(&self.config, suffix)
    }

    /// The name of the limiter, under which its configuration lives.
    #[must_use]
    pub fn config(&self) -> &str {
        &self.config
    }

    /// What decides the cluster slot of all of them: what stands in the first braces of the name, if
    /// anything does, else the whole name.
    pub(crate) fn tag(&self) -> &str {
        let name = self.config.as_str();
        let tag = name.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
        tag.map(|(tag, _)| tag).filter(|tag| !tag.is_empty()).unwrap_or(name)
    }

    /// Where the counter lives.
    #[must_use]
    pub fn counter(&self) -> &str {
        &self.counter
    }

    /// Where the log lives.
    #[must_use]
    pub fn log(&self) -> &str {
        &self.log
    }
}

fn beside(name: &str, suffix: &str) -> String {
    if name.contains('{') { format!("{name}:{suffix}") } else { format!("{{{name}}}:{suffix}") }
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
