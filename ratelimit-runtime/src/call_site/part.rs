//! The parameters in a key.

use crate::KeyPart;

/// A parameter that stands in a key, or its absence.
#[derive(Clone, Copy)]
pub struct Part<'a>(pub(super) Option<&'a dyn KeyPart>);

/// Names a parameter of the key.
pub fn key_part<T: KeyPart>(part: &T) -> Part<'_> {
    Part(Some(part))
}

/// Names a parameter of the key that may be absent; everybody without one shares a bucket.
pub fn key_part_or_absent<T: OptionalKeyPart>(part: &T) -> Part<'_> {
    Part(part.part())
}

/// An `Option` of something that can stand in a key.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an optional part of a rate limit key",
    label = "expected an `Option` of something that can stand in a key",
    note = "write the placeholder without `?` where there always is a value"
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

impl std::fmt::Debug for Part<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A key's values are nobody's business.
        f.write_str("Part(..)")
    }
}
