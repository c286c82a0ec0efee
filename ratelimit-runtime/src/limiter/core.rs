//! One limiter under one key: what this process knows of it.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};

use arc_swap::ArcSwap;
use once_cell::sync::OnceCell;
use ratelimit_spec::KeyName;

use tokio::time::Instant;

use super::{denials::Denials, looks::Looks, queue::Queue, share::Share};
use crate::{
    Settings,
    settings::{Effective, Family, Unresolved},
    store::{Config, MemberId, Outcome, Reply, Slot, StateKeys},
};

/// In this order in memory, so that a decision made at once touches little of it.
#[repr(C)]
pub(crate) struct Core {
    pub(crate) family: Arc<Family>,
    /// The number of the rule in use, to be read without it.
    pub(super) rule_number: AtomicU64,
    /// Where it is counted, when each process has its own budget.
    pub(super) own: OnceCell<Arc<Slot>>,
    /// Where it is counted, when the embedded store does.
    pub(super) stored: OnceCell<Arc<Slot>>,
    pub(crate) queue: Queue,
    /// Whether the rule in use is in shadow mode, to be read without it.
    pub(super) shadowed: AtomicBool,
    /// The name without `key_prefix`, which overrides and prefixes go by.
    pub(super) name: KeyName,
    pub(super) denials: Denials,
    pub(crate) keys: StateKeys,
    /// Which part of a limiter it is, when it is one.
    pub(super) share: Option<Share>,
    /// Counts the turns its own parts had.
    pub(super) turns: AtomicU32,
    /// The settings that a caller gave in code.
    pub(super) given: Mutex<Option<Settings>>,
    pub(super) rule: ArcSwap<Rule>,
    /// Whether it is an additional limit of a key, which is decided with the first.
    pub(super) is_further: bool,
    /// What the store last said is in force.
    in_force: Mutex<InForce>,
    pub(super) looks: Looks,
    /// Whether an unusable store was reported.
    pub(super) complained: AtomicBool,
    /// The process that announced the stored configuration, if it is gone, by its bits.
    gone: AtomicU64,
}

/// What this process is configured with for a key, as of one generation of the limits.
pub(super) struct Rule {
    /// No other rule of this process has it.
    pub(super) number: u64,
    pub(super) generation: u64,
    /// The revision of the limits file.
    pub(super) revision: u64,
    /// This process, where others share the store.
    pub(super) member: Option<MemberId>,
    /// Since when this process has had the configuration.
    pub(super) since: Instant,
    pub(super) numbers: Result<Numbers, Unresolved>,
    /// The stored limiters of the key.
    pub(super) members: Members,
    /// Whether this process has stated them to the store.
    pub(super) stated: AtomicBool,
}

/// The numbers themselves.
#[derive(Clone)]
pub(crate) struct Numbers {
    pub(crate) effective: Effective,
    pub(crate) config: Config,
    /// Whether this process configures none, so that the stored ones apply.
    pub(crate) follow: bool,
}

/// The stored limiters of one key.
#[derive(Clone, Default)]
pub(super) enum Members {
    /// The limiter itself.
    #[default]
    Itself,
    /// Itself, and the limits beside the first: a call takes from all of them.
    All(Vec<Additional>),
    /// Its shards: a call takes from any one of them.
    Any(Arc<[Arc<Core>]>),
}

/// A limit beside the first, and what this process is configured with for it.
#[derive(Clone)]
pub(super) struct Additional {
    pub(super) core: Arc<Core>,
    pub(super) rule: Arc<Rule>,
}

/// What the store last said is left of a limiter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left {
    pub(super) permits: u64,
    pub(super) reset_after_ms: u64,
    /// When, by the clock of this process.
    pub(super) heard_ms: u64,
}

/// What the store said is in force, and when, by its clock.
#[derive(Default)]
struct InForce {
    config: Option<Config>,
    at_ms: u64,
    /// What it said is left, if other processes take of it too.
    left: Option<Box<Left>>,
}

impl InForce {
    /// Whether a reply is older than what is known: the callers of a process read theirs in any
    /// order. A clock that stepped back makes nothing old.
    fn has_overtaken(&self, reply: &Reply) -> bool {
        const UNDER_WAY_MS: u64 = 5_000;
        let age = self.at_ms.saturating_sub(reply.now_ms);
        let same_time = self.at_ms == reply.now_ms && reply.reconciled.is_none();
        (1..UNDER_WAY_MS).contains(&age) || (same_time && self.config.is_some())
    }
}

impl Core {
    /// A limiter with this rule.
    pub(super) fn of(
        keys: StateKeys,
        family: Arc<Family>,
        name: &str,
        rule: Arc<Rule>,
        is_further: bool,
    ) -> Self {
        Self {
            keys,
            family,
            name: name.into(),
            share: None,
            turns: AtomicU32::new(0),
            given: Mutex::default(),
            rule_number: AtomicU64::new(rule.number),
            shadowed: AtomicBool::new(rule.is_shadowed()),
            rule: ArcSwap::new(rule),
            is_further,
            in_force: Mutex::default(),
            looks: Looks::default(),
            stored: OnceCell::new(),
            own: OnceCell::new(),
            denials: Denials::default(),
            complained: AtomicBool::new(false),
            gone: AtomicU64::new(0),
            queue: Queue::default(),
        }
    }

    /// The name without `key_prefix`.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What is in force, as far as this process knows.
    pub(crate) fn in_force(&self) -> Option<Config> {
        self.in_force.lock().unwrap_or_else(PoisonError::into_inner).config
    }

    /// Takes note of what a reply says is in force. Returns whether that is news: other numbers than were
    /// known, and whether the reply is older than what is known.
    pub(super) fn hear(&self, reply: &Reply) -> (bool, bool) {
        let mut in_force = self.in_force.lock().unwrap_or_else(PoisonError::into_inner);
        let overtaken = in_force.has_overtaken(reply);
        let changed = in_force.config.is_none_or(|before| !before.same_limit(&reply.config));
        if !overtaken {
            let config = (reply.outcome != Outcome::Unknown).then_some(reply.config);
            (in_force.config, in_force.at_ms) = (config, reply.now_ms);
        }
        drop(in_force);
        self.complained.store(false, Ordering::Relaxed);
        if changed {
            self.denials.forget();
        }
        (changed, overtaken)
    }

    /// Takes note of what is left after a reply of a store that other processes share.
    pub(super) fn hear_left(&self, reply: &Reply, heard_ms: u64) {
        let counted =
            matches!(reply.outcome, Outcome::Granted | Outcome::Refused | Outcome::NotTaken);
        if !counted {
            return;
        }
        let Reply { remaining: permits, reset_after_ms, .. } = *reply;
        let left = Left { permits, reset_after_ms, heard_ms };
        let mut in_force = self.in_force.lock().unwrap_or_else(PoisonError::into_inner);
        if in_force.at_ms <= reply.now_ms {
            match &mut in_force.left {
                Some(known) => **known = left,
                None => in_force.left = Some(Box::new(left)),
            }
        }
    }

    /// What was left after the last of these replies.
    pub(super) fn left(&self) -> Option<Left> {
        self.in_force.lock().unwrap_or_else(PoisonError::into_inner).left.as_deref().copied()
    }

    /// The process that announced the stored configuration, if it is gone.
    pub(super) fn gone(&self) -> Option<MemberId> {
        MemberId::of_bits(self.gone.load(Ordering::Relaxed))
    }

    pub(super) fn note_gone(&self, announcer: Option<MemberId>) {
        self.gone.store(MemberId::bits(announcer), Ordering::Relaxed);
    }

    /// Takes note of numbers this process wrote itself.
    pub(super) fn note(&self, config: Config) {
        self.in_force.lock().unwrap_or_else(PoisonError::into_inner).config = Some(config);
    }
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The name has the key's values in it.
        f.debug_struct("Core").field("key", &self.family.key).finish_non_exhaustive()
    }
}
