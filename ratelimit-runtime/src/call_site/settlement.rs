//! Settles a call's permits once its body has returned.
//!
//! Each function returns the number of permits that the call really used, or `None` if the estimate
//! stands. A refund is a call that used none.

use super::PermitCount;
use crate::{Permit, refund::Judged};

/// Judges the result by `refund_on`, which the limits file may have changed.
pub fn refund_on<T: Judged>(permit: &Permit, result: &T) -> Option<u64> {
    (result.outcome() == Some(permit.refund_on()?)).then_some(0)
}

/// Judges the result by the function of `refund_if`.
pub fn refund_if<T>(result: &T, refund_if: impl FnOnce(&T) -> bool) -> Option<u64> {
    refund_if(result).then_some(0)
}

/// Reads the cost of the call from its result, by the function of `actual`.
pub fn actual<T, P: ActualPermits>(result: &T, actual: impl FnOnce(&T) -> P) -> Option<u64> {
    actual(result).actual()
}

/// What a function of `actual` returns: the permits that the call used, or `None` if the estimate stands.
#[diagnostic::on_unimplemented(
    message = "`actual` must return an unsigned integer, or an `Option` of one",
    label = "`{Self}` is not an unsigned integer",
    note = "give a plain number its type, such as `if answer.is_empty() {{ 1_u64 }} else {{ 5 }}`",
    note = "convert a signed number, such as `u64::try_from(count).ok()`"
)]
pub trait ActualPermits {
    #[doc(hidden)]
    fn actual(self) -> Option<u64>;
}

#[diagnostic::do_not_recommend]
impl<T: PermitCount> ActualPermits for T {
    fn actual(self) -> Option<u64> {
        Some(self.count())
    }
}

#[diagnostic::do_not_recommend]
impl<T: PermitCount> ActualPermits for Option<T> {
    fn actual(self) -> Option<u64> {
        self.map(PermitCount::count)
    }
}

/// Settles the permits of a call at what it used. The call does not wait for the store.
pub fn settle_later(permit: Permit, used: Option<u64>) {
    if let Some(used) = used {
        permit.record(used);
    }
    drop(permit);
}
