//! The integers that count permits.

use std::num::{NonZeroU32, NonZeroU64};

/// An integer that can count permits. Signed integers cannot, because a negative cost is a bug of the caller.
#[diagnostic::on_unimplemented(
    message = "`permits` must be an unsigned integer",
    label = "`{Self}` is not an unsigned integer",
    note = "write an expression over the parameters, such as `permits = order.items.len()`",
    note = "give a plain number its type, such as `permits = if large {{ 10_u64 }} else {{ 1 }}`",
    note = "convert a signed number, such as `permits = u64::try_from(count).unwrap_or(1)`"
)]
pub trait PermitCount {
    #[doc(hidden)]
    fn count(self) -> u64;
}

macro_rules! permit_counts {
    ($($ty:ty => $count:expr),*) => {$(
        impl PermitCount for $ty {
            fn count(self) -> u64 {
                let count: fn(Self) -> u64 = $count;
                count(self)
            }
        }
    )*};
}

permit_counts!(
    u8 => u64::from,
    u16 => u64::from,
    u32 => u64::from,
    u64 => |n| n,
    // No pointer is wider than that.
    usize => |n| u64::try_from(n).unwrap_or(u64::MAX),
    NonZeroU32 => |n| n.get().into(),
    NonZeroU64 => NonZeroU64::get
);

/// Returns the value of a `permits` expression.
#[must_use]
pub fn permits<T: PermitCount>(count: T) -> u64 {
    count.count()
}
