//! Limiters by name, as many as are remembered.
//!
//! All families share one bound. A limiter that was forgotten is made again when it is used; one that is
//! held or waited for is not forgotten.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use hashbrown::HashTable;

use crate::limiter::{Core, Services};

/// How many limiters are remembered if nothing else is set.
pub(crate) const REMEMBERED: usize = 100_000;
/// For how long a limiter is remembered that is not used.
const IDLE_MINUTES: u32 = 10;
const MINUTE_MS: u64 = 60_000;

const SHARDS: usize = 64;
/// The limiters of a shard that are remembered although the embedded store knows all that they do.
const BRIEFLY: usize = 16;

/// The limiters of all families, found by the hash of family and name.
pub(crate) struct Cores {
    hasher: RandomState,
    shards: Box<[Mutex<Shard>]>,
    /// The most limiters of a shard that are remembered.
    most: usize,
    /// When idle ones were last forgotten, in minutes.
    minute: AtomicU32,
}

#[derive(Default)]
struct Shard {
    known: HashTable<Known>,
    /// How often one was used.
    turns: u64,
    /// How many there may be until some are forgotten.
    room: usize,
    brief: usize,
    brief_room: usize,
}

struct Known {
    core: Arc<Core>,
    family: u32,
    /// When it was last used: in which minute, and in which turn of its shard.
    minute: u32,
    turn: u64,
}

impl Cores {
    pub(crate) fn new(most: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let most = most.div_ceil(SHARDS).max(1);
        Self { hasher: RandomState::new(), shards, most, minute: AtomicU32::new(0) }
    }

    /// One limiter of a shard is made at a time, so that a key never has two queues.
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
        let minutes = limits.clock.now_ms() / MINUTE_MS;
        let minute = u32::try_from(minutes).unwrap_or(u32::MAX);
        let core = Arc::new(make());
        let known = Known { core: Arc::clone(&core), family, minute, turn };
        // Of a family of its own the embedded store knows all that the limiter does.
        let brief = !limits.store.is_shared();
        shard.make_room(self.most, brief);
        shard.brief += usize::from(brief && family > 0);
        shard.known.insert_unique(hash, known, |known| {
            self.hasher.hash_one((known.family, known.core.name()))
        });
        drop(shard);
        if self.minute.fetch_max(minute, Ordering::Relaxed) < minute {
            self.age(minute);
            limits.forget_idle();
        }
        core
    }

    /// Forgets what was not used for a while.
    fn age(&self, minute: u32) {
        let rehash = |known: &Known| self.hasher.hash_one((known.family, known.core.name()));
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.forget(|known| minute.saturating_sub(known.minute) >= IDLE_MINUTES);
            let len = shard.known.len();
            if shard.known.capacity() > 4 * len {
                shard.known.shrink_to(2 * len, rehash);
            }
        }
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        // Other bits than those by which a table goes.
        let shard = &self.shards[(hash >> 32) as usize % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
    /// Forgets those that are not in use of which this is true.
    fn forget(&mut self, mut which: impl FnMut(&Known) -> bool) {
        self.known.retain(|known| Arc::strong_count(&known.core) > 1 || !which(known));
        // As far as is known; counted when there seem to be too many.
        self.brief = self.brief.min(self.known.len());
    }

    /// Makes room for one more. An eighth goes at once, so that not every new limiter looks for the one that
    /// was not used for the longest.
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
        // Those in use are more than there is room for.
        self.room = self.known.len() + self.known.len() / 8 + 1;
    }
}
