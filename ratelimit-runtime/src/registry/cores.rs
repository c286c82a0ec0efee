//! Limiters by name, as many as are remembered.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    sync::{Arc, Mutex, PoisonError},
};

use quick_cache::{Lifecycle, UnitWeighter, sync::Cache};

use crate::limiter::Core;

/// Limiters of one key that are remembered; one that was evicted is made again when it is used.
const REMEMBERED: usize = 131_072;
/// What a key is expected to need.
const USUAL: usize = 1_000;

/// The limiters of one key, found by the hash of their names.
pub(crate) struct Cores {
    hasher: RandomState,
    cores: Cache<u64, Arc<Core>, UnitWeighter, AlreadyHashed, InUse>,
    /// One limiter is made at a time, so that a key never has two queues.
    making: Mutex<()>,
}

impl Default for Cores {
    fn default() -> Self {
        let weights = UnitWeighter;
        let cores = Cache::with(USUAL, REMEMBERED as u64, weights, AlreadyHashed, InUse);
        Self { hasher: RandomState::new(), cores, making: Mutex::new(()) }
    }
}

impl Cores {
    pub(crate) fn get_or_make(&self, name: &str, make: impl FnOnce() -> Core) -> Arc<Core> {
        let hash = self.hasher.hash_one(name);
        let known = || self.cores.get(&hash).filter(|core| core.name() == name);
        if let Some(core) = known() {
            return core;
        }
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(core) = known() {
            return core;
        }
        let core = Arc::new(make());
        self.cores.insert(hash, Arc::clone(&core));
        core
    }
}

/// A limiter that is held or waited for is not forgotten.
#[derive(Clone, Debug)]
struct InUse;

impl Lifecycle<u64, Arc<Core>> for InUse {
    type RequestState = ();

    fn is_pinned(&self, _: &u64, core: &Arc<Core>) -> bool {
        Arc::strong_count(core) > 1
    }
}

/// The keys are hashes.
#[derive(Clone, Debug)]
struct AlreadyHashed;

impl BuildHasher for AlreadyHashed {
    type Hasher = Hashed;

    fn build_hasher(&self) -> Hashed {
        Hashed(0)
    }
}

struct Hashed(u64);

impl Hasher for Hashed {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
