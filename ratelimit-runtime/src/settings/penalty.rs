//! A penalty in code.

use std::time::Duration;

use ratelimit_spec as spec;

use crate::clock::whole_ms;

/// A block of keys that are rejected repeatedly: `penalty: { after: 3, block: 5m, up_to: 1d }` of
/// the limits file, for [`Settings::penalty`](crate::Settings::penalty). [The
/// guide](crate::guide::penalties) describes what counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub struct Penalty(spec::Penalty);

impl Penalty {
    /// Blocks a key for this long, in whole milliseconds and at most 366 days, once it was rejected
    /// in `after` consecutive windows, at least one.
    pub fn new(after: u32, block: Duration) -> Self {
        let block = whole(block).clamp(spec::MIN_PER, spec::MAX_PER);
        Self(spec::Penalty { after: after.max(1), block, up_to: block })
    }

    /// Doubles the block each further time, up to this length: from that of the first block to 366
    /// days. A block is remembered for this long after it is over.
    pub fn up_to(self, up_to: Duration) -> Self {
        let up_to = whole(up_to).clamp(self.0.block, spec::MAX_PER);
        Self(spec::Penalty { up_to, ..self.0 })
    }

    pub(super) fn word(self) -> spec::Penalty {
        self.0
    }
}

fn whole(duration: Duration) -> Duration {
    Duration::from_millis(whole_ms(duration))
}
