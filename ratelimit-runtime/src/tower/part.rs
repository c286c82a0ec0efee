//! The values that a closure can return for a placeholder.

use ratelimit_spec::KeyWriter;

use crate::{KeyPart, key::write};

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
    fn write_into(self, key: &mut KeyWriter);
}

#[diagnostic::do_not_recommend]
impl<T: KeyPart> IntoPart for T {
    const IS_OPTIONAL: bool = false;

    fn write_into(self, key: &mut KeyWriter) {
        write(&self, key);
    }
}

#[diagnostic::do_not_recommend]
impl<T: KeyPart> IntoPart for Option<T> {
    const IS_OPTIONAL: bool = true;

    fn write_into(self, key: &mut KeyWriter) {
        match self {
            Some(part) => write(&part, key),
            None => key.absent(),
        }
    }
}
