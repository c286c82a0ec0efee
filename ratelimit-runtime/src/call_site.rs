//! One annotated function, or one `limiter!`, and the limiter it uses.

mod stack;

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use once_cell::sync::OnceCell;
use ratelimit_spec::{KeyName, KeyWriter, Wait};

pub use self::stack::{Asked, Settlement, acquire_all, admit_all, skipped};
use crate::{
    KeyPart, KeyText, Limiter, Limits, Rejection,
    annotation::Annotation,
    limiter::{self, Claim, Core},
    limits::{Family, Inner},
};

/// One annotated place, and what it found out.
#[derive(Debug)]
pub struct CallSite {
    annotation: Annotation,
    /// By the first limits it was called under; most programs have no others.
    first: OnceCell<Known>,
    /// By the last others.
    last: ArcSwapOption<Known>,
}

/// What a site used last, and whose limits it belongs to.
#[derive(Debug)]
struct Known {
    limits: u64,
    family: Arc<Family>,
    /// The limiter of a key without placeholders.
    only: Option<Arc<Core>>,
}

/// Whose limiter a call uses: the only one, or the one of a rendered key.
#[derive(Debug)]
pub struct Key(Option<KeyName>);

impl CallSite {
    /// The site of an annotation.
    #[must_use]
    pub const fn new(annotation: Annotation) -> Self {
        Self { annotation, first: OnceCell::new(), last: ArcSwapOption::const_empty() }
    }

    /// What was written there.
    #[must_use]
    pub const fn annotation(&self) -> &Annotation {
        &self.annotation
    }

    /// Renders the key. A fixed one needs no rendering, and one of usual length no memory.
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
        let permits = permits.into();
        if permits.0 == 0 {
            return Ok(());
        }
        let (core, limits) = match self.at_once(&key, &permits, Core::wait) {
            Ok(result) => return result,
            Err(later) => later,
        };
        let wait = core.wait(limits.inner());
        let claim = Claim { core, permits: permits.0, wait, fallible: true };
        limiter::acquire(&limits, vec![claim]).await.map(|_| ()).map_err(|(_, rejection)| rejection)
    }

    /// The whole of a call that needs neither the store nor a wait; else what it takes to go on.
    fn at_once(
        &'static self,
        key: &Key,
        permits: &Permits,
        wait: impl Fn(&Core, &Inner) -> Wait,
    ) -> Result<Result<(), Rejection>, (Arc<Core>, Limits)> {
        Limits::with_current(|limits| {
            self.with_core(limits, key, |core| {
                let inner = limits.inner();
                let result = permits.count().and_then(|permits| {
                    core.acquire_at_once(inner, permits, || wait(core, inner))
                });
                match result {
                    Some(result) => Ok(result.map(|_| ())),
                    None => Err((Arc::clone(core), limits.clone())),
                }
            })
        })
    }

    /// Takes permits before a body that cannot be refused.
    pub async fn admit(&'static self, key: Key, permits: u32) {
        let forever = |_: &_, _: &_| Wait::Forever;
        let (core, limits) = match self.at_once(&key, &Permits(permits.into()), forever) {
            Ok(Ok(())) => return,
            // What cannot leave the function is settled below.
            Ok(Err(_)) => self.limiter(key).into_parts(),
            Err(later) => later,
        };
        let claim = Claim { core, permits: permits.into(), wait: Wait::Forever, fallible: false };
        limiter::admit(&limits, vec![claim]).await;
    }

    /// The handle of the key's limiter.
    #[must_use]
    #[expect(clippy::needless_pass_by_value, reason = "expanded code makes it for this call")]
    pub fn limiter(&'static self, key: Key) -> Limiter {
        let limits = Limits::current();
        let core = self.with_core(&limits, &key, Arc::clone);
        Limiter::new(core, limits)
    }

    /// Finds the limiter. A key without placeholders is looked up once for each set of limits.
    fn with_core<T>(
        &'static self,
        limits: &Limits,
        Key(name): &Key,
        run: impl FnOnce(&Arc<Core>) -> T,
    ) -> T {
        let inner = limits.inner();
        let first = self.first.get_or_init(|| self.find(inner));
        if first.limits == inner.id {
            return first.with_core(inner, name, run);
        }
        let last = self.last.load();
        if let Some(last) = last.as_ref().filter(|last| last.limits == inner.id) {
            return last.with_core(inner, name, run);
        }
        let found = Arc::new(self.find(inner));
        self.last.store(Some(Arc::clone(&found)));
        found.with_core(inner, name, run)
    }

    fn find(&self, limits: &Inner) -> Known {
        let family = limits.family_of(&self.annotation);
        let only = self.annotation.fixed().map(|name| family.only(limits, name));
        Known { limits: limits.id, family, only }
    }
}

impl Known {
    fn with_core<T>(
        &self,
        limits: &Inner,
        name: &Option<KeyName>,
        run: impl FnOnce(&Arc<Core>) -> T,
    ) -> T {
        match (&self.only, name) {
            (Some(core), _) => run(core),
            (None, name) => {
                run(&self.family.core(limits, name.as_deref().unwrap_or(&self.family.key)))
            }
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

/// The permits that a call costs.
#[derive(Clone, Copy, Debug)]
pub struct Permits(u64);

impl From<u32> for Permits {
    fn from(permits: u32) -> Self {
        Self(permits.into())
    }
}

impl Permits {
    /// The number, unless no limiter can ever grant as many.
    fn count(self) -> Option<u32> {
        u32::try_from(self.0).ok()
    }
}

/// Evaluates the `permits` of an annotation.
#[must_use]
pub fn permits<T: PermitCount>(count: T) -> Permits {
    Permits(count.into_u64())
}

/// An unsigned integer that can say how many permits a call takes.
#[diagnostic::on_unimplemented(
    message = "`permits` must be an unsigned integer",
    label = "`{Self}` does not count permits",
    note = "write an expression over the parameters, such as `permits = order.items.len()`",
    note = "or convert a signed number, which may be negative, such as `u64::try_from(n).unwrap_or(0)`"
)]
pub trait PermitCount {
    #[doc(hidden)]
    fn into_u64(self) -> u64;
}

macro_rules! permit_counts {
    ($($ty:ty),*) => {$(
        impl PermitCount for $ty {
            fn into_u64(self) -> u64 {
                u64::from(self)
            }
        }
    )*};
}

permit_counts!(u8, u16, u32, u64, std::num::NonZeroU64);

impl PermitCount for usize {
    fn into_u64(self) -> u64 {
        u64::try_from(self).unwrap_or(u64::MAX)
    }
}

impl PermitCount for std::num::NonZeroU32 {
    fn into_u64(self) -> u64 {
        self.get().into()
    }
}
