//! Penalties: keys that are refused in many windows in a row are blocked for a while.

use std::fmt;
use std::time::Duration;

use crate::duration::format_duration;

/// When a key is blocked, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Penalty {
    /// In how many windows in a row it has to be refused, at least 1.
    pub after: u32,
    /// How long the first block is. Each further one is twice as long.
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
