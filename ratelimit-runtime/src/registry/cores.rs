//! A bounded cache of limiters by name.
//!
//! All key templates share one bound. An evicted limiter is created again on its next use; a
//! limiter that is held or waited for is never evicted.

use std::{
    hash::{BuildHasher, RandomState},
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use hashbrown::HashTable;

use crate::{
    limiter::{Core, Services},
    store::SHARDS,
};

/// The maximum number of cached limiters by default.
pub(crate) const REMEMBERED: usize = 100_000;
/// The time after which an unused limiter is evicted.
const IDLE_MINUTES: u32 = 10;
const MINUTE_MS: u64 = 60_000;

/// The maximum number of limiters cached per shard although the embedded store has all their state.
const BRIEFLY: usize = 16;

/// The limiters of all key templates, found by the hash of template and name.
pub(crate) struct Cores {
    hasher: RandomState,
    shards: Box<[Mutex<Shard>]>,
    /// The maximum number of cached limiters per shard.
    most: usize,
    /// The time in minutes, as the last new limiter or the last eviction of idle ones read it.
    minute: AtomicU32,
}

#[derive(Default)]
struct Shard {
    known: HashTable<Known>,
    /// The number of uses so far.
    turns: u64,
    /// The number of limiters at which some are evicted.
    room: usize,
    brief: usize,
    brief_room: usize,
}

struct Known {
    core: Arc<Core>,
    family: u32,
    /// When it was last used: the minute, and the turn of its shard.
    minute: u32,
    turn: u64,
}

impl Cores {
    pub(crate) fn new(most: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let most = most.div_ceil(SHARDS).max(1);
        Self { hasher: RandomState::new(), shards, most, minute: AtomicU32::new(0) }
    }

    /// Limiters of a shard are created one at a time, so that a key never has two queues.
    pub(super) fn get_or_make(
        &self,
        limits: &Services,
        family: u32,
        name: &str,
        make: impl FnOnce() -> Core,
    ) -> Arc<Core> {
        let hash = self.hasher.hash_one((family, name));
        let mut shard = self.shard(hash);
        shard.turns += 1;
        let turn = shard.turns;
        let is = |known: &Known| known.family == family && known.core.name() == name;
        if let Some(known) = shard.known.find_mut(hash, is) {
            known.minute = known.minute.max(self.minute.load(Ordering::Relaxed));
            known.turn = turn;
            return Arc::clone(&known.core);
        }
        let minute = self.minute(limits);
        let core = Arc::new(make());
        let known = Known { core: Arc::clone(&core), family, minute, turn };
        // The embedded store has all the state of a limiter that belongs to a key template.
        let brief = !limits.store.is_shared();
        shard.make_room(self.most, brief);
        shard.brief += usize::from(brief && family > 0);
        shard.known.insert_unique(hash, known, |known| self.rehash(known));
        drop(shard);
        core.check_given(limits);
        limits.crowd.grow(&limits.engine);
        core
    }

    /// Returns a limiter, if it is cached.
    pub(super) fn get(&self, family: u32, name: &str) -> Option<Arc<Core>> {
        let hash = self.hasher.hash_one((family, name));
        let is = |known: &Known| known.family == family && known.core.name() == name;
        self.shard(hash).known.find(hash, is).map(|known| Arc::clone(&known.core))
    }

    fn minute(&self, limits: &Services) -> u32 {
        let minute = u32::try_from(limits.clock.now_ms() / MINUTE_MS).unwrap_or(u32::MAX);
        self.minute.fetch_max(minute, Ordering::Relaxed).max(minute)
    }

    /// Returns the cached limiters that no row of the report counts.
    pub(super) fn unnamed(&self) -> Vec<Arc<Core>> {
        let mut unnamed = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let cores = shard.known.iter().map(|known| &known.core);
            unnamed.extend(cores.filter(|core| core.family.row().is_unnamed()).cloned());
        }
        unnamed
    }

    /// Evicts limiters of one shard that were not used for a while.
    pub(super) fn forget_idle(&self, limits: &Services, shard: usize) {
        let minute = self.minute(limits);
        let mut shard = self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner);
        shard.forget(|known| minute.saturating_sub(known.minute) >= IDLE_MINUTES);
        let len = shard.known.len();
        if shard.known.capacity() > 4 * len {
            shard.known.shrink_to(2 * len, |known| self.rehash(known));
        }
    }

    /// Evicts all limiters.
    pub(super) fn clear(&self) {
        for shard in &self.shards {
            let evicted = mem::take(&mut *shard.lock().unwrap_or_else(PoisonError::into_inner));
            drop(evicted);
        }
    }

    fn rehash(&self, known: &Known) -> u64 {
        self.hasher.hash_one((known.family, known.core.name()))
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        // Different bits from those that the table uses.
        let shard = &self.shards[(hash >> 32) as usize % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
    /// Evicts unused limiters for which `which` is true.
    fn forget(&mut self, mut which: impl FnMut(&Known) -> bool) {
        self.known.retain(|known| Arc::strong_count(&known.core) > 1 || !which(known));
        // An estimate; counted again when there seem to be too many.
        self.brief = self.brief.min(self.known.len());
    }

    /// Makes room for one more limiter. An eighth is evicted at once, so that not every new limiter
    /// searches for the one that was unused for the longest time.
    fn make_room(&mut self, most: usize, brief: bool) {
        if brief && self.brief >= self.brief_room.max(BRIEFLY) {
            self.forget(|known| known.family > 0);
            self.brief = self.known.iter().filter(|known| known.family > 0).count();
            self.brief_room = 2 * self.brief;
        }
        if self.known.len() < self.room.max(most) {
            return;
        }
        let idle = self.known.iter().filter(|known| Arc::strong_count(&known.core) == 1);
        let mut turns: Vec<u64> = idle.map(|known| known.turn).collect();
        let excess = (self.known.len() + most.div_ceil(8)).saturating_sub(most).min(turns.len());
        if let Some(last) = excess.checked_sub(1) {
            let (_, last, _) = turns.select_nth_unstable(last);
            let last = *last;
            self.forget(|known| known.turn <= last);
        }
        // More limiters are in use than there is room for.
        self.room = self.known.len() + self.known.len() / 8 + 1;
    }
}
