//! What the limits file says, as of its last reading.

use std::time::Duration;

#[cfg(feature = "_web")]
use ratelimit_spec::Network;
use ratelimit_spec::{LimiterEntry, LimitsFile, Settings};

use tokio::time::Instant;

use super::{Family, file::LoadedFile};
use crate::{
    clock,
    settings::{Effective, Keys, Source, Unresolved},
};

/// One reading of the limits file, or that there is none.
#[derive(Debug)]
pub(crate) struct Current {
    pub(crate) number: u64,
    /// Since when it holds.
    pub(crate) since: Instant,
    pub(crate) file: Option<LoadedFile>,
    /// What is said of all limiters.
    global: Settings,
}

/// What the builder, or else the file, says of all limiters. A file that says `shadow: false` leaves
/// it to `default`.
pub(super) fn global(file: Option<&LoadedFile>, shadow: Option<bool>) -> Settings {
    let in_file = file.and_then(|file| file.limits.shadow.then_some(true));
    Settings { shadow: shadow.or(in_file), ..Settings::default() }
}

impl Current {
    pub(crate) fn new(number: u64, file: Option<LoadedFile>, shadow: Option<bool>) -> Self {
        let global = global(file.as_ref(), shadow);
        Self { number, since: clock::instant(), file, global }
    }

    fn limits(&self) -> Option<&LimitsFile> {
        self.file.as_ref().map(|file| &file.limits)
    }

    pub(crate) fn revision(&self) -> u64 {
        self.limits().and_then(|limits| limits.revision).unwrap_or(0)
    }

    #[cfg(feature = "_web")]
    pub(super) fn trusted_proxies(&self) -> &[Network] {
        self.limits().map_or(&[], |limits| &limits.trusted_proxies)
    }

    pub(crate) fn instances(&self) -> Option<u32> {
        self.limits().and_then(|limits| limits.instances)
    }

    /// What a name built at run time is counted and reported under: its entry in the limits file,
    /// or the prefix that matches it.
    pub(crate) fn label(&self, name: &str) -> Option<String> {
        let limits = self.limits()?;
        if limits.limiter(name).is_some() {
            return Some(name.to_owned());
        }
        let prefix = limits.prefixes.iter().find(|entry| name.starts_with(&entry.prefix))?;
        Some(format!("{}*", prefix.prefix))
    }

    /// What a limiter goes by whose numbers only the store has.
    pub(crate) fn resolve_following(&self, family: &Family, name: &str) -> Effective {
        let nothing =
            Settings { rate: Some(0), per: Some(Duration::from_secs(1)), ..Settings::default() };
        let mut layers = self.layers(family, name, None);
        layers.push((Source::BuiltIn, &nothing));
        Effective::resolve(&layers, Keys::One).expect("the last layer has every number")
    }

    /// The numbers of one key of a family.
    pub(crate) fn resolve(
        &self,
        family: &Family,
        name: &str,
        given: Option<&crate::Settings>,
    ) -> Result<Effective, Unresolved> {
        let given = given.map(crate::Settings::said);
        Effective::resolve(&self.layers(family, name, given), family.keys)
    }

    /// Whatever says something of one key of a family; the first goes before the others.
    fn layers<'a>(
        &'a self,
        family: &'a Family,
        name: &str,
        given: Option<&'a Settings>,
    ) -> Vec<(Source, &'a Settings)> {
        let mut layers = Vec::with_capacity(7);
        if let Some(entry) = self.entry(family, name) {
            let own = entry.overrides.iter().find(|own| own.matches.matches(name));
            layers.extend(own.map(|own| (Source::Override, &own.settings)));
            layers.push((Source::LimitsFile, &entry.settings));
        }
        if family.annotation.is_none()
            && let Some(limits) = self.limits()
        {
            let prefix = limits.prefixes.iter().find(|entry| name.starts_with(&entry.prefix));
            layers.extend(prefix.map(|entry| (Source::Prefix, &entry.settings)));
        }
        layers.extend(family.annotation.as_ref().map(|settings| (Source::Annotation, settings)));
        layers.extend(given.map(|settings| (Source::Annotation, settings)));
        layers.extend(family.declared.as_ref().map(|settings| (Source::Compiled, settings)));
        layers.push((Source::Global, &self.global));
        layers.extend(self.limits().map(|limits| (Source::Default, &limits.default)));
        layers
    }

    fn entry(&self, family: &Family, name: &str) -> Option<&LimiterEntry> {
        let limits = self.limits()?;
        limits.limiter(&family.key).or(limits.limiter(name))
    }
}
