//! Classifies results as failures and successes.

use ratelimit_spec::RefundOn;

/// A return type that can represent failure, for `refund_on`: every `Result` and, with the web features, responses.
#[diagnostic::on_unimplemented(
    message = "a `#[rate_limit]` function with `refund_on` must return a `Result` or a response",
    label = "`{Self}` does not show whether the call failed",
    note = "return a `Result`, or decide with `refund_if = path::to::function`"
)]
pub trait Judged {
    /// Returns the word of `refund_on` that applies, or `None` if none does.
    #[doc(hidden)]
    fn outcome(&self) -> Option<RefundOn>;
}

#[diagnostic::do_not_recommend]
impl<T, E> Judged for Result<T, E> {
    fn outcome(&self) -> Option<RefundOn> {
        Some(if self.is_ok() { RefundOn::Ok } else { RefundOn::Err })
    }
}
