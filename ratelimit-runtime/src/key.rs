//! Values in keys.

use std::{
    borrow::Cow,
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6},
    num::{
        NonZeroI8, NonZeroI16, NonZeroI32, NonZeroI64, NonZeroI128, NonZeroIsize, NonZeroU8,
        NonZeroU16, NonZeroU32, NonZeroU64, NonZeroU128, NonZeroUsize,
    },
    rc::Rc,
    sync::Arc,
};

use ratelimit_spec::KeyWriter;

/// A value that can be used in a key template.
///
/// Implemented for strings, integers, `bool`, `char`, IP addresses and socket addresses (without
/// the port), for `Uuid` and `Ulid` with the features of these names, and for references, `Box`,
/// `Rc`, `Arc` and `Cow` of them. Not for floats, because two that look alike may differ, nor for
/// collections. An `Option` needs an explicit `{user_id?}` in the template, because all calls
/// without a value share one limit.
///
/// Implement it for your own types, or for newtypes around types of other crates:
///
/// ```
/// use std::fmt;
///
/// use ratelimit_runtime::KeyPart;
///
/// struct OrderId(u128);
///
/// impl KeyPart for OrderId {
///     fn fmt_key(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
///         write!(f, "{:032x}", self.0)
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be used as a rate limit key",
    label = "expected a string, an integer, a `bool`, a `char` or an IP address",
    note = "write a field or a method that identifies the caller, such as `{{user.id}}` or `{{user.id()}}`",
    note = "for an `Option`, write `{{user_id?}}`; all calls without a value share one limit",
    note = "for a type of your crate, implement `ratelimit_runtime::KeyPart`; wrap a type of another crate in a newtype",
    note = "for `Uuid` and `Ulid`, enable the feature `uuid` or `ulid` of `ratelimit-runtime`"
)]
pub trait KeyPart {
    /// Writes the value as it is to appear in the key.
    ///
    /// Any text is safe: all characters but ASCII letters, digits, `_`, `.` and `-` are escaped, and
    /// text that takes more than 64 bytes after that is replaced by its hash, for which this function
    /// may be called a second time. An error counts as the end of the text.
    ///
    /// The text identifies the caller in the store. If a release writes different text for the same
    /// value, every limit of that value starts over.
    ///
    /// # Errors
    ///
    /// Returns an error only if writing to `f` does.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::fmt;
    /// use ratelimit_runtime::{KeyPart, Limits, Rejection, rate_limit};
    ///
    /// struct Email(&'static str);
    ///
    /// impl KeyPart for Email {
    ///     fn fmt_key(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    ///         f.write_str(&self.0.to_lowercase())
    ///     }
    /// }
    ///
    /// #[rate_limit(key = "password_reset:{email}", rate = 1, per = "1h", wait = "none")]
    /// async fn reset_password(email: Email) -> Result<(), Rejection> {
    ///     Ok(())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// # limits.scope(async {
    /// assert!(reset_password(Email("ada@example.org")).await.is_ok());
    /// assert!(reset_password(Email("Ada@Example.org")).await.is_err());
    /// # }).await;
    /// # Ok(())
    /// # }
    /// ```
    fn fmt_key(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// Returns the value if it can be written without a formatter, which takes several times as long.
    #[doc(hidden)]
    fn plain(&self) -> PlainPart<'_> {
        PlainPart::Other
    }
}

/// A value of a key that is a number, a text or an address.
#[doc(hidden)]
#[derive(Debug)]
pub enum PlainPart<'a> {
    Other,
    Number(u64),
    Text(&'a str),
    Ipv4([u8; 4]),
}

/// Writes a value into a key.
pub(crate) fn write(part: &dyn KeyPart, key: &mut KeyWriter) {
    match part.plain() {
        PlainPart::Number(number) => key.number(number),
        PlainPart::Text(text) => key.part(text),
        PlainPart::Ipv4(octets) => key.ipv4(octets),
        PlainPart::Other => key.display(&Displayed(part)),
    }
}

/// Displays a value as it appears in a key, before it is escaped.
pub(crate) struct Displayed<'a>(pub(crate) &'a dyn KeyPart);

impl fmt::Display for Displayed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_key(f)
    }
}

impl KeyPart for str {
    fn fmt_key(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }

    fn plain(&self) -> PlainPart<'_> {
        PlainPart::Text(self)
    }
}

impl KeyPart for String {
    fn fmt_key(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }

    fn plain(&self) -> PlainPart<'_> {
        PlainPart::Text(self)
    }
}

macro_rules! by_reference {
    ($($ty:ty),*) => {$(
        impl<T: KeyPart + ?Sized> KeyPart for $ty {
            fn fmt_key(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).fmt_key(f)
            }

            fn plain(&self) -> PlainPart<'_> {
                (**self).plain()
            }
        }
    )*};
}

by_reference!(&T, &mut T, Box<T>, Rc<T>, Arc<T>);

impl<T: KeyPart + ToOwned + ?Sized> KeyPart for Cow<'_, T> {
    fn fmt_key(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt_key(f)
    }

    fn plain(&self) -> PlainPart<'_> {
        (**self).plain()
    }
}

macro_rules! by_number {
    ($($ty:ty),*) => {$(
        impl KeyPart for $ty {
            fn fmt_key(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }

            fn plain(&self) -> PlainPart<'_> {
                PlainPart::Number(u64::from(*self))
            }
        }
    )*};
}

by_number!(u8, u16, u32, u64);

macro_rules! by_display {
    ($($(#[$attr:meta])* $ty:ty),* $(,)?) => {$(
        $(#[$attr])*
        impl KeyPart for $ty {
            fn fmt_key(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
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
    u128,
    usize,
    bool,
    char,
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
    #[cfg(feature = "uuid")]
    uuid::Uuid,
    #[cfg(feature = "ulid")]
    ulid::Ulid,
);

impl KeyPart for Ipv4Addr {
    fn fmt_key(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }

    fn plain(&self) -> PlainPart<'_> {
        PlainPart::Ipv4(self.octets())
    }
}

impl KeyPart for IpAddr {
    fn fmt_key(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }

    fn plain(&self) -> PlainPart<'_> {
        match self {
            Self::V4(address) => address.plain(),
            Self::V6(_) => PlainPart::Other,
        }
    }
}

macro_rules! by_ip_address {
    ($($ty:ty),*) => {$(
        /// Writes the IP address alone, because each connection has a port of its own.
        impl KeyPart for $ty {
            fn fmt_key(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.ip().fmt_key(f)
            }
        }
    )*};
}

by_ip_address!(SocketAddr, SocketAddrV4, SocketAddrV6);
