//! Slots by name, in shards, so that look-ups in different shards never wait for each other.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use hashbrown::HashTable;

use super::slot::Slot;
use crate::store::{SHARDS, Sweep};

/// Minimum number of slots in a shard before a new one sweeps the idle ones.
const SWEEP_AT: usize = 256;

pub(super) struct Slots {
    hasher: RandomState,
    shards: Box<[Mutex<Shard>]>,
}

#[derive(Default)]
struct Shard {
    slots: HashTable<Arc<Slot>>,
    sweep: Sweep,
}

impl Slots {
    pub(super) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { hasher: RandomState::new(), shards }
    }

    pub(super) fn get(&self, name: &str) -> Option<Arc<Slot>> {
        self.with(("", name), |slot| Some(Arc::clone(slot)))
    }

    /// Calls a function with a slot, if it exists. The name is passed in two parts.
    pub(super) fn with<T>(
        &self,
        (prefix, name): (&str, &str),
        ask: impl FnOnce(&Arc<Slot>) -> Option<T>,
    ) -> Option<T> {
        let hash = hash(&self.hasher, [prefix.as_bytes(), name.as_bytes()]);
        let shard = self.shard(hash);
        ask(shard.slots.find(hash, |slot| slot.name().is(prefix, name))?)
    }

    /// Returns the slot of this name, creating it if there is none.
    pub(super) fn get_or_make(&self, name: &Arc<str>, now: u64) -> Arc<Slot> {
        let hash_of = |name: &[u8]| hash(&self.hasher, [name]);
        let hash = hash_of(name.as_bytes());
        let mut shard = self.shard(hash);
        if let Some(slot) = shard.slots.find(hash, |slot| slot.name().is("", name)) {
            return Arc::clone(slot);
        }
        if shard.sweep.is_due(shard.slots.len(), SWEEP_AT) {
            shard.sweep(now, &self.hasher);
        }
        let slot = Arc::new(Slot::new(name));
        shard.slots.insert_unique(hash, Arc::clone(&slot), |slot| hash_of(slot.name().bytes()));
        slot
    }

    /// Drops idle slots of one shard.
    pub(super) fn sweep(&self, shard: usize, now: u64) {
        lock(&self.shards[shard]).sweep(now, &self.hasher);
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        // Uses other bits of the hash than the table does.
        lock(&self.shards[(hash >> 32) as usize % SHARDS])
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the hash of a name, in one part or several.
fn hash<const PARTS: usize>(hasher: &RandomState, name: [&[u8]; PARTS]) -> u64 {
    let mut hasher = hasher.build_hasher();
    // Most programs have no prefix, and writing nothing takes time, too.
    name.iter().filter(|part| !part.is_empty()).for_each(|part| hasher.write(part));
    hasher.finish()
}

impl Shard {
    /// Drops idle slots. A slot that is held stays, since it has to be found again by its name.
    fn sweep(&mut self, now: u64, hasher: &RandomState) {
        self.slots.retain(|slot| Arc::strong_count(slot) > 1 || !slot.lock().is_idle(now));
        let len = self.slots.len();
        self.sweep.done(len);
        if self.slots.capacity() > 4 * len {
            self.slots.shrink_to(2 * len, |slot| hash(hasher, [slot.name().bytes()]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_in_two_parts() {
        let slots = Slots::new();
        let made = slots.get_or_make(&"shop:orders:42".into(), 0);
        for at in [0, 5, 14] {
            let parts = "shop:orders:42".split_at(at);
            let found = slots.with(parts, |slot| Some(Arc::clone(slot)));
            assert!(found.is_some_and(|found| Arc::ptr_eq(&found, &made)), "{parts:?}");
        }
        assert!(slots.get("orders:42").is_none());
    }
}
