//! When a queue expects its head to be admitted.

/// The next request of a queue to its store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Due {
    /// When the permits of the head are free, as far as that is known, in milliseconds.
    pub(super) at: u64,
    /// How much earlier that may be, in milliseconds.
    pub(super) lag: u64,
    /// When to make the request: before that if other processes may free permits early.
    pub(super) ask_at: u64,
}

impl Due {
    /// A request that is made when the permits are free.
    pub(super) fn at(at: u64, lag: u64) -> Self {
        Self { at, lag, ask_at: at }
    }

    /// Makes the request by then.
    pub(super) fn asked_by(self, ask_at: u64) -> Self {
        Self { ask_at: self.ask_at.min(ask_at), ..self }
    }

    /// Makes the request now, for a caller about which nothing is known.
    pub(super) fn no_later_than(self, now: u64) -> Self {
        Self { at: self.at.min(now), ..self.asked_by(now) }
    }
}
