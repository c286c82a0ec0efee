//! Slots by name, in shards, so that no lookup waits for one of another shard.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::slot::Slot;

const SHARDS: usize = 64;
/// A shard drops what is idle when it has grown to this and doubled since it last did.
const SWEEP_AT: usize = 256;

pub(super) struct Slots {
    hasher: RandomState,
    shards: Box<[Mutex<Shard>]>,
}

#[derive(Default)]
struct Shard {
    slots: HashMap<Arc<str>, Arc<Slot>>,
    sweep_at: usize,
}

impl Slots {
    pub(super) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { hasher: RandomState::new(), shards }
    }

    pub(super) fn get(&self, name: &str) -> Option<Arc<Slot>> {
        self.shard(name).slots.get(name).map(Arc::clone)
    }

    /// The slot of this name, which is made if there is none.
    pub(super) fn get_or_make(&self, name: &Arc<str>, now: u64) -> Arc<Slot> {
        let mut shard = self.shard(name);
        if let Some(slot) = shard.slots.get(&**name) {
            return Arc::clone(slot);
        }
        if shard.slots.len() >= shard.sweep_at.max(SWEEP_AT) {
            shard.sweep(now);
        }
        let slot = Arc::<Slot>::default();
        shard.slots.insert(Arc::clone(name), Arc::clone(&slot));
        slot
    }

    fn shard(&self, name: &str) -> MutexGuard<'_, Shard> {
        #[expect(clippy::cast_possible_truncation, reason = "any part of a hash picks a shard")]
        let index = self.hasher.hash_one(name) as usize % SHARDS;
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
    /// Drops what is idle. What somebody holds stays: it has to be found again under its name.
    fn sweep(&mut self, now: u64) {
        self.slots.retain(|_, slot| Arc::strong_count(slot) > 1 || !slot.lock().is_idle(now));
        self.sweep_at = self.slots.len() * 2;
    }
}
