//! Who is counted: values that may stand in a key.

use std::{
    borrow::Cow,
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    num::{
        NonZeroI8, NonZeroI16, NonZeroI32, NonZeroI64, NonZeroI128, NonZeroIsize, NonZeroU8,
        NonZeroU16, NonZeroU32, NonZeroU64, NonZeroU128, NonZeroUsize,
    },
    rc::Rc,
    sync::Arc,
};

use ratelimit_spec::KeyWriter;

/// A value that can stand in a key template.
///
/// Implemented for strings, integers, `bool`, `char` and IP addresses. Not for floats, because
/// two that look alike may differ, nor for collections. An `Option` takes an explicit
/// `{user_id?}` in the template, because everybody without a user then shares one bucket.
///
/// Newtypes opt in:
///
/// ```
/// use ratelimit_runtime::{KeyPart, KeyText};
///
/// struct OrderId(u128);
///
/// impl KeyPart for OrderId {
///     fn write_to(&self, text: &mut KeyText<'_>) {
///         text.display(&format_args!("{:032x}", self.0));
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be used as a rate limit key",
    label = "expected a string, an integer, a `bool`, a `char` or an IP address",
    note = "pick a field that identifies the caller, such as `{{user.id}}`",
    note = "an `Option` takes a `?`, such as `{{user_id?}}`: everybody without one shares a bucket",
    note = "or implement `ratelimit_runtime::KeyPart` for `{Self}`"
)]
pub trait KeyPart {
    /// Writes the value; it is escaped, so that any text is safe.
    fn write_to(&self, text: &mut KeyText<'_>);
}

/// Where a [`KeyPart`] writes itself, once.
#[derive(Debug)]
pub struct KeyText<'a>(&'a mut KeyWriter);

impl<'a> KeyText<'a> {
    pub(crate) fn new(writer: &'a mut KeyWriter) -> Self {
        Self(writer)
    }

    /// Writes a text, escaped; one of more than 64 bytes is replaced by its hash.
    pub fn text(&mut self, text: &str) {
        self.0.part(text);
    }

    /// Writes what a value displays, escaped likewise.
    pub fn display(&mut self, value: &dyn fmt::Display) {
        self.0.display(value);
    }

    pub(crate) fn absent(&mut self) {
        self.0.absent();
    }
}

impl KeyPart for str {
    fn write_to(&self, text: &mut KeyText<'_>) {
        text.text(self);
    }
}

impl KeyPart for String {
    fn write_to(&self, text: &mut KeyText<'_>) {
        text.text(self);
    }
}

macro_rules! by_reference {
    ($($ty:ty),*) => {$(
        impl<T: KeyPart + ?Sized> KeyPart for $ty {
            fn write_to(&self, text: &mut KeyText<'_>) {
                (**self).write_to(text);
            }
        }
    )*};
}

by_reference!(&T, &mut T, Box<T>, Rc<T>, Arc<T>);

impl<T: KeyPart + ToOwned + ?Sized> KeyPart for Cow<'_, T> {
    fn write_to(&self, text: &mut KeyText<'_>) {
        (**self).write_to(text);
    }
}

macro_rules! by_display {
    ($($ty:ty),* $(,)?) => {$(
        impl KeyPart for $ty {
            fn write_to(&self, text: &mut KeyText<'_>) {
                text.display(self);
            }
        }
    )*};
}

by_display!(
    i8,
    i16,
    i32,
    i64,
    i128,
    isize,
    u8,
    u16,
    u32,
    u64,
    u128,
    usize,
    bool,
    char,
    IpAddr,
    Ipv4Addr,
    Ipv6Addr,
    NonZeroI8,
    NonZeroI16,
    NonZeroI32,
    NonZeroI64,
    NonZeroI128,
    NonZeroIsize,
    NonZeroU8,
    NonZeroU16,
    NonZeroU32,
    NonZeroU64,
    NonZeroU128,
    NonZeroUsize,
);
