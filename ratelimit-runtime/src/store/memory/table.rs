//! Limiters by name, in shards, so that look-ups in different shards never wait for each other.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use hashbrown::HashTable;

use super::{cell::Cell, name::Name};
use crate::store::{SHARDS, Sweep};

/// Minimum number of limiters in a shard before a new one sweeps the idle ones.
const SWEEP_AT: usize = 256;

pub(super) struct Table {
    hasher: RandomState,
    shards: Box<[Mutex<Shard>]>,
}

#[derive(Default)]
struct Shard {
    limiters: HashTable<Entry>,
    sweep: Sweep,
}

/// Aligned to cache lines, of which a look-up then reads two.
#[repr(align(64))]
struct Entry {
    name: Name,
    cell: Cell,
}

// A larger one would take another cache line of every limiter.
const _: () = assert!(size_of::<Entry>() <= 128);

impl Table {
    pub(super) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { hasher: RandomState::new(), shards }
    }

    /// Calls a function with the limiter of this name, if it exists. The name is passed in two parts.
    #[inline]
    pub(super) fn with<T>(
        &self,
        (prefix, name): (&str, &str),
        ask: impl FnOnce(Option<&mut Cell>) -> T,
    ) -> T {
        let hash = hash(&self.hasher, [prefix.as_bytes(), name.as_bytes()]);
        let mut shard = self.shard(hash);
        let found = shard.limiters.find_mut(hash, |entry| entry.name.is(prefix, name));
        ask(found.map(|entry| &mut entry.cell))
    }

    /// Calls a function with the limiter of this name, which is created if there is none.
    pub(super) fn with_or_new<T>(
        &self,
        name: &Arc<str>,
        now: impl FnOnce() -> u64,
        ask: impl FnOnce(&mut Cell) -> T,
    ) -> T {
        let hash_of = |name: &[u8]| hash(&self.hasher, [name]);
        let hash = hash_of(name.as_bytes());
        let mut shard = self.shard(hash);
        if let Some(found) = shard.limiters.find_mut(hash, |entry| entry.name.is("", name)) {
            return ask(&mut found.cell);
        }
        if shard.sweep.is_due(shard.limiters.len(), SWEEP_AT) {
            shard.sweep(now(), &self.hasher);
        }
        let new = Entry { name: Name::new(name), cell: Cell::new() };
        let rehash = |entry: &Entry| hash_of(entry.name.bytes());
        let mut entry = shard.limiters.insert_unique(hash, new, rehash);
        ask(&mut entry.get_mut().cell)
    }

    /// Drops idle limiters of one shard.
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
// Always, because each call of a templated key needs it: the compiler leaves it out of line, depending on how it divides the crate.
#[inline(always)]
fn hash<const PARTS: usize>(hasher: &RandomState, name: [&[u8]; PARTS]) -> u64 {
    let mut hasher = hasher.build_hasher();
    // Most programs have no prefix, and writing nothing takes time, too.
    name.iter().filter(|part| !part.is_empty()).for_each(|part| hasher.write(part));
    hasher.finish()
}

impl Shard {
    /// Drops idle limiters. One that is held stays, since it has to be found again by its name.
    fn sweep(&mut self, now: u64, hasher: &RandomState) {
        self.limiters.retain(|entry| entry.cell.is_needed(now));
        let len = self.limiters.len();
        self.sweep.done(len);
        if self.limiters.capacity() > 4 * len {
            self.limiters.shrink_to(2 * len, |entry| hash(hasher, [entry.name.bytes()]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_in_two_parts() {
        let table = Table::new();
        let made = table.with_or_new(&"shop:orders:42".into(), || 0, Cell::hold);
        for at in [0, 5, 14] {
            let parts = "shop:orders:42".split_at(at);
            let found = table.with(parts, |cell| cell.map(Cell::hold));
            assert!(found.is_some_and(|found| Arc::ptr_eq(&found, &made)), "{parts:?}");
        }
        assert!(table.with(("", "orders:42"), |cell| cell.is_none()));
    }
}
