//! Exactly what expanded code names, and what tools for operators need. Not a public interface: it changes without
//! notice.

use std::{
    future::{Future, Pending},
    marker::PhantomData,
};

pub use std::option::Option::Some;

pub use inventory::submit;
pub use ratelimit_spec::{Algorithm, CalendarUnit, Mode, OnStoreError, RefundOn, Wait};

use crate::{FromRejection, Limits, Rejection, StoreError};
pub use crate::{
    annotation::{Annotation, CompiledWith, Cost, FromFile, Rare, burst, rate},
    call_site::{
        Acquire, ActualPermits, CallSite, OptionalKeyPart, Part, PermitCount, Request, acquire,
        actual, admit, key_part, key_part_or_absent, permits, refund_if, refund_on, settle_later,
    },
    refund::Judged,
    store::{Counts, Member, MemberId},
};

/// Returns the processes that share the store of these limits, with what their busiest limiters did, as their last
/// heartbeats describe them; none if the store is not shared.
///
/// # Errors
///
/// Returns an error if the store does not reply, or its user may not read them.
pub async fn members(limits: &Limits) -> Result<Vec<Member>, StoreError> {
    let services = limits.services();
    match services.store.shared() {
        Some(store) => store.members(&services.key_prefix).await,
        None => Ok(Vec::new()),
    }
}

/// The stores, for the tests of this project.
#[cfg(feature = "test-util")]
pub mod store {
    pub use ratelimit_spec::{Algorithm, Calendar, CalendarUnit, Mode, OnDrift, Penalty, Rule};

    pub use crate::{clock::Clock, store::*};
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
/// traits' methods by value, the one by reference. So a generic fallback, whose type is open until then, is taken to
/// return an `Output`.
#[derive(Debug)]
pub struct Answer<T, Output>(Option<T>, PhantomData<fn() -> Output>);

/// Stands for a return type with an `impl Trait` in it, which has no name. A fallback whose type is open gets it too: one
/// that never returns, or a mistake, which rustc reports at the fallback with this name.
#[derive(Debug)]
pub enum ReturnTypeIsImplTrait {}

/// What a function returns instead: a value, or what a future resolves to. Expanded code returns a value without
/// awaiting anything, because a value that lives across an await is a part of the function's future. The type of the variant
/// that does not occur is left to inference.
#[derive(Debug)]
pub enum Resolved<T, F> {
    /// The answer of a plain fallback.
    Now(Plain<T>),
    /// The future of an asynchronous one.
    Later(F),
}

/// The answer of a plain fallback.
#[derive(Debug)]
pub struct Plain<T>(T);

impl Plain<ReturnTypeIsImplTrait> {
    /// Returns any type, because this fallback never returns.
    pub fn get<T>(self) -> T {
        match self.0 {}
    }
}

/// Returns the answer. A call, so that a mistake in its type is reported at the whole fallback.
pub trait GetAnswer {
    /// What the fallback returned.
    type Output;

    /// Returns it.
    fn get(self) -> Self::Output;
}

impl<T> GetAnswer for Plain<T> {
    type Output = T;

    fn get(self) -> T {
        self.0
    }
}

impl<T, Output> Answer<T, Output> {
    fn take(&mut self) -> T {
        self.0.take().expect("expanded code resolves an answer once")
    }

    fn now<Never>(&mut self) -> Resolved<T, Pending<Never>> {
        Resolved::Now(Plain(self.take()))
    }
}

impl<T> Answer<T, T> {
    /// A plain fallback.
    pub fn resolve<Never>(mut self) -> Resolved<T, Pending<Never>> {
        self.now()
    }
}

/// An asynchronous fallback: its future is the answer's.
pub trait ResolveFuture {
    /// The future that the fallback returned.
    type Future;

    /// Returns the future of the result.
    fn resolve<Never>(self) -> Resolved<Never, Self::Future>;
}

impl<F: Future, Output> ResolveFuture for Answer<F, Output> {
    type Future = F;

    fn resolve<Never>(mut self) -> Resolved<Never, F> {
        Resolved::Later(self.take())
    }
}

/// A plain fallback of the type `!`, which rustc would find in our code and report what follows as unreachable.
pub trait ResolveNever<Output> {
    /// Never returns, as the fallback.
    fn resolve<Never>(self) -> Resolved<Output, Pending<Never>>;
}

impl<Output> ResolveNever<Output> for Answer<<fn() -> ! as Returns>::Output, Output> {
    fn resolve<Never>(mut self) -> Resolved<Output, Pending<Never>> {
        self.take()
    }
}

/// Names the type `!`, which can only be written as a return type.
pub trait Returns {
    /// The return type of a function.
    type Output;
}

impl<T> Returns for fn() -> T {
    type Output = T;
}

/// A plain fallback whose answer has another type: one that coerces, or a mistake for rustc to report.
pub trait ResolvePlain {
    /// What the fallback returned.
    type Output;

    /// Returns the result.
    fn resolve<Never>(self) -> Resolved<Self::Output, Pending<Never>>;
}

impl<T, Output> ResolvePlain for &mut Answer<T, Output> {
    type Output = T;

    fn resolve<Never>(self) -> Resolved<T, Pending<Never>> {
        self.now()
    }
}
