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
/// How far in the future a process may date its configuration, in microseconds, because it estimates the store's
/// time. A later date is from before the clock was set back, and counts as the oldest.
const MOST_EARLY_US: u64 = 10_000_000;
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

impl Epoch {
    /// Without a date that is too far in the future.
    fn dated(self, now: u64) -> Self {
        // The embedded store counts from its creation, even if the clock of a test stands at 1970.
        const YEAR_MS: u64 = 31_536_000_000;
        let latest = now.max(YEAR_MS).saturating_mul(1000).saturating_add(MOST_EARLY_US);
        Self { since: if self.since > latest { 0 } else { self.since }, ..self }
    }
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
    /// The same by the clock that counts, in milliseconds.
    pub(crate) made_ms: u64,
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
        let held = |change: &Change| change.held_until_ms.saturating_sub(now.max(change.made_ms));
        self.change().map_or(0, held)
    }

    /// Dates a change that was made before the clock was set back as the oldest. It is held as long as when it was made.
    fn redate(&mut self, now: u64) {
        let held_until_ms = now.saturating_add(self.held_for_ms(now));
        let change = self.history.as_mut().and_then(|history| history.change.as_mut());
        let latest = now.saturating_add(MOST_EARLY_US / 1000);
        if let Some(change) = change.filter(|change| change.made_ms > latest) {
            *change = Change { made_us: 0, made_ms: 0, held_until_ms };
        }
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
        let (epoch, known) = (epoch.dated(now), self.shared.epoch.dated(now));
        match self.change() {
            Some(change) => {
                now >= change.held_until_ms
                    && epoch.since > change.made_us
                    && epoch.revision >= known.revision
            }
            None => epoch > known,
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
///
/// # Examples
///
/// ```
/// use ratelimit_runtime::{Limits, report::Reconciled};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let yaml = "limiters: { search: { rate: 5, per: 1s } }";
/// let limits = Limits::builder().memory().limits_yaml(yaml).build().await?;
/// limits.configured("search").try_acquire(1).await?;
/// let report = limits.report();
/// let search = report.limiter("search").expect("it is in the limits file");
/// assert_eq!(search.reconciled, [(Reconciled::Created, 1)]);
/// # Ok(())
/// # }
/// ```
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
    let is_same = stored.config().same_limit(&own);
    if asserting || !is_same {
        stored.redate(now);
    }
    let newer = stored.is_older_than(epoch, now);

    if is_same {
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
mod tests;
