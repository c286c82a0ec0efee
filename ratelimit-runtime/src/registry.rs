//! Maps names to limiters, with a bound on how many are cached.

mod cores;
mod sites;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use once_cell::sync::OnceCell;
use ratelimit_spec::{Template, safe_name};

use self::cores::Cores;
pub(crate) use self::{
    cores::REMEMBERED,
    sites::{Known, SiteNumber, Sites},
};
use crate::{
    Settings,
    annotation::{self, Annotation},
    limiter::{Core, Services},
    settings::{Family, Keys, Label, Name, Others},
    store::Sweep,
};

/// The limiters that a set of limits has created so far.
pub(crate) struct Registry {
    declared: Mutex<AllDeclared>,
    cores: Arc<Cores>,
}

/// The minimum number of keys before unused ones are removed: a program may create layers without end.
const SWEEP_AT: usize = 1_000;

#[derive(Default)]
struct AllDeclared {
    by_label: HashMap<Label, Arc<Declared>>,
    sweep: Sweep,
}

/// All limiters of one declared key.
pub(crate) struct Declared {
    pub(crate) family: Arc<Family>,
    only: OnceCell<Arc<Core>>,
    cores: Arc<Cores>,
}

impl Registry {
    /// Creates a registry that caches about `most` limiters.
    pub(crate) fn new(most: usize) -> Self {
        Self { declared: Mutex::default(), cores: Arc::new(Cores::new(most)) }
    }

    /// Returns the limiters of an annotated key, shared by all its call sites.
    pub(crate) fn annotated(&self, site: &Annotation) -> Arc<Declared> {
        self.declared(site.key.into(), |label| {
            let mut sites: Vec<&Annotation> = annotation::all();
            sites.retain(|other| other.key == site.key);
            // On a platform without a list of call sites, the calling one is still known.
            sites.push(site);
            let annotations: Vec<_> = sites.iter().map(|site| site.settings()).collect();
            let declared: Vec<_> = sites.iter().map(|site| site.declared_settings()).collect();
            Family::annotated(label, Keys::of(&site.template()), &annotations, &declared)
        })
    }

    /// Returns the limiters of a key template that a layer limits, which are those of the
    /// annotations with the same template.
    #[cfg(feature = "tower")]
    pub(crate) fn of_template(
        &self,
        template: &Template,
        given: Option<&Settings>,
    ) -> Arc<Declared> {
        let key = template.text();
        if let Some(site) = annotation::all().into_iter().find(|site| site.key == key) {
            return self.annotated(site);
        }
        let make = |label| Family::unannotated(label, Keys::of(template));
        let declared = self.declared(key.into(), make);
        if let Some(given) = given
            && declared.family.given.load().is_none()
        {
            declared.family.given.store(Some(Arc::new(given.clone())));
        }
        declared
    }

    /// Returns the limiter of a name built at run time.
    pub(crate) fn named(
        &self,
        services: &Services,
        name: &str,
        keys: Keys,
        given: Option<&Settings>,
    ) -> Arc<Core> {
        // An annotated key without placeholders is the same limiter under the same name.
        if let Some(site) = annotation::of_fixed(name) {
            return self.annotated(site).only(services, name);
        }
        let name = Name { stored: &safe_name(name), given: name };
        let family = || match services.current().label(name.given) {
            Some(label) => self.written(label, keys),
            // There are many names, so only their limiters keep them.
            None => Arc::new(Family::unnamed(name, keys)),
        };
        if services.current().bounds_names()
            && let family = family()
            && family.is_of_a_prefix()
            && let Some(others) = others(services, &family, name.given, given)
        {
            return self.cores.get_or_make(services, 0, others.name.stored, || {
                Core::new(services, Arc::clone(&family), others.name, given.cloned())
            });
        }
        self.cores.get_or_make(services, 0, name.stored, || {
            let core = Core::new(services, family(), name, given.cloned());
            core.report_given(given);
            core
        })
    }

    /// Counts the calls of names without an entry in the limits file in the entry that a reload added.
    pub(crate) fn relabel(&self, services: &Services) {
        for core in self.cores.unnamed() {
            if let Some(label) = services.current().label(core.names().given) {
                core.count_in(self.written(label, core.family.keys));
            }
        }
    }

    /// Returns the key template of an entry of the limits file that has no annotation. Names with a prefix are
    /// those of `keys`.
    pub(crate) fn written(&self, label: Label, keys: Keys) -> Arc<Family> {
        Arc::clone(&self.declared(label, |label| unannotated(label, keys)).family)
    }

    /// Returns a key template for a report. It is not kept: a report would otherwise decide which keys the next one lists.
    pub(crate) fn reported(&self, label: Label) -> Arc<Family> {
        let known = self.lock().by_label.get(&label).map(|declared| Arc::clone(&declared.family));
        known.unwrap_or_else(|| Arc::new(unannotated(label, Keys::Many)))
    }

    /// Returns the limiter of a key without placeholders, if it is cached.
    pub(crate) fn cached(&self, label: &Label) -> Option<Arc<Core>> {
        let declared = self.lock().by_label.get(label).map(Arc::clone)?;
        let own = declared.only.get().map(Arc::clone);
        own.or_else(|| {
            let name = annotation::fixed(&Template::parse(label.key()?).ok()?)?;
            self.cores.get(0, &safe_name(&name))
        })
    }

    /// Evicts limiters of one shard that were not used for a while.
    pub(crate) fn forget_idle(&self, services: &Services, shard: usize) {
        self.cores.forget_idle(services, shard);
    }

    /// Returns all key templates so far.
    pub(crate) fn families(&self) -> Vec<Arc<Family>> {
        self.lock().by_label.values().map(|declared| Arc::clone(&declared.family)).collect()
    }

    fn declared(&self, label: Label, make: impl FnOnce(Label) -> Family) -> Arc<Declared> {
        let all = &mut *self.lock();
        if let Some(declared) = all.by_label.get(&label) {
            return Arc::clone(declared);
        }
        if all.sweep.is_due(all.by_label.len(), SWEEP_AT) {
            all.sweep.run(&mut all.by_label, |_, declared| declared.is_used());
        }
        let (only, cores) = (OnceCell::new(), Arc::clone(&self.cores));
        let declared = Arc::new(Declared { family: Arc::new(make(label.clone())), only, cores });
        all.by_label.insert(label, Arc::clone(&declared));
        declared
    }

    fn lock(&self) -> MutexGuard<'_, AllDeclared> {
        self.declared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Creates a key template without an annotation. Names with a prefix are those of `keys`.
fn unannotated(label: Label, keys: Keys) -> Family {
    let keys = match label.key().map(Template::parse) {
        Some(Ok(template)) => Keys::of(&template),
        Some(Err(_)) => Keys::Many,
        None => keys,
    };
    Family::unannotated(label, keys)
}

impl Drop for Registry {
    /// A layer keeps the key templates of the limits that it was called under first and last, even if they have ended, but
    /// not all their limiters.
    fn drop(&mut self) {
        self.cores.clear();
    }
}

impl Declared {
    /// Returns whether the key is annotated, or the key or one of its limiters is in use.
    fn is_used(self: &Arc<Self>) -> bool {
        let only = self.only.get();
        let own = 1 + usize::from(only.is_some());
        self.family.annotation.is_some()
            || Arc::strong_count(self) > 1
            || Arc::strong_count(&self.family) > own
            || only.is_some_and(|only| Arc::strong_count(only) > 1)
    }

    /// Returns the only limiter of a key without placeholders.
    pub(crate) fn only(&self, services: &Services, name: &str) -> Arc<Core> {
        let make = || Arc::new(Core::new(services, Arc::clone(&self.family), name, None));
        Arc::clone(self.only.get_or_init(make))
    }

    /// Returns the limiter of a key that a layer rendered, with the layer's settings.
    #[cfg(feature = "tower")]
    pub(crate) fn core_given(
        &self,
        services: &Services,
        name: &str,
        given: Option<&Settings>,
    ) -> Arc<Core> {
        let make = || Core::new(services, Arc::clone(&self.family), name, given.cloned());
        match self.family.keys {
            Keys::One => {
                let core = Arc::clone(self.only.get_or_init(|| Arc::new(make())));
                core.check_given(services);
                core
            }
            Keys::Many => self.own_or_shared(services, name, given),
        }
    }

    /// Returns the limiter of a rendered key.
    pub(crate) fn core(&self, services: &Services, name: &str) -> Arc<Core> {
        self.own_or_shared(services, name, None)
    }

    /// Returns the limiter of this key, or the one that keys beyond `max_keys` share.
    fn own_or_shared(
        &self,
        services: &Services,
        name: &str,
        given: Option<&Settings>,
    ) -> Arc<Core> {
        let others = others(services, &self.family, name, given);
        let name = others.map_or(name.into(), |others| others.name);
        let make = || Core::new(services, Arc::clone(&self.family), name, given.cloned());
        self.cores.get_or_make(services, self.family.number, name.stored, make)
    }
}

/// Returns the limiter that a key shares with others, if it has none of its own.
fn others<'a>(
    services: &Services,
    family: &'a Family,
    name: &str,
    given: Option<&Settings>,
) -> Option<Others<'a>> {
    let generation = services.generation();
    if family.places.are_unbounded(generation) {
        return None;
    }
    let now = (generation, services.clock.now_ms());
    let bound = || services.current().bound(family, given);
    let exempt = || services.current().names(family, name);
    let others = family.places.take(&family.label, name, now, bound, exempt)?;
    family.measured.shared();
    services.events.shared(others.shared, &family.key, others.most);
    Some(others)
}

impl std::fmt::Debug for Declared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.family.fmt(f)
    }
}
