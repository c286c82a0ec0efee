//! Exactly what expanded code names, and what tools for operators need. Not a public interface: it changes without
//! notice.

use std::{
    future::{Future, Ready, ready},
    marker::PhantomData,
};

pub use inventory;
pub use ratelimit_spec::{Algorithm, CalendarUnit, Mode, OnStoreError, RefundOn, Wait};

pub use crate::{
    __ratelimit_submit as submit,
    annotation::{Annotation, FromFile, Rare, Registered},
    call_site::{
        Acquire, ActualPermits, CallSite, OptionalKeyPart, Part, PermitCount, Request, acquire,
        actual, admit, key_part, key_part_or_absent, permits, refund_if, refund_on, settle_later,
        skipped,
    },
    refund::Judged,
    store::{Counts, Member, MemberId},
};
use crate::{FromRejection, Limits, Rejection, StoreError};

/// Returns the processes that share the store of these limits, with what their busiest limiters did, as their last
/// heartbeats describe them.
///
/// # Errors
///
/// Returns an error if the store does not answer, or its user may not read them.
pub async fn members(limits: &Limits) -> Result<Vec<Member>, StoreError> {
    limits.members().await
}

/// The stores, for the tests of this project.
#[cfg(feature = "test-util")]
pub mod store {
    pub use ratelimit_spec::{Algorithm, Calendar, CalendarUnit, Mode, OnDrift, Penalty, Rule};

    pub use crate::{clock::Clock, store::*};
}

/// Adds a call site to the list of all call sites.
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

/// Calls the fallback of a function that returns an `Output`.
pub fn answer<Output, T>(
    rejection: Rejection,
    fallback: impl FnOnce(Rejection) -> T,
) -> Answer<T, Output> {
    Answer(Some(fallback(rejection)), PhantomData)
}

/// The result of a fallback: the function's output, a future of it, or another type.
///
/// `resolve` is the first of these that applies, in the order in which methods are looked up: the inherent method, the
/// trait's method by value, the one by reference. So a generic fallback, whose type is open until then, is taken to
/// return an `Output`.
#[derive(Debug)]
pub struct Answer<T, Output>(Option<T>, PhantomData<fn() -> Output>);

/// Stands for the return type of a function if it has no name.
#[derive(Debug)]
pub enum Unnamed {}

impl<T, Output> Answer<T, Output> {
    fn take(&mut self) -> T {
        self.0.take().expect("expanded code resolves an answer once")
    }
}

impl<T> Answer<T, T> {
    /// A plain fallback.
    pub fn resolve(mut self) -> Ready<T> {
        ready(self.take())
    }
}

/// An asynchronous fallback: its future is the answer's.
pub trait ResolveFuture {
    /// The future that the fallback returned.
    type Future;

    /// Returns the future of the result.
    fn resolve(self) -> Self::Future;
}

impl<F: Future, Output> ResolveFuture for Answer<F, Output> {
    type Future = F;

    fn resolve(mut self) -> F {
        self.take()
    }
}

/// A plain fallback whose answer has another type: one that coerces, or a mistake for rustc to report.
pub trait ResolvePlain {
    /// What the fallback returned.
    type Output;

    /// Returns a future that is ready.
    fn resolve(self) -> Ready<Self::Output>;
}

impl<T, Output> ResolvePlain for &mut Answer<T, Output> {
    type Output = T;

    fn resolve(self) -> Ready<T> {
        ready(self.take())
    }
}
