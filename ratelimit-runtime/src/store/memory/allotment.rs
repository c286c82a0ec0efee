//! Permits that the calls of one millisecond take without the lock.
//!
//! If a limiter is called twice in one millisecond, the second call allots permits that are free to the calls after it.
//! Each takes some in one atomic step. The next holder of the lock counts those that were taken, at that millisecond; until
//! then, nothing that decides about the limiter changes.

use std::sync::atomic::{AtomicU64, Ordering};

use super::terms::Whose;

/// The number of permits, and of those taken, have this many bits each; the millisecond has all others, which are
/// enough until 2109. Later, nothing is allotted.
const BITS: u32 = 11;
const MOST: u64 = (1 << BITS) - 1;

/// The permits allotted to the calls of one millisecond.
#[derive(Debug, Default)]
pub(super) struct Allotment {
    word: AtomicU64,
    /// Whose calls may take them.
    whose: AtomicU64,
}

/// The word of an allotment.
#[derive(Clone, Copy)]
struct Word(u64);

impl Word {
    fn new(ms: u64, permits: u64) -> Self {
        Self(ms << (2 * BITS) | permits << BITS)
    }

    #[inline]
    fn ms(self) -> u64 {
        self.0 >> (2 * BITS)
    }

    #[inline]
    fn permits(self) -> u64 {
        self.0 >> BITS & MOST
    }

    #[inline]
    fn taken(self) -> u64 {
        self.0 & MOST
    }

    /// Returns the word with more permits taken, if there are as many.
    #[inline]
    fn take(self, permits: u64) -> Option<Self> {
        let left = self.permits() - self.taken();
        (permits <= left).then(|| Self(self.0 + permits))
    }
}

impl Allotment {
    #[inline(always)]
    pub(super) fn is_open(&self) -> bool {
        Word(self.word.load(Ordering::Relaxed)).permits() > 0
    }

    /// Takes permits that were allotted to this caller in the current millisecond.
    #[inline(always)]
    pub(super) fn take(&self, now: u64, Whose(whose): Whose, permits: u64) -> bool {
        let mut word = Word(self.word.load(Ordering::Acquire));
        if self.whose.load(Ordering::Relaxed) != whose {
            return false;
        }
        while word.ms() == now
            && let Some(less) = word.take(permits)
        {
            let order = (Ordering::AcqRel, Ordering::Acquire);
            match self.word.compare_exchange_weak(word.0, less.0, order.0, order.1) {
                Ok(_) => return true,
                Err(other) => word = Word(other),
            }
        }
        false
    }

    /// Ends the allotment; returns how many permits were taken, and when. Requires the lock.
    pub(super) fn end(&self) -> (u32, u64) {
        let ms = Word(self.word.load(Ordering::Relaxed)).ms();
        // Without permits, no other thread changes it.
        let word = Word(self.word.swap(Word::new(ms, 0).0, Ordering::AcqRel));
        (u32::try_from(word.taken()).unwrap_or_default(), ms)
    }

    /// Allots permits to the callers of this millisecond, if this call is not its first one, and there are enough for
    /// another one of its cost. Requires the lock, and that the allotment has [ended](Self::end).
    #[inline]
    pub(super) fn begin(
        &self,
        Whose(whose): Whose,
        now: u64,
        cost: u32,
        permits: impl FnOnce() -> u64,
    ) {
        if Word(self.word.load(Ordering::Relaxed)).ms() != now {
            self.word.store(Word::new(now, 0).0, Ordering::Relaxed);
        } else if u64::from(cost) <= MOST {
            let permits = Some(permits().min(MOST)).filter(|most| u64::from(cost) <= *most);
            self.whose.store(whose, Ordering::Relaxed);
            self.word.store(Word::new(now, permits.unwrap_or(0)).0, Ordering::Release);
        }
    }
}
