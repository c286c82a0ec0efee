//! What a set of limits keeps for each call site.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU32, Ordering},
};

use once_cell::sync::OnceCell;
use ratelimit_spec::Template;

use super::{Declared, Registry};
use crate::{
    annotation::{self, Annotation},
    limiter::{Core, Services},
};

/// The room for call sites that are not listed when the limits are built: those of libraries that are loaded later. What
/// is known of further ones is looked up at each call.
const UNLISTED: usize = 200;

/// The number of a call site, from 1 on; 0 before its first call under any limits.
///
/// The static of an annotated function holds only this number. rustc checks for each static that threads can share
/// it; with the limiters in it, that is an eighth of the function's time in `cargo check`.
#[derive(Debug)]
pub(crate) struct SiteNumber(AtomicU32);

/// The key of a call site, and its limiters.
#[derive(Debug)]
pub(crate) struct Known {
    /// The limiter of a key without placeholders.
    pub(crate) only: Option<Arc<Core>>,
    pub(crate) declared: Arc<Declared>,
    /// On the heap, because there is room for more call sites than most programs have.
    pub(crate) template: Box<Template>,
}

/// What is known of each call site, by its number. Within the table, so that a call reads little memory.
#[derive(Clone)]
pub(crate) struct Sites(Arc<[OnceCell<Known>]>);

impl SiteNumber {
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    #[inline(always)]
    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed) as usize
    }

    /// Returns the number, which the first call assigns. Under a lock, so that a race uses up no number.
    fn assigned(&self) -> usize {
        static LAST: Mutex<u32> = Mutex::new(0);
        if self.get() == 0 {
            let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
            if self.get() == 0 {
                *last += 1;
                self.0.store(*last, Ordering::Relaxed);
            }
        }
        self.get()
    }
}

impl Sites {
    pub(crate) fn new() -> Self {
        let n_sites = annotation::all().len() + UNLISTED;
        Self((0..=n_sites).map(|_| OnceCell::new()).collect())
    }

    /// Returns what is known of a call site: `None` before its first call, or if there is no room for it.
    #[inline(always)]
    pub(crate) fn get(&self, number: &SiteNumber) -> Option<&Known> {
        self.0.get(number.get())?.get()
    }

    /// Calls a function with what is known of a call site.
    #[inline(always)]
    pub(crate) fn with<T>(
        &self,
        number: &SiteNumber,
        find: impl FnOnce() -> Known,
        run: impl FnOnce(&Known) -> T,
    ) -> T {
        let found;
        run(match self.get(number) {
            Some(known) => known,
            None => match self.add(number, find()) {
                Ok(known) => known,
                Err(known) => {
                    found = known;
                    &found
                }
            },
        })
    }

    /// Keeps what is known of a call site, or returns it if there is no room for it.
    #[cold]
    fn add(&self, number: &SiteNumber, found: Known) -> Result<&Known, Known> {
        match self.0.get(number.assigned()) {
            // Found outside the cell: that may call code of the program.
            Some(cell) => Ok(cell.get_or_init(|| found)),
            None => Err(found),
        }
    }
}

impl Known {
    #[cold]
    pub(crate) fn new(annotation: &Annotation, registry: &Registry, services: &Services) -> Self {
        let (template, declared) = (annotation.template(), registry.annotated(annotation));
        let only = annotation::fixed(&template).map(|name| declared.only(services, &name));
        Self { only, declared, template: Box::new(template) }
    }
}
