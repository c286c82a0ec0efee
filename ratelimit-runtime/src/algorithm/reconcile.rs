//! Holds what a process is configured with against what a store holds.
//!
//! The greater epoch wins, a lower one follows, and equal numbers touch nothing; so old
//! processes follow new ones in a rolling deploy, and two versions never reset each other in
//! turn. Numbers that changed beside their epoch were written from outside: a running process
//! follows them, a starting one overrides them.

use ratelimit_spec::OnDrift;

use super::Config;

/// A process vouches for the stored numbers this often.
const VOUCH_EVERY_MS: u64 = 10_000;
/// Stored numbers nobody vouched for in this time are abandoned.
const ABANDONED_AFTER_MS: u64 = 30_000;

/// Which of two configurations is the newer one; compared field by field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Epoch {
    pub(crate) revision: u64,
    /// Microseconds by the clock of the store.
    pub(crate) since: u64,
}

/// What a store remembers of a limiter's configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored {
    pub(crate) config: Config,
    /// What the process of this epoch is configured with; nothing when no process has been here.
    stated: Option<Config>,
    epoch: Epoch,
    vouched_ms: u64,
    reset_ms: Option<u64>,
    /// Written on purpose, and not what that process is configured with.
    pub(crate) outside: bool,
}

impl Stored {
    /// A configuration written on purpose: it stays until a process starts that is configured
    /// otherwise.
    pub(crate) fn written(config: Config, before: Option<Self>) -> Self {
        let Some(before) = before else {
            let epoch = Epoch { revision: 0, since: 0 };
            return Self {
                config,
                stated: None,
                epoch,
                vouched_ms: 0,
                reset_ms: None,
                outside: true,
            };
        };
        let outside = before.stated.is_none_or(|stated| !stated.same_limit(&config));
        Self { config, outside, ..before }
    }
}

/// Whether a process states its configuration or goes by what is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Assertion {
    /// It has used the key before: go by what is stored.
    Steady,
    /// It has no numbers of its own: whatever is stored is right.
    Follow {
        /// Whether it uses the key for the first time.
        first: bool,
    },
    /// It uses the key for the first time, or its configuration changed; a difference it wins is
    /// settled like this.
    First(OnDrift),
}

/// How configured and stored numbers came together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reconciled {
    /// Nothing was stored, or only a part; ours was written.
    Created,
    /// Both say the same; nothing was touched.
    Unchanged,
    /// Ours replaced the stored numbers, and what was used is forgotten.
    Reset,
    /// Ours replaced the stored numbers, and what was used still counts.
    Carried,
    /// The stored numbers are newer; this process uses them.
    Followed,
}

impl Reconciled {
    /// The outcome as a metric's label says it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Unchanged => "unchanged",
            Self::Reset => "reset",
            Self::Carried => "carried",
            Self::Followed => "followed",
        }
    }
}

/// Returns what is stored from now on, and what happened, if anything. For a process that follows
/// there must be something stored.
pub(crate) fn reconcile(
    stored: Option<Stored>,
    own: Config,
    epoch: Epoch,
    assertion: Assertion,
    now: u64,
) -> (Stored, Option<Reconciled>) {
    let ours = |reset_ms| Stored {
        config: own,
        stated: Some(own),
        epoch,
        vouched_ms: now,
        reset_ms,
        outside: false,
    };
    let Some(mut stored) = stored else {
        return (ours(None), Some(Reconciled::Created));
    };
    if matches!(assertion, Assertion::Follow { .. }) {
        return (stored, None);
    }
    let asserting = matches!(assertion, Assertion::First(_));
    let greater = !stored.outside && epoch > stored.epoch;
    let newer = greater || (stored.outside && asserting);

    if stored.config.same_limit(&own) {
        if !asserting {
            if now >= stored.vouched_ms + VOUCH_EVERY_MS || now < stored.vouched_ms {
                stored.vouched_ms = now;
            }
            return (stored, None);
        }
        if newer {
            // A keep-alive that was set beside our numbers stays where we have none.
            let keep_alive_ms = match own.keep_alive_ms {
                0 => stored.config.keep_alive_ms,
                ms => ms,
            };
            stored = ours(stored.reset_ms);
            stored.config.keep_alive_ms = keep_alive_ms;
        }
        return (stored, Some(Reconciled::Unchanged));
    }

    let abandoned = !stored.outside && now >= stored.vouched_ms + ABANDONED_AFTER_MS;
    if !newer && !abandoned {
        return (stored, Some(Reconciled::Followed));
    }
    // At most one reset per window; a change within it carries.
    let cool = stored
        .reset_ms
        .is_none_or(|last| now < last || now - last >= own.per_ms.max(stored.config.per_ms));
    if newer && assertion == Assertion::First(OnDrift::Reset) && cool {
        (ours(Some(now)), Some(Reconciled::Reset))
    } else {
        (ours(stored.reset_ms), Some(Reconciled::Carried))
    }
}

#[cfg(test)]
mod tests {
    use ratelimit_spec::Mode;

    use super::*;

    const OLD: Epoch = Epoch { revision: 0, since: 1 };
    const NEW: Epoch = Epoch { revision: 0, since: 2 };
    const RESET: Assertion = Assertion::First(OnDrift::Reset);

    fn config(rate: u64) -> Config {
        Config::new(rate, 1000, Mode::Overall)
    }

    fn created(rate: u64, epoch: Epoch, now: u64) -> Stored {
        let (stored, event) = reconcile(None, config(rate), epoch, RESET, now);
        assert_eq!(event, Some(Reconciled::Created));
        stored
    }

    #[test]
    fn a_restart_with_equal_numbers_touches_nothing_but_the_epoch() {
        let stored = created(10, OLD, 0);
        let (stored, event) = reconcile(Some(stored), config(10), NEW, RESET, 5);
        assert_eq!((event, stored.epoch), (Some(Reconciled::Unchanged), NEW));
    }

    #[test]
    fn the_greater_epoch_wins_and_the_lower_one_follows() {
        let stored = created(10, OLD, 0);
        let (stored, event) = reconcile(Some(stored), config(20), NEW, RESET, 5);
        assert_eq!((event, stored.config.rate), (Some(Reconciled::Reset), 20));
        for assertion in [RESET, Assertion::Steady] {
            let (after, event) = reconcile(Some(stored), config(10), OLD, assertion, 6);
            assert_eq!((event, after.config.rate), (Some(Reconciled::Followed), 20));
        }
    }

    #[test]
    fn a_revision_counts_more_than_a_start() {
        let stored = created(10, Epoch { revision: 7, since: 1 }, 0);
        let later = Epoch { revision: 6, since: 9 };
        let (_, event) = reconcile(Some(stored), config(20), later, RESET, 5);
        assert_eq!(event, Some(Reconciled::Followed));
    }

    #[test]
    fn a_second_reset_within_a_window_carries() {
        let stored = created(10, OLD, 0);
        let (stored, _) = reconcile(Some(stored), config(20), NEW, RESET, 5);
        let newer = Epoch { revision: 0, since: 3 };
        let (_, event) = reconcile(Some(stored), config(30), newer, RESET, 900);
        assert_eq!(event, Some(Reconciled::Carried));
        let (_, event) = reconcile(Some(stored), config(30), newer, RESET, 1005);
        assert_eq!(event, Some(Reconciled::Reset));
    }

    #[test]
    fn numbers_nobody_vouches_for_are_given_up_carrying() {
        let stored = created(20, NEW, 0);
        let steady = |now| reconcile(Some(stored), config(10), OLD, Assertion::Steady, now);
        assert_eq!(steady(29_999).1, Some(Reconciled::Followed));
        assert_eq!(steady(30_000).1, Some(Reconciled::Carried));
    }
}
