//! What the macros have seen of the crate being compiled.
//!
//! rustc expands all macros of a crate in one process, so a static remembers what one expansion has to know of the
//! others. An editor's process lives for hours, expands pieces of many crates again and again, and may not know where
//! they stand: nothing is remembered there, and each annotation is judged by itself.

use std::collections::HashMap;
use std::env;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use proc_macro2::Span;
use ratelimit_spec::Template;

use crate::key::Key;

/// Programs that compile one crate and end.
const COMPILERS: [&str; 3] = ["rustc", "rustdoc", "clippy-driver"];

static SEEN: Mutex<Option<Seen>> = Mutex::new(None);

#[derive(Default)]
struct Seen {
    /// The first place at which a mistake was reported that does not belong to one annotation.
    reported: HashMap<String, Place>,
    /// In the order in which they were expanded, each with its place.
    keys: Vec<(Place, Template)>,
}

/// A place in a source file.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    file: String,
    line: usize,
    column: usize,
}

impl Place {
    /// Returns `None` where places mean nothing: in editors, in tests of this crate, and in code without a file.
    fn of(span: Span) -> Option<Self> {
        if !proc_macro::is_available() || !is_a_compiler() {
            return None;
        }
        let span = span.unwrap();
        span.local_file()?;
        Some(Self { file: span.file(), line: span.line(), column: span.column() })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// Returns whether a mistake that every annotation meets is to be reported at this one: at the first, and at each
/// where places are unknown.
pub(crate) fn reports(mistake: &str, at: Span) -> bool {
    let Some(place) = Place::of(at) else { return true };
    let mut seen = seen();
    let seen = seen.get_or_insert_default();
    *seen.reported.entry(mistake.to_owned()).or_insert_with(|| place.clone()) == place
}

/// Remembers a key, and returns one seen before that can render to the same name, with its place.
pub(crate) fn overlapping(key: &Key<'_>) -> Option<(String, Place)> {
    let place = Place::of(key.literal.span())?;
    let mut seen = seen();
    let keys = &mut seen.get_or_insert_default().keys;
    // A place has one key, however often it is expanded.
    keys.retain(|(other, _)| *other != place);
    let found =
        keys.iter().find(|(_, other)| other.text() != key.text() && other.overlaps(&key.template));
    let found = found.map(|(place, other)| (other.text().to_owned(), place.clone()));
    if found.is_none() {
        // One that is refused is not a reason to refuse others.
        keys.push((place, key.template.clone()));
    }
    found
}

fn seen() -> MutexGuard<'static, Option<Seen>> {
    SEEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether this process compiles one crate and ends.
pub(crate) fn is_a_compiler() -> bool {
    let program = env::current_exe().ok();
    let name = program.as_deref().and_then(|program| program.file_stem()?.to_str());
    name.is_some_and(|name| COMPILERS.contains(&name))
}
