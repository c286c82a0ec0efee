//! What a closure can return for a placeholder.

use crate::{KeyPart, KeyText};

/// A value for a placeholder: a [`KeyPart`], or for `{name?}` an `Option` of one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a part of a rate limit key",
    label = "expected a value that can stand in a key, or an `Option` of one",
    note = "return an owned value, such as `request.uri.path().to_owned()`"
)]
pub trait IntoPart {
    #[doc(hidden)]
    const IS_OPTIONAL: bool;

    #[doc(hidden)]
    fn write_into(self, text: &mut KeyText<'_>);
}

#[diagnostic::do_not_recommend]
impl<T: KeyPart> IntoPart for T {
    const IS_OPTIONAL: bool = false;

    fn write_into(self, text: &mut KeyText<'_>) {
        self.write_to(text);
    }
}

#[diagnostic::do_not_recommend]
impl<T: KeyPart> IntoPart for Option<T> {
    const IS_OPTIONAL: bool = true;

    fn write_into(self, text: &mut KeyText<'_>) {
        match self {
            Some(part) => part.write_to(text),
            None => text.absent(),
        }
    }
}
