//! One argument's place among the others.

use syn::{Expr, Ident};

/// One argument: not written, written in a way that was already reported, or here.
#[derive(Default)]
pub(crate) enum Slot<T> {
    #[default]
    Absent,
    Broken,
    Given(Arg<T>),
}

/// A value and the name it was given under, so that a message can point at either.
pub(crate) struct Arg<T> {
    pub(crate) name: Ident,
    pub(crate) value: T,
}

impl<T> Slot<T> {
    pub(crate) fn given(&self) -> Option<&Arg<T>> {
        match self {
            Slot::Given(arg) => Some(arg),
            Slot::Absent | Slot::Broken => None,
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

    /// It was meant, and the mistake in it is reported elsewhere.
    pub(crate) fn give_up(&mut self) {
        if self.is_absent() {
            *self = Slot::Broken;
        }
    }

    pub(super) fn set(
        &mut self,
        name: Ident,
        value: syn::Result<Expr>,
        read: Read<T>,
    ) -> syn::Result<()> {
        if !self.is_absent() {
            return Err(syn::Error::new(
                name.span(),
                format!("`{name}` is given twice; keep one of them"),
            ));
        }
        *self = Slot::Broken;
        let value = read(&name, value?)?;
        *self = Slot::Given(Arg { name, value });
        Ok(())
    }
}

/// Turns the code after `=` into a value.
type Read<T> = fn(&Ident, Expr) -> syn::Result<T>;
