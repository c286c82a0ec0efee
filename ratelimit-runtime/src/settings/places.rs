//! Which keys of a template have limiters of their own if `max_keys` bounds them.
//!
//! A key takes a place on first use. It loses the place if it was unused for as long as the store keeps an
//! idle limiter, and another key needs the place. While all places are taken, new keys share one limiter.

use std::{
    convert::Infallible,
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use hashbrown::HashTable;
use ratelimit_spec::{Template, safe_name};

use super::{Label, Name};
use crate::events::Occurrences;

/// Replaces the values of keys beyond the bound; no real value is rendered like this.
const OTHERS: &str = "~others";
/// The maximum number of sweeps for idle places within the time for which a place is kept.
const LOOKS: u64 = 64;
/// No reading of the limits file has this number.
const NEVER: u64 = u64::MAX - 1;

/// The number of keys that have limiters of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) most: u32,
    /// How long the store keeps an unused limiter.
    pub(crate) kept_ms: u64,
}

/// The places of one template.
pub(crate) struct Places {
    /// The reading of the limits file that sets no bound here.
    unbounded_in: AtomicU64,
    taken: OnceLock<Box<Taken>>,
}

struct Taken {
    hasher: RandomState,
    /// The limiter that keys beyond the bound share, and its name in the store.
    others: Arc<str>,
    stored: Arc<str>,
    /// The calls of keys beyond the bound.
    shared: Arc<Occurrences>,
    places: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    /// The reading of the limits file that set the bound.
    generation: Option<u64>,
    bound: Option<Bound>,
    /// The hash of a key, and the time of its last use.
    known: HashTable<(u64, u64)>,
    /// The time of the next sweep for idle keys.
    look_ms: u64,
}

/// The limiter that a new key shares with others, and the bound that was reached.
pub(crate) struct Others<'a> {
    pub(crate) name: Name<'a>,
    pub(crate) most: u32,
    /// The calls of such keys.
    pub(crate) shared: &'a Arc<Occurrences>,
}

impl Default for Places {
    fn default() -> Self {
        Self { unbounded_in: AtomicU64::new(NEVER), taken: OnceLock::new() }
    }
}

impl Places {
    /// Returns whether every key has a limiter of its own under this reading of the limits file.
    pub(crate) fn are_unbounded(&self, generation: u64) -> bool {
        self.unbounded_in.load(Ordering::Relaxed) == generation
    }

    /// Gives a key of a template a place. Returns the shared limiter if there is no place for it; a
    /// key that is `exempt` needs none.
    pub(crate) fn take(
        &self,
        label: &Label,
        name: &str,
        (generation, now_ms): (u64, u64),
        bound: impl FnOnce() -> Option<Bound>,
        exempt: impl FnOnce() -> bool,
    ) -> Option<Others<'_>> {
        let taken = self.taken.get_or_init(|| Box::new(Taken::of(label)));
        let mut table = taken.places.lock().unwrap_or_else(PoisonError::into_inner);
        if table.generation != Some(generation) {
            (table.generation, table.bound) = (Some(generation), bound());
        }
        let Some(bound) = table.bound else {
            table.known = HashTable::new();
            self.unbounded_in.store(generation, Ordering::Relaxed);
            return None;
        };
        let hash = taken.hasher.hash_one(name);
        let is_own = table.uses(hash, now_ms) || exempt() || table.take(hash, bound, now_ms);
        drop(table);
        (!is_own).then(|| Others {
            name: Name { stored: &taken.stored, given: &taken.others },
            most: bound.most,
            shared: &taken.shared,
        })
    }

    /// Returns the number of calls whose key is beyond the bound.
    pub(crate) fn shared(&self) -> u64 {
        self.taken.get().map_or(0, |taken| taken.shared.get())
    }
}

impl Taken {
    fn of(label: &Label) -> Self {
        let (others, stored) = match label {
            Label::Key(key) => {
                let name = |key: Template| {
                    let Ok(name) = key.render::<Infallible>(|_, name| {
                        name.literal(OTHERS);
                        Ok(())
                    });
                    Arc::from(&*name)
                };
                let others = Template::parse(key).map(name).unwrap_or_default();
                (Arc::clone(&others), others)
            }
            Label::Prefix(prefix) => (
                format!("{prefix}{OTHERS}").into(),
                format!("{}{OTHERS}", safe_name(prefix)).into(),
            ),
        };
        Self {
            hasher: RandomState::new(),
            others,
            stored,
            shared: Arc::default(),
            places: Mutex::default(),
        }
    }
}

impl Table {
    /// Returns whether a key has a place, which is used now.
    fn uses(&mut self, hash: u64, now_ms: u64) -> bool {
        let place = self.known.find_mut(hash, |(known, _)| *known == hash);
        place.map(|(_, used)| *used = now_ms.max(*used)).is_some()
    }

    /// Returns whether a key that has no place takes one.
    fn take(&mut self, hash: u64, bound: Bound, now_ms: u64) -> bool {
        let most = usize::try_from(bound.most).unwrap_or(usize::MAX);
        if self.known.len() >= most && now_ms >= self.look_ms {
            self.known.retain(|(_, used)| now_ms.saturating_sub(*used) < bound.kept_ms);
            self.look_ms = now_ms.saturating_add((bound.kept_ms / LOOKS).max(1));
            if self.known.capacity() > 4 * self.known.len() {
                self.known.shrink_to(2 * self.known.len(), |(hash, _)| *hash);
            }
        }
        let has_room = self.known.len() < most;
        if has_room {
            self.known.insert_unique(hash, (hash, now_ms), |(hash, _)| *hash);
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_kept_while_it_is_used_and_free_when_it_was_not() {
        let bound = Bound { most: 2, kept_ms: 1000 };
        let mut table = Table::default();
        let mut takes = |hash, now_ms| table.uses(hash, now_ms) || table.take(hash, bound, now_ms);
        assert!(takes(1, 0) && takes(2, 0));
        assert!(!takes(3, 500), "both are taken");
        assert!(takes(1, 600), "known");
        assert!(!takes(3, 999));
        assert!(takes(3, 1015), "2 was unused, and it was looked for");
        assert!(!takes(2, 1040));
        assert!(takes(1, 1500) && takes(1, 2400) && takes(1, 3300));
        assert!(takes(2, 3300));
    }

    #[test]
    fn a_clock_that_steps_back_frees_nothing_too_early() {
        let bound = Bound { most: 1, kept_ms: 1000 };
        let mut table = Table::default();
        assert!(table.take(1, bound, 50_000));
        assert!(table.uses(1, 10_000));
        assert!(!table.take(2, bound, 50_999));
        assert!(table.take(2, bound, 51_020));
    }
}
