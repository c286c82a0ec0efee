//! Exactly what expanded code names. Not a public interface: it changes without notice.

use std::future::{Future, Ready, ready};

pub use inventory;
pub use ratelimit_spec::{Algorithm, CalendarUnit, Mode, OnStoreError, RefundOn, Wait};

pub use crate::{
    __ratelimit_submit as submit,
    annotation::{Annotation, Location, Registered},
    call_site::{
        ActualPermits, CallSite, Kept, OptionalKeyPart, Part, PermitCount, Request, acquire,
        actual, admit, key_part, key_part_or_absent, permits, refund_if, refund_on, settle_later,
        skipped,
    },
    refund::Judged,
};
use crate::{FromRejection, Rejection};

/// The stores, for the tests of this project.
#[cfg(feature = "test-util")]
pub mod store {
    pub use ratelimit_spec::{Algorithm, Calendar, CalendarUnit, Mode, OnDrift, Rule};

    pub use crate::store::*;
}

/// Puts a call site on the list of all there are.
#[doc(hidden)]
#[macro_export]
macro_rules! __ratelimit_submit {
    (& $site:ident) => {
        $crate::__private::inventory::submit! { $crate::__private::Registered($site.annotation()) }
    };
}

/// Turns a rejection into what the function returns.
#[must_use]
pub fn reject<T: FromRejection>(rejection: Rejection) -> T {
    T::from_rejection(rejection)
}

/// Calls a fallback.
pub fn answer<T>(rejection: Rejection, fallback: impl FnOnce(Rejection) -> T) -> Answer<T> {
    Answer(fallback(rejection))
}

/// What a fallback returned: the answer, or a future of it.
#[derive(Debug)]
pub struct Answer<T>(T);

impl<F: Future> Answer<F> {
    /// An asynchronous fallback: its future is the answer's.
    pub fn resolve(self) -> F {
        self.0
    }
}

/// A plain fallback: found by name only when the inherent method above does not apply.
pub trait ResolvePlain {
    /// What the fallback returned.
    type Output;

    /// A future that is the answer already.
    fn resolve(self) -> Ready<Self::Output>;
}

impl<T> ResolvePlain for Answer<T> {
    type Output = T;

    fn resolve(self) -> Ready<T> {
        ready(self.0)
    }
}
