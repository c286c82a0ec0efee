//! A count that every call increases.
//!
//! Threads that increase one word take its cache line from each other, and each addition waits for the writes before it.
//! So the first threads of a process have words of their own, to which nothing else writes.

use std::{
    cell::Cell,
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
};

/// How many living threads have words of their own. More processors than that rarely use one limiter at once.
const OWNED: usize = 16;

/// A count that is the sum of its words.
#[derive(Debug, Default)]
pub(crate) struct Count {
    /// Of the threads without a word of their own.
    shared: AtomicU64,
    /// `None` if too few calls use it to be worth the memory.
    owned: Option<Box<[Word; OWNED]>>,
}

/// A word in a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Word(AtomicU64);

impl Count {
    /// Creates a count that many threads may increase at once.
    pub(crate) fn of_many_threads() -> Self {
        Self { owned: Some(Box::default()), ..Self::default() }
    }

    /// Adds one.
    // Always, as all that a call of an annotated function does: the compiler leaves some of it out of line, depending on how it
    // divides the crate.
    #[inline(always)]
    pub(crate) fn increase(&self) {
        match self.owned.as_ref().and_then(|words| words.get(TURN.get())) {
            // No other thread writes to it, so nothing is lost between the two.
            Some(Word(word)) => {
                word.store(word.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
            }
            None => self.increase_shared(),
        }
    }

    /// The same for a thread without a word of its own, which gets one for its next calls.
    #[cold]
    fn increase_shared(&self) {
        self.shared.fetch_add(1, Ordering::Relaxed);
        if TURN.get() == UNKNOWN {
            // A thread that is about to end gets none.
            TURN.set(HELD.try_with(|Held(turn)| *turn).unwrap_or(NONE));
        }
    }

    pub(crate) fn get(&self) -> u64 {
        let shared = self.shared.load(Ordering::Relaxed);
        let owned = self.owned.iter().flat_map(|words| words.iter());
        owned.fold(shared, |sum, Word(word)| sum.wrapping_add(word.load(Ordering::Relaxed)))
    }
}

/// Stands for the position of a thread's word until the thread has looked for one.
const UNKNOWN: usize = usize::MAX;
/// The same for a thread that has none.
const NONE: usize = UNKNOWN - 1;

thread_local! {
    /// The position of the thread's word. Apart from `HELD`, since a value that is dropped takes longer to read.
    static TURN: Cell<usize> = const { Cell::new(UNKNOWN) };
    static HELD: Held = Held::take();
}

/// The words that a thread owns until it ends.
struct Held(usize);

/// Which of them are taken, a bit each.
static TAKEN: AtomicU32 = AtomicU32::new(0);

impl Held {
    fn take() -> Self {
        let free = |taken: u32| taken.trailing_ones() as usize;
        let take = |taken: u32| Some(taken | (taken + 1)).filter(|_| free(taken) < OWNED);
        // The thread that owned them before has written what it counted.
        let before = TAKEN.fetch_update(Ordering::AcqRel, Ordering::Relaxed, take);
        Self(before.map_or(NONE, free))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        TURN.set(NONE);
        if self.0 < OWNED {
            TAKEN.fetch_and(!(1 << self.0), Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn no_thread_loses_what_another_one_counts() {
        const THREADS: usize = 2 * OWNED;
        const CALLS: u64 = 20_000;
        for count in [Count::default(), Count::of_many_threads()] {
            // More than have words at once, and others after them.
            for _ in 0..3 {
                thread::scope(|scope| {
                    for _ in 0..THREADS {
                        scope.spawn(|| (0..CALLS).for_each(|_| count.increase()));
                    }
                });
            }
            assert_eq!(count.get(), 3 * THREADS as u64 * CALLS);
        }
    }
}
