//! The state that this process keeps for one limiter.

use std::{
    any::Any,
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use arc_swap::ArcSwap;
use once_cell::{race::OnceBox, sync::OnceCell};

use tokio::time::Instant;

use super::{denials::Denials, queue::Queue, rare::Rare, share::Share};
use crate::{
    settings::{Effective, Family, Name, Unresolved},
    store::{Config, MemberId, Outcome, Reconciled, Reply, Slot, StateKeys, Terms},
};

/// Fields are in this memory order, so that an immediate decision touches little of it.
#[repr(C)]
pub(crate) struct Core {
    pub(crate) family: Arc<Family>,
    /// The number of the rule in use, readable without loading the rule.
    pub(super) rule_number: AtomicU64,
    /// The cell that counts it, if the embedded store does.
    pub(super) stored: OnceCell<Arc<Slot>>,
    pub(crate) queue: Queue,
    /// Whether the rule in use is in shadow mode, readable without loading the rule.
    pub(super) shadowed: AtomicBool,
    /// State that only some limiters need.
    pub(super) rare: OnceBox<Rare>,
    pub(super) denials: Denials,
    pub(crate) keys: StateKeys,
    /// The position in the key of the name without `key_prefix`, which overrides and prefixes match.
    name: Range<u32>,
    pub(super) rule: ArcSwap<Rule>,
    /// The number of the last rule that this process has announced to the store.
    stated: AtomicU64,
    /// Whether it is an additional limit of a key, which is decided with the first one.
    pub(super) is_further: bool,
    /// The active configuration, as of the last reply of the store.
    in_force: Mutex<InForce>,
}

/// This process's configuration of a key, as of one generation of the limits. Keys without settings
/// of their own share one.
pub(super) struct Rule {
    /// Unique among the rules of this process; above 0.
    pub(super) number: u64,
    /// What its limiters share, as stored by `services`: it owns limiters itself.
    pub(super) services: Weak<dyn Any + Send + Sync>,
    pub(super) generation: u64,
    /// The revision of the limits file.
    pub(super) revision: u64,
    /// This process, if others share the store.
    pub(super) member: Option<MemberId>,
    /// When the process received the configuration.
    pub(super) since: Instant,
    pub(super) numbers: Result<Numbers, Unresolved>,
    /// The stored limiters of the key.
    pub(super) members: Members,
    /// The number of the previous rule, if that announced an equal configuration.
    pub(super) continues: Option<u64>,
    /// The number of the first of the consecutive rules that have an equal configuration.
    pub(super) first: u64,
    /// Whether settings without an effect were reported.
    pub(super) is_checked: AtomicBool,
    /// The configuration, shared by all limiters that use it.
    pub(super) config: OnceLock<Arc<Config>>,
    /// The terms under which this process counts them.
    pub(super) terms: OnceLock<Arc<Terms>>,
}

/// The configuration itself.
#[derive(Clone)]
pub(crate) struct Numbers {
    pub(crate) effective: Effective,
    pub(crate) config: Config,
    /// Whether this process has no configuration and follows the store.
    pub(crate) follow: bool,
}

/// The stored limiters of one key.
#[derive(Clone, Default)]
pub(super) enum Members {
    /// The limiter itself.
    #[default]
    Itself,
    /// The limiter itself and the additional limits: a call takes from all of them.
    All(Vec<Additional>),
    /// Its shards: a call takes from any one of them.
    Any(Arc<[Arc<Core>]>),
}

/// An additional limit of a key, and this process's configuration of it.
#[derive(Clone)]
pub(super) struct Additional {
    pub(super) core: Arc<Core>,
    pub(super) rule: Arc<Rule>,
}

/// The permits left of a limiter, as of the last reply of the store.
#[derive(Clone, Debug)]
pub(super) struct Left {
    /// The active configuration then.
    pub(super) config: Arc<Config>,
    pub(super) permits: u64,
    pub(super) reset_after_ms: u64,
    /// When the reply was received, by this process's clock.
    pub(super) heard_ms: u64,
}

/// The active configuration reported by a reply of the store, and the time of that reply, by the store's clock.
#[derive(Default)]
struct InForce {
    config: Option<Arc<Config>>,
    at_ms: u64,
    /// Whether this process's configuration replaced the stored one at that time.
    has_replaced: bool,
    /// The permits left according to that reply, if other processes take permits too.
    left: Option<Box<Left>>,
}

impl InForce {
    /// Returns whether a reply is older than the latest known one: callers of a process read their
    /// replies in any order. After a clock stepped back, no reply counts as old.
    fn has_overtaken(&self, reply: &Reply) -> bool {
        const UNDER_WAY_MS: u64 = 5_000;
        let age = self.at_ms.saturating_sub(reply.now_ms);
        let precedes = match reply.reconciled {
            None => self.config.is_some(),
            // A process that replaced a configuration followed it before.
            Some(Reconciled::Followed) => self.has_replaced,
            Some(_) => false,
        };
        (1..UNDER_WAY_MS).contains(&age) || (self.at_ms == reply.now_ms && precedes)
    }
}

impl Core {
    /// Creates a limiter with this rule.
    pub(super) fn of(
        keys: StateKeys,
        family: Arc<Family>,
        name: &str,
        rule: Arc<Rule>,
        is_further: bool,
    ) -> Self {
        // The name is the same text wherever it is found.
        let at = keys.config().find(name).unwrap_or(0);
        let index = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let name = index(at)..index(at + name.len());
        Self {
            keys,
            family,
            name,
            rare: OnceBox::new(),
            stated: AtomicU64::new(0),
            rule_number: AtomicU64::new(rule.number),
            shadowed: AtomicBool::new(rule.is_shadowed()),
            rule: ArcSwap::new(rule),
            is_further,
            in_force: Mutex::default(),
            stored: OnceCell::new(),
            denials: Denials::default(),
            queue: Queue::default(),
        }
    }

    /// The name without `key_prefix`.
    pub(crate) fn name(&self) -> &str {
        let Range { start, end } = self.name;
        self.keys.config().get(start as usize..end as usize).unwrap_or_default()
    }

    /// Returns the name in the store and that in code, which the limits file matches.
    pub(crate) fn names(&self) -> Name<'_> {
        let given = self.made().and_then(|rare| rare.given_name.as_deref());
        Name { stored: self.name(), given: given.unwrap_or(self.name()) }
    }

    /// Returns the rarely needed state, if it exists.
    #[inline]
    pub(super) fn made(&self) -> Option<&Rare> {
        self.rare.get()
    }

    pub(super) fn rare(&self) -> &Rare {
        self.rare.get_or_init(Box::default)
    }

    /// Returns which shard of a limiter this is, if it is one.
    pub(super) fn share(&self) -> Option<Share> {
        self.made()?.share
    }

    /// Returns whether this process has announced the configuration of the rule to the store.
    pub(super) fn is_stated(&self, rule: &Rule) -> bool {
        self.stated.load(Ordering::Acquire) == rule.number
    }

    /// Returns whether no rule with this configuration was announced to the store.
    pub(super) fn is_new(&self, rule: &Rule) -> bool {
        self.stated.load(Ordering::Acquire) < rule.first
    }

    /// Marks this rule as announced. Returns whether it was not before.
    pub(super) fn state(&self, rule: &Rule) -> bool {
        // A late reply to a request of an earlier rule changes nothing.
        self.stated.fetch_max(rule.number, Ordering::AcqRel) < rule.number
    }

    /// Marks this rule as announced if the previous one, which has the same configuration, was.
    pub(super) fn state_again(&self, rule: &Rule) {
        if let Some(before) = rule.continues {
            let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
            let _ = self.stated.compare_exchange(before, rule.number, success, failure);
        }
    }

    fn last_reply(&self) -> MutexGuard<'_, InForce> {
        self.in_force.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the active configuration, as far as this process knows; of shards, that of all together.
    pub(crate) fn in_force(&self) -> Option<Config> {
        let known = self.last_reply().config.as_deref().copied();
        known.or_else(|| self.in_force_of_shards())
    }

    /// Stores the active configuration of a reply. Returns whether it differs from the known one, and
    /// the reply is not older than the latest known one.
    pub(super) fn hear(&self, rule: &Rule, reply: &Reply) -> bool {
        let mut in_force = self.last_reply();
        let overtaken = in_force.has_overtaken(reply);
        let before = in_force.config.as_deref().copied();
        let changed = before.is_none_or(|before| !before.same_limit(&reply.config));
        if !overtaken {
            in_force.at_ms = reply.now_ms;
            in_force.has_replaced =
                matches!(reply.reconciled, Some(Reconciled::Reset | Reconciled::Carried));
            if reply.outcome == Outcome::Unknown {
                in_force.config = None;
            } else if before != Some(reply.config) {
                in_force.config = Some(rule.shared(reply.config));
            }
        }
        drop(in_force);
        if changed {
            self.denials.forget();
            self.forget_refused();
        }
        changed && !overtaken
    }

    /// Records the permits left after a reply of a store that other processes share.
    pub(super) fn hear_left(&self, reply: &Reply, heard_ms: u64) {
        let counted =
            matches!(reply.outcome, Outcome::Granted | Outcome::Refused | Outcome::NotTaken);
        if !counted {
            return;
        }
        let Reply { config, remaining: permits, reset_after_ms, .. } = *reply;
        let mut in_force = self.last_reply();
        if in_force.at_ms > reply.now_ms {
            return;
        }
        match &mut in_force.left {
            Some(left) if *left.config == config => {
                (left.permits, left.reset_after_ms) = (permits, reset_after_ms);
                left.heard_ms = heard_ms;
            }
            left => {
                let config = self.rule.load().shared(config);
                *left = Some(Box::new(Left { config, permits, reset_after_ms, heard_ms }));
            }
        }
    }

    /// Returns the permits left after the last recorded reply.
    pub(super) fn left(&self) -> Option<Left> {
        self.last_reply().left.as_deref().cloned()
    }

    pub(super) fn forget_left(&self) {
        self.last_reply().left = None;
    }

    /// Returns the process that announced the stored configuration, if it is gone.
    pub(super) fn gone(&self) -> Option<MemberId> {
        MemberId::of_bits(self.made()?.gone.load(Ordering::Relaxed))
    }

    /// Forgets the active configuration, because only the shards know it now, or none is stored any more.
    pub(super) fn forget_in_force(&self) {
        *self.last_reply() = InForce::default();
    }

    pub(super) fn note_gone(&self, announcer: Option<MemberId>) {
        if announcer.is_some() || self.made().is_some() {
            self.rare().gone.store(MemberId::bits(announcer), Ordering::Relaxed);
        }
    }

    /// Stores a configuration that this process wrote itself.
    pub(super) fn note(&self, config: Config) {
        let config = self.rule.load().shared(config);
        self.last_reply().config = Some(config);
        self.forget_refused();
    }
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The name contains the key's values.
        f.debug_struct("Core").field("key", &self.family.key).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use ratelimit_spec::Mode;

    use super::{Arc, Config, InForce, Outcome, Reconciled, Reply};

    fn reply(now_ms: u64, reconciled: Option<Reconciled>) -> Reply {
        Reply {
            outcome: Outcome::Refused,
            remaining: 0,
            retry_after_ms: 10,
            reset_after_ms: 10,
            more_after_ms: 10,
            now_ms,
            ahead_ms: 0,
            moved: 0,
            config: Config::new(10, 1000, Mode::Overall),
            reconciled,
            replaced: None,
            announcer: None,
            violated: 0,
        }
    }

    #[test]
    fn what_was_followed_is_older_than_what_replaced_it_in_the_same_millisecond() {
        let config = Some(Arc::new(Config::new(20, 1000, Mode::Overall)));
        let mut in_force = InForce { config, at_ms: 5, has_replaced: true, left: None };
        assert!(in_force.has_overtaken(&reply(5, Some(Reconciled::Followed))));
        assert!(!in_force.has_overtaken(&reply(6, Some(Reconciled::Followed))));
        in_force.has_replaced = false;
        assert!(!in_force.has_overtaken(&reply(5, Some(Reconciled::Followed))));
    }
}
