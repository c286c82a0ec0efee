//! One annotated function, or one `limiter!`, and its limiter.

mod acquire;
mod part;
mod permits;
mod settlement;

use std::{convert::Infallible, sync::Arc};

use ratelimit_spec::{KeyName, Template, Wait};

pub use self::{
    acquire::{Acquire, Request, acquire, admit},
    part::{OptionalKeyPart, Part, key_part, key_part_or_absent},
    permits::{PermitCount, permits},
    settlement::{ActualPermits, actual, refund_if, refund_on, settle_later},
};
use crate::{
    Decision, Limiter, Limits, Rejection,
    annotation::Annotation,
    key,
    limiter::{self, Core},
    registry::{Known, SiteNumber},
};

/// One annotated place.
#[derive(Debug)]
pub struct CallSite {
    /// What the macro recorded.
    pub annotation: Annotation,
    number: SiteNumber,
}

/// The limiter of a call: the only one of its key, or that of a rendered key.
struct Key(Option<KeyName>);

impl CallSite {
    /// The site of an annotation.
    #[must_use]
    pub const fn new(annotation: Annotation) -> Self {
        Self { annotation, number: SiteNumber::new() }
    }

    /// Renders the key. A key without placeholders needs no rendering.
    fn key(&self, limits: &Limits, parts: &[Part<'_>]) -> Key {
        let rendered = || self.with_known(limits, |known| rendered(&known.template, parts));
        Key((!parts.is_empty()).then(rendered))
    }

    /// Returns the handle of the key's limiter.
    #[must_use]
    pub fn limiter(&self, parts: &[Part<'_>]) -> Limiter {
        let limits = Limits::current();
        let core = self.with_core(&limits, &self.key(&limits, parts), Arc::clone);
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
    #[inline(always)]
    fn with_known<T>(&self, limits: &Limits, run: impl FnOnce(&Known) -> T) -> T {
        let find = || Known::new(&self.annotation, limits.registry(), limits.services());
        limits.sites().with(&self.number, find, run)
    }
}

/// Renders a key, one of usual length without an allocation.
fn rendered(template: &Template, parts: &[Part<'_>]) -> KeyName {
    let Ok(name) = template.render::<Infallible>(|at, writer| {
        match parts.get(at).and_then(|part| part.0) {
            Some(part) => key::write(part, writer),
            None => writer.absent(),
        }
        Ok(())
    });
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(key: &'static str) -> &'static CallSite {
        let annotation = Annotation {
            key,
            rate: 3,
            per_ms: 60_000,
            wait: Some(Wait::None),
            fallible: true,
            ..Annotation::NONE
        };
        Box::leak(Box::new(CallSite::new(annotation)))
    }

    /// More than there is room for. All share two limiters.
    #[tokio::test]
    async fn functions_of_a_library_that_is_loaded_late_are_limited_too() {
        let limits = Limits::builder().build().await.expect("the limits are valid");
        let mut admitted = [0; 2];
        for _ in 0..300 {
            let (fixed, of_user) = (site("late"), site("late:{user}"));
            for _ in 0..2 {
                let calls = async {
                    [fixed.acquire(1, &[]).await, of_user.acquire(1, &[key_part(&7_u8)]).await]
                };
                for (admitted, rejection) in admitted.iter_mut().zip(limits.scope(calls).await) {
                    *admitted += u32::from(rejection.is_none());
                }
            }
        }
        assert_eq!(admitted, [3, 3]);
    }
}
