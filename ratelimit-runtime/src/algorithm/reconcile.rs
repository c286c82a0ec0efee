//! Reconciles the configuration of a process with the one in a store.
//!
//! The greater epoch wins, a lower one follows, and an equal configuration changes nothing. So old
//! processes follow new ones in a rolling deploy, and two versions never keep resetting each other.
//! An external change has a date instead of an epoch. Only a process whose configuration is newer
//! than the change replaces it, and not while it is held. A configuration that was active within
//! the last hour is not new to a key, so its return resets nothing.

use std::sync::Arc;

use ratelimit_spec::OnDrift;

use super::Config;

/// The heartbeat interval of a process that uses the stored configuration.
const HEARTBEAT_MS: u64 = 10_000;
/// The time without a heartbeat after which a stored configuration is abandoned.
const ABANDONED_AFTER_MS: u64 = 30_000;
/// The number of earlier configurations that are remembered, and for how long.
const REMEMBERED: usize = 4;
const REMEMBERED_FOR_MS: u64 = 3_600_000;

/// Decides which of two configurations is newer; compared field by field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Epoch {
    pub(crate) revision: u64,
    /// In microseconds by the store's clock.
    pub(crate) since: u64,
}

/// The stored configuration of a limiter.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) shared: Arc<Shared>,
    heartbeat_ms: u64,
    history: Option<Box<History>>,
}

/// What all limiters store whose configuration came from one announcement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shared {
    config: Config,
    /// The last announcement.
    epoch: Epoch,
}

/// An external change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    /// When the change was made, in microseconds by the store's clock.
    pub(crate) made_us: u64,
    /// Until when no announcement replaces the change.
    pub(crate) held_until_ms: u64,
}

/// What happened to the configuration of a limiter.
#[derive(Clone, Debug, Default)]
struct History {
    /// Set if the configuration was not written by an announcement.
    change: Option<Change>,
    reset_ms: Option<u64>,
    /// Earlier configurations and when each was replaced, newest first.
    configs: Vec<(Config, u64)>,
}

impl Stored {
    /// A configuration that was written deliberately.
    pub(crate) fn written(config: Config, change: Change, before: Option<Self>, now: u64) -> Self {
        let mut stored = match before {
            Some(mut before) => {
                before.replace(config, before.shared.epoch, now);
                before
            }
            None => Self::new(config, Epoch { revision: 0, since: 0 }, 0),
        };
        stored.history.get_or_insert_default().change = Some(change);
        stored
    }

    fn new(config: Config, epoch: Epoch, heartbeat_ms: u64) -> Self {
        Self { shared: Arc::new(Shared { config, epoch }), heartbeat_ms, history: None }
    }

    pub(crate) fn config(&self) -> &Config {
        &self.shared.config
    }

    /// Sets the keep-alive alone, which announces nothing.
    pub(crate) fn set_keep_alive(&mut self, ms: u64) {
        Arc::make_mut(&mut self.shared).config.keep_alive_ms = ms;
    }

    /// Returns whether the configuration was not written by an announcement.
    pub(crate) fn is_from_outside(&self) -> bool {
        self.change().is_some()
    }

    fn change(&self) -> Option<&Change> {
        self.history.as_ref()?.change.as_ref()
    }

    /// Announces this configuration again, as reconciliation does, if it is the stored one. Returns
    /// until when that need not be repeated.
    pub(crate) fn renewed(&mut self, config: &Config, now: u64) -> Option<u64> {
        if self.is_from_outside() || self.config() != config {
            return None;
        }
        self.heartbeat_ms = now;
        Some(now.saturating_add(HEARTBEAT_MS))
    }

    /// The time for which no announcement replaces the configuration, in milliseconds.
    pub(crate) fn held_for_ms(&self, now: u64) -> u64 {
        self.change().map_or(0, |change| change.held_until_ms.saturating_sub(now))
    }

    /// Sets another configuration, with this one among the earlier ones.
    fn replace(&mut self, config: Config, epoch: Epoch, now: u64) {
        if !self.config().same_limit(&config) {
            let before = (*self.config(), now);
            let history = self.history.get_or_insert_default();
            history.configs.retain(|(known, at)| {
                !known.same_limit(&before.0) && !known.same_limit(&config) && is_recent(*at, now)
            });
            history.configs.insert(0, before);
            history.configs.truncate(REMEMBERED);
        }
        self.shared = Arc::new(Shared { config, epoch });
    }

    /// Sets a configuration announced by a process.
    fn announce(&mut self, config: Config, epoch: Epoch, now: u64) {
        self.replace(config, epoch, now);
        self.heartbeat_ms = now;
        if let Some(history) = &mut self.history {
            history.change = None;
        }
    }

    /// Returns whether a configuration of this epoch is newer.
    fn is_older_than(&self, epoch: Epoch, now: u64) -> bool {
        match self.change() {
            Some(change) => {
                now >= change.held_until_ms
                    && epoch.since > change.made_us
                    && epoch.revision >= self.shared.epoch.revision
            }
            None => epoch > self.shared.epoch,
        }
    }

    /// Returns whether a configuration may reset the limiter: at most once per window, and only if
    /// it is new to the key.
    fn may_reset_to(&self, config: &Config, now: u64) -> bool {
        let Some(history) = &self.history else { return true };
        let window_ms = config.per_ms.max(self.config().per_ms);
        let cool = history.reset_ms.is_none_or(|last| now < last || now - last >= window_ms);
        let mut known = history.configs.iter();
        cool && !known.any(|(known, at)| is_recent(*at, now) && known.same_limit(config))
    }
}

fn is_recent(at: u64, now: u64) -> bool {
    now.saturating_sub(at) < REMEMBERED_FOR_MS
}

/// Whether a process announces its configuration or follows the stored one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Assertion {
    /// The process has used the key before.
    Steady,
    /// The process has no configuration of its own; the stored one is authoritative.
    Follow {
        /// Whether the process uses the key for the first time.
        first: bool,
    },
    /// The process uses the key for the first time, or its configuration changed. If it is newer
    /// than a different stored one, this decides how it replaces that.
    First(OnDrift),
}

/// The outcome of reconciling the configured and the stored configuration of a limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Reconciled {
    /// None was stored, or only a part of one; ours was written.
    Created,
    /// Both are equal; nothing was changed.
    Unchanged,
    /// Ours replaced the stored one, and permits in use were forgotten.
    Reset,
    /// Ours replaced the stored one, and permits in use still count.
    Carried,
    /// The stored one is newer; this process uses it.
    Followed,
}

/// The result of reconciliation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reconciliation {
    pub(crate) reconciled: Option<Reconciled>,
    /// The stored configuration that was replaced, without its keep-alive.
    pub(crate) replaced: Option<Config>,
}

impl From<Reconciled> for Reconciliation {
    fn from(reconciled: Reconciled) -> Self {
        Self { reconciled: Some(reconciled), replaced: None }
    }
}

impl Reconciled {
    /// The outcome as a metric label.
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

/// Returns what is stored from now on, and the outcome, if any. Something must be stored if the
/// process follows the store.
pub(crate) fn reconcile(
    stored: Option<Stored>,
    own: Config,
    epoch: Epoch,
    assertion: Assertion,
    now: u64,
) -> (Stored, Reconciliation) {
    let Some(mut stored) = stored else {
        return (Stored::new(own, epoch, now), Reconciled::Created.into());
    };
    if matches!(assertion, Assertion::Follow { .. }) {
        return (stored, Reconciliation::default());
    }
    let asserting = matches!(assertion, Assertion::First(_));
    let newer = stored.is_older_than(epoch, now);

    if stored.config().same_limit(&own) {
        if !asserting {
            if now >= stored.heartbeat_ms.saturating_add(HEARTBEAT_MS) || now < stored.heartbeat_ms
            {
                stored.heartbeat_ms = now;
            }
            return (stored, Reconciliation::default());
        }
        if newer {
            // A keep-alive that was set separately stays if our configuration has none.
            let keep_alive_ms = match own.keep_alive_ms {
                0 => stored.config().keep_alive_ms,
                ms => ms,
            };
            stored.announce(Config { keep_alive_ms, ..own }, epoch, now);
        }
        return (stored, Reconciled::Unchanged.into());
    }

    let abandoned =
        !stored.is_from_outside() && now >= stored.heartbeat_ms.saturating_add(ABANDONED_AFTER_MS);
    if !newer && !abandoned {
        return (stored, Reconciled::Followed.into());
    }
    let replaced = Some(Config { keep_alive_ms: 0, ..*stored.config() });
    // An external change is always carried over.
    let resets = newer
        && !stored.is_from_outside()
        && assertion == Assertion::First(OnDrift::Reset)
        && stored.may_reset_to(&own, now);
    // Another mode counts elsewhere, so usage cannot be carried over to it.
    let forgets = resets || stored.config().mode != own.mode;
    stored.announce(own, epoch, now);
    if resets {
        stored.history.get_or_insert_default().reset_ms = Some(now);
    }
    let reconciled = Some(if forgets { Reconciled::Reset } else { Reconciled::Carried });
    (stored, Reconciliation { reconciled, replaced })
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

    fn first(stored: Stored, rate: u64, epoch: Epoch, now: u64) -> (Stored, Option<Reconciled>) {
        let (stored, outcome) = reconcile(Some(stored), config(rate), epoch, RESET, now);
        (stored, outcome.reconciled)
    }

    fn created(rate: u64, epoch: Epoch, now: u64) -> Stored {
        let (stored, outcome) = reconcile(None, config(rate), epoch, RESET, now);
        assert_eq!(outcome, Reconciled::Created.into());
        stored
    }

    fn written(rate: u64, made_us: u64, held_until_ms: u64, before: Stored) -> Stored {
        let change = Change { made_us, held_until_ms };
        Stored::written(config(rate), change, Some(before), made_us / 1000)
    }

    #[test]
    fn a_restart_with_an_equal_configuration_touches_only_the_epoch() {
        let (stored, outcome) = first(created(10, OLD, 0), 10, NEW, 5);
        assert_eq!((outcome, stored.shared.epoch), (Some(Reconciled::Unchanged), NEW));
    }

    #[test]
    fn the_greater_epoch_wins_and_the_lower_one_follows() {
        let before = created(10, OLD, 0);
        let (stored, outcome) = reconcile(Some(before), config(20), NEW, RESET, 5);
        assert_eq!((outcome.reconciled, stored.config().rate), (Some(Reconciled::Reset), 20));
        assert_eq!(outcome.replaced, Some(config(10)));
        for assertion in [RESET, Assertion::Steady] {
            let (after, outcome) = reconcile(Some(stored.clone()), config(10), OLD, assertion, 6);
            assert_eq!((outcome, after.config().rate), (Reconciled::Followed.into(), 20));
        }
    }

    #[test]
    fn a_revision_counts_more_than_a_start() {
        let stored = created(10, Epoch { revision: 7, since: 1 }, 0);
        let later = Epoch { revision: 6, since: 9 };
        assert_eq!(first(stored.clone(), 20, later, 5).1, Some(Reconciled::Followed));
        let changed = written(3, 5, 0, stored);
        assert_eq!(first(changed, 20, later, 5).1, Some(Reconciled::Followed));
    }

    #[test]
    fn a_second_reset_within_a_window_carries() {
        let (stored, _) = first(created(10, OLD, 0), 20, NEW, 5);
        let newer = Epoch { revision: 0, since: 3 };
        assert_eq!(first(stored.clone(), 30, newer, 900).1, Some(Reconciled::Carried));
        assert_eq!(first(stored, 30, newer, 1005).1, Some(Reconciled::Reset));
    }

    #[test]
    fn what_was_in_force_within_an_hour_is_carried() {
        let start = |since| Epoch { revision: 0, since };
        let mut stored = created(10, start(1), 0);
        // An old and a new version that restart repeatedly side by side.
        let (mut outcome, mut resets) = (None, 0);
        for n in 0..10 {
            let rate = if n % 2 == 0 { 16 } else { 10 };
            (stored, outcome) = first(stored, rate, start(2 + n), 10_000 * (n + 1));
            resets += usize::from(outcome == Some(Reconciled::Reset));
        }
        assert_eq!((resets, outcome), (1, Some(Reconciled::Carried)));
        let later = 100_000 + REMEMBERED_FOR_MS;
        assert_eq!(first(stored.clone(), 16, start(20), later - 1).1, Some(Reconciled::Carried));
        assert_eq!(first(stored, 16, start(20), later).1, Some(Reconciled::Reset));
    }

    #[test]
    fn four_earlier_configurations_are_remembered() {
        let mut stored = created(1, OLD, 0);
        for (rate, since) in [(2, 2), (3, 3), (4, 4), (5, 5), (6, 6)] {
            let epoch = Epoch { revision: 0, since };
            let reset;
            (stored, reset) = first(stored, rate, epoch, since * 10_000);
            assert_eq!(reset, Some(Reconciled::Reset));
        }
        let next = Epoch { revision: 0, since: 7 };
        assert_eq!(first(stored.clone(), 2, next, 70_000).1, Some(Reconciled::Carried));
        assert_eq!(first(stored, 1, next, 70_000).1, Some(Reconciled::Reset));
    }

    #[test]
    fn only_a_younger_configuration_replaces_a_change_from_outside() {
        let changed = written(2, 5_000, 0, created(10, NEW, 0));
        for since in [1, 2, 5_000] {
            let epoch = Epoch { revision: 0, since };
            assert_eq!(first(changed.clone(), 10, epoch, 90_000).1, Some(Reconciled::Followed));
        }
        let younger = Epoch { revision: 0, since: 5_001 };
        let (after, outcome) = first(changed.clone(), 99, younger, 90_000);
        assert_eq!((after.config().rate, outcome), (99, Some(Reconciled::Carried)));
        // Writing the same configuration deliberately is a change as well.
        let same = written(10, 5_000, 0, created(10, OLD, 0));
        assert_eq!(first(same, 20, NEW, 6).1, Some(Reconciled::Followed));
    }

    #[test]
    fn a_change_that_is_held_stays_until_its_deadline() {
        let held = written(2, 5_000, 60_000, created(10, OLD, 0));
        let younger = Epoch { revision: 0, since: 9_000 };
        assert_eq!(held.held_for_ms(59_000), 1_000);
        assert_eq!(first(held.clone(), 10, younger, 59_999).1, Some(Reconciled::Followed));
        assert_eq!(first(held, 10, younger, 60_000).1, Some(Reconciled::Carried));
    }

    #[test]
    fn a_configuration_without_a_heartbeat_is_abandoned_and_carried() {
        let stored = created(20, NEW, 0);
        let steady = |now| {
            let own = config(10);
            reconcile(Some(stored.clone()), own, OLD, Assertion::Steady, now).1.reconciled
        };
        assert_eq!(steady(29_999), Some(Reconciled::Followed));
        assert_eq!(steady(30_000), Some(Reconciled::Carried));
    }
}
