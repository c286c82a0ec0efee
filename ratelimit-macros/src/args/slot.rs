//! The state of one argument.

use syn::{Expr, Ident};

/// An argument: absent, already reported as broken, or given.
#[derive(Default)]
pub(crate) enum Slot<T> {
    #[default]
    Absent,
    Broken,
    /// Given under another name, without one or without a value, which is already reported.
    Misnamed,
    Given(Arg<T>),
}

/// A value with the argument's name, so that a message can point at either.
pub(crate) struct Arg<T> {
    pub(crate) name: Ident,
    pub(crate) value: T,
}

impl<T> Slot<T> {
    pub(crate) fn given(&self) -> Option<&Arg<T>> {
        match self {
            Slot::Given(arg) => Some(arg),
            Slot::Absent | Slot::Broken | Slot::Misnamed => None,
        }
    }

    pub(crate) fn value(&self) -> Option<&T> {
        self.given().map(|arg| &arg.value)
    }

    pub(crate) fn name(&self) -> Option<&Ident> {
        self.given().map(|arg| &arg.name)
    }

    pub(crate) fn is_absent(&self) -> bool {
        matches!(self, Slot::Absent)
    }

    /// Marks an absent argument as reported elsewhere.
    pub(crate) fn give_up(&mut self) {
        if self.is_absent() {
            *self = Slot::Misnamed;
        }
    }

    pub(super) fn set(
        &mut self,
        name: Ident,
        value: syn::Result<Expr>,
        read: Read<T>,
    ) -> syn::Result<()> {
        if matches!(self, Slot::Broken | Slot::Given(_)) {
            return Err(syn::Error::new(
                name.span(),
                format!("duplicate argument `{name}`; remove one"),
            ));
        }
        // Without a value, it is no duplicate of one with a value.
        let value = value.inspect_err(|_| *self = Slot::Misnamed)?;
        *self = Slot::Broken;
        let value = read(&name, value)?;
        *self = Slot::Given(Arg { name, value });
        Ok(())
    }
}

/// Converts the code after `=` to a value.
type Read<T> = fn(&Ident, Expr) -> syn::Result<T>;
