//! The settings of the limits file, as of the last reading.

use std::time::Duration;

use ratelimit_spec::{
    Conflict, LimiterEntry, LimitsFile, Match, Merged, Override, Per, PrefixEntry, Settings, Wait,
};
#[cfg(feature = "_web")]
use ratelimit_spec::{HeaderName, Network};

use tokio::time::Instant;

use super::{
    Bound, Effective, Family, Keys, Label, Layers, Unresolved, ages::Ages, key_of, keys_of, merged,
    rows,
};
use crate::{
    clock,
    members::fingerprint,
    report::{Entry, Setting, Source},
    store::MemberId,
};

/// One reading of the limits file, or the absence of a file.
#[derive(Clone, Debug)]
pub(crate) struct Current {
    pub(crate) number: u64,
    /// When it became active.
    pub(crate) since: Instant,
    /// When each part of it became active.
    ages: Ages,
    /// This process as a member, if others share the store.
    member: Option<MemberId>,
    pub(crate) file: Option<LimitsFile>,
    /// The settings of all limiters.
    global: Settings,
}

/// Returns the settings for all limiters, of the builder or else of the file. `shadow: false` in a
/// file leaves it to `default`.
pub(crate) fn global(file: Option<&LimitsFile>, shadow: Option<bool>) -> Settings {
    let in_file = file.and_then(|file| file.shadow.then_some(true));
    Settings { shadow: shadow.or(in_file), ..Settings::default() }
}

impl Current {
    pub(crate) fn new(number: u64, file: Option<LimitsFile>, shadow: Option<bool>) -> Self {
        let (global, since) = (global(file.as_ref(), shadow), clock::instant());
        Self { number, since, ages: Ages::new(since), member: None, file, global }
    }

    /// Returns these settings for a process of this number, which shares its store with others.
    pub(crate) fn in_process(self, process: u32) -> Self {
        let member = MemberId::new(fingerprint(self.file.as_ref()), process);
        Self { member: Some(member), ..self }
    }

    /// Returns this process as a member, if others share the store.
    pub(crate) fn member(&self) -> Option<MemberId> {
        self.member
    }

    /// Returns the next reading of the limits file.
    pub(crate) fn read_again(&self, file: Option<LimitsFile>, shadow: Option<bool>) -> Self {
        let next = Self::new(self.number + 1, file, shadow);
        let ages = self.ages.read_again(self.file.as_ref(), next.file.as_ref(), next.since);
        let next = Self { ages, ..next };
        match self.member {
            Some(member) => next.in_process(member.process()),
            None => next,
        }
    }

    /// Returns this reading with another number, so that every limiter refreshes its configuration.
    #[cfg(feature = "test-util")]
    pub(crate) fn renumbered(&self) -> Self {
        Self { number: self.number + 1, ..self.clone() }
    }

    /// Returns since when the limits file has had its current settings for the limiter of this name.
    pub(crate) fn since_of(&self, family: &Family, name: &str) -> Instant {
        let prefixed = family
            .annotation
            .is_none()
            .then(|| (name, self.prefix_of(name).map_or(0, |entry| entry.prefix.len())));
        self.ages.of(family.label.key(), &key_of(name), prefixed)
    }

    pub(crate) fn revision(&self) -> u64 {
        self.file.as_ref().and_then(|limits| limits.revision).unwrap_or(0)
    }

    /// Returns the `wait` for all limiters.
    pub(crate) fn default_wait(&self) -> Option<Wait> {
        self.file.as_ref().and_then(|limits| limits.default.wait)
    }

    #[cfg(feature = "_web")]
    pub(crate) fn trusted_proxies(&self) -> &[Network] {
        self.file.as_ref().map_or(&[], |limits| &limits.trusted_proxies)
    }

    #[cfg(feature = "_web")]
    pub(crate) fn client_ip_header(&self) -> Option<&HeaderName> {
        self.file.as_ref()?.client_ip_header.as_ref()
    }

    pub(crate) fn instances(&self) -> Option<u32> {
        self.file.as_ref().and_then(|limits| limits.instances)
    }

    /// Returns whether `max_keys` is set for names that are built at run time.
    pub(crate) fn bounds_names(&self) -> bool {
        self.file.as_ref().is_some_and(|limits| {
            let mut prefixes = limits.prefixes.iter();
            !limits.prefixes.is_empty() && limits.default.max_keys.is_some()
                || prefixes.any(|entry| entry.settings.max_keys.is_some())
        })
    }

    /// Returns the label under which a name built at run time is counted and reported: its entry in
    /// the limits file, or the matching prefix.
    pub(crate) fn label(&self, name: &str) -> Option<Label> {
        if let Some(entry) = self.named(name) {
            return Some(entry.key.as_str().into());
        }
        self.prefix_of(name).map(|entry| Label::prefix(&entry.prefix))
    }

    /// Returns the settings of a limiter whose quota only the store has.
    pub(crate) fn resolve_following(&self, family: &Family, name: Option<&str>) -> Effective {
        let per = Per { length: Duration::from_secs(1), unit: None };
        let nothing = Settings { rate: Some(0), per: Some(per), ..Settings::default() };
        let mut layers = self.layers(family, name, None);
        layers.push((Source::BuiltIn, &nothing));
        Effective::resolve(layers, Keys::One).expect("the last layer has every number")
    }

    /// Resolves the settings of one key of a template, or without a name those of the template itself.
    pub(crate) fn resolve(
        &self,
        family: &Family,
        name: Option<&str>,
        given: Option<&crate::Settings>,
    ) -> Result<Effective, Unresolved> {
        let given = given.map(crate::Settings::layer);
        let effective = Effective::resolve(self.layers(family, name, given), family.keys)?;
        // If the number of names is bounded, there are many.
        let many = family.is_of_a_prefix() && effective.set.max_keys.is_some();
        Ok(if many { Effective { keys: Keys::Many, ..effective } } else { effective })
    }

    /// Returns why settings of the limits file have no effect beside those in code.
    pub(crate) fn without_effect(
        &self,
        family: &Family,
        name: &str,
        given: &crate::Settings,
    ) -> Vec<Conflict> {
        if self.file.is_none() {
            return Vec::new();
        }
        let set = merged(self.layers(family, Some(name), Some(given.layer())));
        let mut conflicts = if set.enabled() { set.check() } else { Vec::new() };
        // Those within the file were reported when it was read.
        conflicts.retain(|conflict| {
            let sources = || conflict.settings.iter().filter_map(|name| set.source_of(name));
            sources().any(|source| source == Source::Code) && sources().any(Source::is_of_the_file)
        });
        conflicts
    }

    /// Returns how many keys of a template have limiters of their own, if that is bounded.
    pub(crate) fn bound(&self, family: &Family, given: Option<&crate::Settings>) -> Option<Bound> {
        let effective = match self.resolve(family, None, given) {
            Err(Unresolved::Missing(_)) => self.resolve_following(family, None),
            resolved => resolved.ok()?,
        };
        let most = effective.set.max_keys.filter(|_| effective.set.enabled())?.value;
        let configs = std::iter::once(effective.config()).chain(effective.further());
        let idle_ms = configs.map(|config| config.keep_alive_ms).max().unwrap_or_default();
        // Redis keeps a limiter for a quarter longer, so that few calls have to renew its expiry.
        Some(Bound { most, kept_ms: (idle_ms + idle_ms / 4).max(1) })
    }

    /// Returns whether the limits file names this key of a family itself.
    pub(crate) fn names(&self, family: &Family, name: &str) -> bool {
        let mut overrides =
            self.entry(family, Some(name)).into_iter().flat_map(|entry| &entry.overrides);
        overrides.any(|own| matches!(&own.matches, Match::Key(key) if key == name))
    }

    /// Returns the layers that set something for one key of a template, or for the template itself.
    fn layers<'a>(
        &'a self,
        family: &'a Family,
        name: Option<&str>,
        given: Option<&'a Settings>,
    ) -> Layers<'a> {
        let mut layers = Vec::with_capacity(7);
        let entry = self.entry(family, name);
        let name = name.unwrap_or(family.label.text());
        if let Some(entry) = entry {
            let own = entry.overrides.iter().find(|own| own.matches.matches(name));
            layers.extend(own.map(|own| (Source::Override, &own.settings)));
            layers.push((Source::LimitsFile, &entry.settings));
        }
        if family.annotation.is_none() {
            let prefix = self.prefix_of(name);
            layers.extend(prefix.map(|entry| (Source::Prefix, &entry.settings)));
        }
        layers.extend(family.annotation.as_ref().map(|settings| (Source::Annotation, settings)));
        layers.extend(given.map(|settings| (Source::Code, settings)));
        layers.extend(family.declared.as_ref().map(|settings| (Source::Compiled, settings)));
        layers.push((Source::Global, &self.global));
        layers.extend(self.file.as_ref().map(|limits| (Source::Default, &limits.default)));
        layers
    }

    /// Returns the overrides of the limits file for some names of a limiter.
    pub(crate) fn overrides(&self, label: &Label) -> Vec<Entry> {
        let limiter = label.key().and_then(|key| self.file.as_ref()?.limiter(key));
        let overrides = limiter.into_iter().flat_map(|limiter| &limiter.overrides);
        let entry = |own: &Override| {
            let names = match &own.matches {
                Match::Key(name) => Label::from(&**name),
                Match::Prefix(start) => Label::prefix(start),
            };
            report_entry(&names, Source::Override, &own.settings)
        };
        overrides.map(entry).collect()
    }

    /// Returns the settings of a template that has no quota.
    pub(crate) fn rows(&self, family: &Family) -> Vec<Setting> {
        rows(&merged(self.layers(family, None, None)))
    }

    /// Returns the settings of the limits file for names that are built at run time.
    pub(crate) fn prefixes(&self) -> Vec<Entry> {
        let prefixes = self.file.as_ref().into_iter().flat_map(|limits| &limits.prefixes);
        let entry = |own: &PrefixEntry| {
            report_entry(&Label::prefix(&own.prefix), Source::Prefix, &own.settings)
        };
        prefixes.map(entry).collect()
    }

    /// Returns whether the limits file has no settings for this name beyond those of its whole template.
    pub(crate) fn says_nothing_of(&self, family: &Family, name: &str) -> bool {
        let mut keys = keys_of(name);
        if keys.clone().any(|key| self.ages.has(&key)) {
            return false;
        }
        let Some(limits) = self.file.as_ref() else { return true };
        let named = keys.find_map(|key| limits.limiter(&key));
        let entry = self.entry_of_label(family).or(named);
        let mut overrides = entry.into_iter().flat_map(|entry| &entry.overrides);
        named.is_none()
            && !overrides.any(|own| own.matches.matches(name))
            && (family.annotation.is_some() || self.prefix_of(name).is_none())
    }

    /// Returns the prefix of the limits file that applies to a name built at run time.
    fn prefix_of(&self, name: &str) -> Option<&PrefixEntry> {
        self.file.as_ref()?.prefixes.iter().find(|entry| name.starts_with(&entry.prefix))
    }

    fn entry(&self, family: &Family, name: Option<&str>) -> Option<&LimiterEntry> {
        self.entry_of_label(family).or_else(|| self.named(name?))
    }

    fn entry_of_label(&self, family: &Family) -> Option<&LimiterEntry> {
        self.file.as_ref()?.limiter(family.label.key()?)
    }

    /// Returns the entry of a name that is built at run time.
    fn named(&self, name: &str) -> Option<&LimiterEntry> {
        let limits = self.file.as_ref()?;
        keys_of(name).find_map(|key| limits.limiter(&key))
    }
}

/// Returns the settings of one layer for some names, as a report shows them.
fn report_entry(names: &Label, source: Source, settings: &Settings) -> Entry {
    Entry { names: names.to_string(), settings: rows(&Merged::of(&[(source, settings)])) }
}
