//! Exactly what expanded code names. Not a public interface: it changes without notice.

use std::future::{Future, Ready, ready};

pub use inventory;
pub use ratelimit_spec::{Algorithm, CalendarUnit, Mode, OnStoreError, Wait};

pub use crate::{
    __ratelimit_submit as submit,
    annotation::{Annotation, Location, Registered},
    call_site::{
        CallSite, Key, OptionalKeyPart, Part, PermitCount, Permits, key_part, key_part_or_absent,
        permits,
    },
};
use crate::{FromRejection, Rejection};

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

/// What a fallback returned: the answer, or a future of it.
#[derive(Debug)]
pub struct Answer<T>(pub T);

impl<F: Future> Answer<F> {
    /// An asynchronous fallback: its future is the answer's.
    pub fn settle(self) -> F {
        self.0
    }
}

/// A plain fallback: found by name only when the inherent method above does not apply.
pub trait SettlePlain {
    /// What the fallback returned.
    type Output;

    /// A future that is the answer already.
    fn settle(self) -> Ready<Self::Output>;
}

impl<T> SettlePlain for Answer<T> {
    type Output = T;

    fn settle(self) -> Ready<T> {
        ready(self.0)
    }
}
