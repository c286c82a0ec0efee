//! Which results are failures, so that a call gives its permits back.

/// What an annotated function with `refund_on` returns.
///
/// Implemented for every `Result`, whose `Err` is a failure, and with the web features for
/// responses, where the service's own failures (5xx) are. Implement it for a return type of your own:
///
/// ```
/// use ratelimit_runtime::Refundable;
///
/// enum Reply {
///     Text(String),
///     TryLater,
/// }
///
/// impl Refundable for Reply {
///     fn is_failure(&self) -> bool {
///         matches!(self, Reply::TryLater)
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "a `#[rate_limit]` function with `refund_on` must return something that can be a failure",
    label = "nobody can tell whether `{Self}` is a failure",
    note = "return a `Result`, or implement `ratelimit_runtime::Refundable` for the type",
    note = "or remove `refund_on`"
)]
pub trait Refundable {
    /// Whether the call came to nothing.
    fn is_failure(&self) -> bool;
}

#[diagnostic::do_not_recommend]
impl<T, E> Refundable for Result<T, E> {
    fn is_failure(&self) -> bool {
        self.is_err()
    }
}
