//! The values in a key.

use std::{fmt, rc::Rc, sync::Arc};

use crate::KeyPart;

/// The value of a placeholder, or its absence.
#[derive(Clone, Copy)]
pub struct Part<'a>(pub(super) Option<&'a dyn KeyPart>);

/// Names the value of a placeholder.
pub fn key_part<T: KeyPart>(part: &T) -> Part<'_> {
    Part(Some(part))
}

/// Names the value of a placeholder that may be absent; all calls without a value share one limit.
pub fn key_part_or_absent<T: OptionalKeyPart>(part: &T) -> Part<'_> {
    Part(part.part())
}

/// An `Option` of a [`KeyPart`], or a reference to one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be used for an optional placeholder",
    label = "expected an `Option` of a type that implements `KeyPart`",
    note = "remove the `?` if the value is always present"
)]
pub trait OptionalKeyPart {
    #[doc(hidden)]
    fn part(&self) -> Option<&dyn KeyPart>;
}

impl<T: KeyPart> OptionalKeyPart for Option<T> {
    fn part(&self) -> Option<&dyn KeyPart> {
        self.as_ref().map(|part| part as &dyn KeyPart)
    }
}

macro_rules! by_reference {
    ($($ty:ty),*) => {$(
        #[diagnostic::do_not_recommend]
        impl<T: OptionalKeyPart + ?Sized> OptionalKeyPart for $ty {
            fn part(&self) -> Option<&dyn KeyPart> {
                (**self).part()
            }
        }
    )*};
}

by_reference!(&T, &mut T, Box<T>, Rc<T>, Arc<T>);

impl fmt::Debug for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The values of a key are private.
        f.write_str("Part(..)")
    }
}
