//! One annotated function, or one `limiter!`, and the limiter it uses.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use ratelimit_spec::{KeyWriter, MAX_RATE};

use crate::{
    KeyPart, KeyText, Limiter, Limits, Rejection,
    annotation::Annotation,
    limiter::{Core, Patience},
    limits::{Family, Inner},
};

/// One annotated place, and what it found out.
#[derive(Debug)]
pub struct CallSite {
    annotation: Annotation,
    /// The family this site used last, and whose limits it belongs to.
    family: ArcSwapOption<(u64, Arc<Family>)>,
}

/// Whose limiter a call uses: the only one, or the one of a rendered key.
#[derive(Debug)]
pub struct Key(Option<String>);

impl CallSite {
    /// The site of an annotation.
    #[must_use]
    pub const fn new(annotation: Annotation) -> Self {
        Self { annotation, family: ArcSwapOption::const_empty() }
    }

    /// What was written there.
    #[must_use]
    pub const fn annotation(&self) -> &Annotation {
        &self.annotation
    }

    /// Renders the key. A fixed one needs no rendering and no memory.
    #[must_use]
    pub fn key(&'static self, parts: &[Part<'_>]) -> Key {
        if parts.is_empty() {
            return Key(None);
        }
        let mut writer = KeyWriter::new("");
        let (first, literals) = self.annotation.literals.split_first().unwrap_or((&"", &[]));
        writer.literal(first);
        for (part, literal) in parts.iter().zip(literals) {
            let mut text = KeyText::new(&mut writer);
            match part.0 {
                Some(part) => part.write_to(&mut text),
                None => text.absent(),
            }
            writer.literal(literal);
        }
        Key(Some(writer.finish()))
    }

    /// Takes permits before a body that can be refused.
    ///
    /// # Errors
    ///
    /// Whatever kept the call from its permits.
    pub async fn acquire(
        &'static self,
        key: Key,
        permits: impl Into<Permits>,
    ) -> Result<(), Rejection> {
        let limits = Limits::current();
        let core = self.core(&limits, key);
        let permits = permits.into();
        let Permits(Ok(permits)) = permits else {
            let rejection = core.rejection(crate::Reason::InvalidPermits);
            return Err(rejection.with_detail(permits.complaint()));
        };
        let numbers = core.numbers(limits.inner())?;
        let patience = Patience::from(numbers.effective.wait.value);
        core.acquire(limits.inner(), permits, patience).await.map(|_| ())
    }

    /// Takes permits before a body that cannot be refused.
    pub async fn admit(&'static self, key: Key, permits: u32) {
        let limits = Limits::current();
        let core = self.core(&limits, key);
        core.admit(limits.inner(), permits).await;
    }

    /// The handle of the key's limiter.
    #[must_use]
    pub fn limiter(&'static self, key: Key) -> Limiter {
        let limits = Limits::current();
        Limiter::new(self.core(&limits, key), limits)
    }

    fn core(&'static self, limits: &Limits, Key(name): Key) -> Arc<Core> {
        let inner = limits.inner();
        let known = self.family.load();
        if let Some(known) = &*known
            && known.0 == inner.id
        {
            return self.core_in(&known.1, inner, name);
        }
        let family = inner.family_of(&self.annotation);
        self.family.store(Some(Arc::new((inner.id, Arc::clone(&family)))));
        self.core_in(&family, inner, name)
    }

    fn core_in(&self, family: &Arc<Family>, limits: &Inner, name: Option<String>) -> Arc<Core> {
        match name {
            Some(name) => family.core(limits, name),
            None => family.only(limits, self.annotation.fixed().unwrap_or(self.annotation.key)),
        }
    }
}

/// A parameter that stands in a key, or its absence.
#[derive(Clone, Copy)]
pub struct Part<'a>(Option<&'a dyn KeyPart>);

/// Names a parameter of the key.
pub fn key_part<T: KeyPart>(part: &T) -> Part<'_> {
    Part(Some(part))
}

/// Names a parameter of the key that may be absent; everybody without one shares a bucket.
pub fn key_part_or_absent<T: OptionalKeyPart>(part: &T) -> Part<'_> {
    Part(part.part())
}

/// An `Option` of something that can stand in a key.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an optional part of a rate limit key",
    label = "expected an `Option` of something that can stand in a key",
    note = "write the placeholder without `?` where there always is a value"
)]
pub trait OptionalKeyPart {
    #[doc(hidden)]
    fn part(&self) -> Option<&dyn KeyPart>;
}

impl<T: KeyPart> OptionalKeyPart for Option<T> {
    fn part(&self) -> Option<&dyn KeyPart> {
        self.as_ref().map(|part| part as &dyn KeyPart)
    }
}

impl std::fmt::Debug for Part<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A key's values are nobody's business.
        f.write_str("Part(..)")
    }
}

/// The permits a call asks for: a number that fits, or what it was instead.
#[derive(Debug)]
pub struct Permits(Result<u32, String>);

impl From<u32> for Permits {
    fn from(permits: u32) -> Self {
        Self(Ok(permits))
    }
}

impl Permits {
    fn complaint(&self) -> String {
        match &self.0 {
            Ok(permits) => permits.to_string(),
            Err(number) => format!("{number}; ask for 1 to {MAX_RATE}"),
        }
    }
}

/// Evaluates the `permits` of an annotation.
#[must_use]
pub fn permits<T: PermitCount>(count: T) -> Permits {
    let number = count.into_i128();
    Permits(u32::try_from(number).map_err(|_| number.to_string()))
}

/// An integer that can say how many permits a call takes.
#[diagnostic::on_unimplemented(
    message = "`permits` must be an integer",
    label = "`{Self}` does not count permits",
    note = "write an expression over the parameters, such as `permits = order.items.len()`"
)]
pub trait PermitCount {
    #[doc(hidden)]
    fn into_i128(self) -> i128;
}

macro_rules! permit_counts {
    ($($ty:ty),*) => {$(
        impl PermitCount for $ty {
            fn into_i128(self) -> i128 {
                i128::from(self)
            }
        }
    )*};
}

permit_counts!(u8, u16, u32, u64, i8, i16, i32, i64);

impl PermitCount for usize {
    fn into_i128(self) -> i128 {
        i128::try_from(self).unwrap_or(i128::MAX)
    }
}

impl PermitCount for std::num::NonZeroU32 {
    fn into_i128(self) -> i128 {
        self.get().into()
    }
}
