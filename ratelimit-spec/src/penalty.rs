//! Penalties: keys that are rejected in many consecutive windows are blocked for a while.

use std::fmt;
use std::time::Duration;

use crate::duration::format_duration;

/// The condition and the length of the block of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Penalty {
    /// The consecutive windows in which it has to be rejected, at least 1.
    pub after: u32,
    /// The length of the first block. Each further one is twice as long.
    pub block: Duration,
    /// The longest block, at least `block`; and for how long after a block the next one is longer.
    pub up_to: Duration,
}

impl fmt::Display for Penalty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { after, block, up_to } = self;
        write!(f, "after {after}, block {}", format_duration(*block))?;
        if up_to > block { write!(f, ", up to {}", format_duration(*up_to)) } else { Ok(()) }
    }
}
