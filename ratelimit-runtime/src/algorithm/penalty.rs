//! Penalties: a key that is rejected in many consecutive windows is blocked, each time for longer.
//!
//! Windows have the limiter's length and are aligned to the Unix epoch, regardless of its algorithm. A
//! window counts once, with its first rejection. A window without one ends the sequence. Nothing counts
//! while a key is blocked. After a block is over, it is remembered for the length of the longest block:
//! a key that was blocked within that time is blocked for twice as long.

use ratelimit_spec::Penalty;

use crate::clock::whole_ms;

/// The rejection history of one key; times in milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refusals {
    /// The end of the last window with a rejection.
    counted_ms: u64,
    /// The number of consecutive windows with a rejection.
    row: u32,
    /// The number of blocks so far, each longer than the one before.
    blocks: u32,
    /// The end of the last block.
    until_ms: u64,
}

/// The effect of a rejection; times in milliseconds from now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// For how long the key is blocked; 0 if it is not.
    pub blocked_for_ms: u64,
    /// Whether this refusal blocked it.
    pub began: bool,
    /// The end of the current window: until then a rejection changes nothing.
    pub window_ends_in_ms: u64,
}

impl Refusals {
    /// Returns how long the key is blocked. A clock that stepped back to before the block, or a
    /// `penalty` that is shorter now, ends the block.
    pub(crate) fn blocked_for(&self, penalty: &Penalty, now: u64) -> u64 {
        let left = self.until_ms.saturating_sub(now);
        if left <= length(penalty, self.blocks) { left } else { 0 }
    }

    /// Records a rejection.
    pub(crate) fn refused(&mut self, penalty: &Penalty, per_ms: u64, now: u64) -> Refused {
        let ends = now - now % per_ms + per_ms;
        let mut refused = Refused {
            blocked_for_ms: self.blocked_for(penalty, now),
            began: false,
            window_ends_in_ms: ends - now,
        };
        if refused.blocked_for_ms > 0 || self.counted_ms == ends {
            return refused;
        }
        if now >= self.until_ms.saturating_add(whole_ms(penalty.up_to)) {
            (self.blocks, self.until_ms) = (0, 0);
        }
        self.row = if self.counted_ms.saturating_add(per_ms) == ends { self.row + 1 } else { 1 };
        self.counted_ms = ends;
        if self.row >= penalty.after {
            self.row = 0;
            self.blocks += 1;
            refused.blocked_for_ms = length(penalty, self.blocks);
            refused.began = true;
            self.until_ms = now + refused.blocked_for_ms;
        }
        refused
    }

    /// Returns whether the record is equivalent to none.
    pub(crate) fn is_over(&self, penalty: &Penalty, per_ms: u64, now: u64) -> bool {
        self.counted_ms.saturating_add(per_ms) <= now
            && (self.blocks == 0 || self.until_ms.saturating_add(whole_ms(penalty.up_to)) <= now)
    }
}

/// Returns the length of block number `blocks`.
fn length(penalty: &Penalty, blocks: u32) -> u64 {
    let block = u128::from(whole_ms(penalty.block)) << blocks.saturating_sub(1).min(63);
    u64::try_from(block).unwrap_or(u64::MAX).min(whole_ms(penalty.up_to))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const PENALTY: Penalty =
        Penalty { after: 3, block: Duration::from_secs(10), up_to: Duration::from_secs(25) };
    const PER: u64 = 1000;

    /// Returns the milliseconds for which a key is blocked by each rejection at these times, in seconds.
    fn blocked(refusals: &mut Refusals, seconds: &[u64]) -> Vec<u64> {
        let refused = |s: &u64| refusals.refused(&PENALTY, PER, s * 1000 + 300).blocked_for_ms;
        seconds.iter().map(refused).collect()
    }

    #[test]
    fn a_row_of_windows_blocks_and_a_gap_ends_it() {
        let mut refusals = Refusals::default();
        assert_eq!(blocked(&mut refusals, &[100, 100, 101, 101, 103, 104]), [0; 6]);
        assert_eq!(blocked(&mut refusals, &[105, 105, 107]), [10_000, 10_000, 8_000]);
        assert_eq!(refusals.blocked_for(&PENALTY, 115_299), 1);
        assert_eq!(refusals.blocked_for(&PENALTY, 115_300), 0);
    }

    #[test]
    fn each_block_is_longer_until_the_last_is_forgotten() {
        let mut refusals = Refusals::default();
        assert_eq!(blocked(&mut refusals, &[0, 1, 2]), [0, 0, 10_000]);
        assert_eq!(blocked(&mut refusals, &[12, 13, 14]), [0, 0, 20_000]);
        assert_eq!(blocked(&mut refusals, &[40, 41, 42]), [0, 0, 25_000]);
        // The third block ends at 67.3 s, and is remembered for 25 s.
        assert_eq!(blocked(&mut refusals, &[89, 90, 91]), [0, 0, 25_000]);
        assert_eq!(blocked(&mut refusals, &[142, 143, 144]), [0, 0, 10_000]);
        assert!(!refusals.is_over(&PENALTY, PER, 179_299));
        assert!(refusals.is_over(&PENALTY, PER, 179_300));
    }

    #[test]
    fn a_clock_that_steps_back_blocks_nobody_for_longer() {
        let mut refusals = Refusals::default();
        assert_eq!(blocked(&mut refusals, &[100, 101, 102]), [0, 0, 10_000]);
        assert_eq!(refusals.blocked_for(&PENALTY, 102_299), 0);
        assert_eq!(blocked(&mut refusals, &[50, 51]), [0, 0]);
    }
}
