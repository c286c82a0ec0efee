//! One annotated function, or one `limiter!`, and its limiter.

mod acquire;
mod part;
mod permits;
mod settlement;

use std::{convert::Infallible, sync::Arc};

use once_cell::race::OnceBox;
use ratelimit_spec::{KeyName, Template, Wait};

pub use self::{
    acquire::{Request, acquire, admit, skipped},
    part::{OptionalKeyPart, Part, key_part, key_part_or_absent},
    permits::{PermitCount, permits},
    settlement::{ActualPermits, actual, refund_if, refund_on, settle_later},
};
use crate::{
    Decision, Limiter, Limits, Rejection,
    annotation::Annotation,
    key,
    limiter::{self, Core},
    limits::PerLimits,
    registry::Declared,
};

/// One annotated place, and what it found out.
#[derive(Debug)]
pub struct CallSite {
    /// What the macro recorded.
    pub annotation: Annotation,
    /// The parsed key, if it has placeholders and was rendered.
    template: OnceBox<Template>,
    known: PerLimits<Known>,
}

/// The limiters of a site.
#[derive(Debug)]
struct Known {
    declared: Arc<Declared>,
    /// The limiter of a key without placeholders.
    only: Option<Arc<Core>>,
}

/// The limiter of a call: the only one of its key, or that of a rendered key.
struct Key(Option<KeyName>);

impl CallSite {
    /// The site of an annotation.
    #[must_use]
    #[expect(clippy::declare_interior_mutable_const, reason = "each site has its own copy")]
    pub const fn new(annotation: Annotation) -> Self {
        // A constant is evaluated once for all sites of a crate.
        const TEMPLATE: OnceBox<Template> = OnceBox::new();
        const KNOWN: PerLimits<Known> = PerLimits::new();
        Self { annotation, template: TEMPLATE, known: KNOWN }
    }

    /// Renders the key. A key without placeholders needs no rendering, and one of usual length no allocation.
    #[inline]
    fn key(&self, parts: &[Part<'_>]) -> Key {
        Key((!parts.is_empty()).then(|| self.rendered(parts)))
    }

    fn rendered(&self, parts: &[Part<'_>]) -> KeyName {
        let template = self.template.get_or_init(|| Box::new(self.annotation.template()));
        let Ok(name) = template.render::<Infallible>(|at, writer| {
            match parts.get(at).and_then(|part| part.0) {
                Some(part) => key::write(part, writer),
                None => writer.absent(),
            }
            Ok(())
        });
        name
    }

    /// Returns the handle of the key's limiter.
    #[must_use]
    pub fn limiter(&self, parts: &[Part<'_>]) -> Limiter {
        let limits = Limits::current();
        let core = self.with_core(&limits, &self.key(parts), Arc::clone);
        Limiter::new(core, Arc::clone(limits.services()))
    }

    /// Finds the limiter.
    fn with_core<T>(
        &self,
        limits: &Limits,
        Key(name): &Key,
        run: impl FnOnce(&Arc<Core>) -> T,
    ) -> T {
        self.with_known(limits, |known| match (&known.only, name) {
            (Some(core), _) => run(core),
            (None, name) => {
                let name = name.as_deref().unwrap_or(&known.declared.family.key);
                run(&known.declared.core(limits.services(), name))
            }
        })
    }

    /// Takes permits for a call that does not hold them, if this process counts the limiter and they are free.
    #[inline(always)]
    fn spend(&self, limits: &Limits, name: Option<&str>, permits: u32) -> bool {
        match self.known.first(limits) {
            Some(known) => known.spend(limits, name, permits),
            None => self.spend_apart(limits, name, permits),
        }
    }

    // Separate, because most programs have one set of limits.
    #[inline(never)]
    fn spend_apart(&self, limits: &Limits, name: Option<&str>, permits: u32) -> bool {
        self.with_known(limits, |known| known.spend(limits, name, permits))
    }

    /// Decides a call that holds no permits, if this process counts the limiter of its rendered key
    /// and the call need not wait.
    fn decide(
        &self,
        limits: &Limits,
        Key(name): &Key,
        permits: u32,
    ) -> Option<Result<Decision, Rejection>> {
        let (services, name) = (limits.services(), name.as_ref()?);
        let annotation = &self.annotation;
        self.with_known(limits, |known| {
            let family = &known.declared.family;
            limiter::decide_by_name(services, family, name, permits, None, |rejects| {
                // Another function with this key may be the one whose calls do not wait.
                let waits = annotation.wait != Some(Wait::None);
                annotation.fallible && !waits && rejects.calls
            })
        })
    }

    /// Calls a function with what is known under these limits.
    fn with_known<T>(&self, limits: &Limits, run: impl FnOnce(&Known) -> T) -> T {
        self.known.with(limits, || self.find(limits), run)
    }

    fn find(&self, limits: &Limits) -> Known {
        let (services, declared) =
            (limits.services(), limits.registry().annotated(&self.annotation));
        let only = self.annotation.fixed().map(|name| declared.only(services, &name));
        Known { declared, only }
    }
}

impl Known {
    #[inline(always)]
    fn spend(&self, limits: &Limits, name: Option<&str>, permits: u32) -> bool {
        let services = limits.services();
        match (&self.only, name) {
            (Some(core), _) => core.spend(services, permits),
            (None, Some(name)) => limiter::spend(services, &self.declared.family, name, permits),
            (None, None) => false,
        }
    }
}
