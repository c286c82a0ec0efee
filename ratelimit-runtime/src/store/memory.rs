//! The embedded store: the rules, under a lock on one shard of a map.

use std::{
    collections::HashMap,
    fmt,
    hash::{BuildHasher, RandomState},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ratelimit_spec::Mode;
use tokio::time::Instant;

use super::{
    Assertion, Config, Expiry, KeepState, Outcome, Reply, Request, StateKeys, Store, WriteWhen,
};
use crate::{
    Clock, StoreError,
    algorithm::{
        reconcile::{Epoch, Reconciled, Stored, reconcile},
        sliding_window::{Log, Verdict},
    },
    clock,
};

const SHARDS: usize = 32;
/// A shard drops what is idle when it has grown to this and doubled since it last did.
const SWEEP_AT: usize = 256;

/// Keeps limiters in this process; it cannot fail.
///
/// State that means nothing any more is dropped: an idle limiter costs memory for one window. A
/// busy one holds about 150 log entries of 16 bytes at most.
pub struct MemoryStore {
    clock: Clock,
    anchor: Instant,
    hasher: RandomState,
    shards: Box<[Mutex<Shard>]>,
}

#[derive(Default)]
struct Shard {
    slots: HashMap<Box<str>, Slot>,
    sweep_at: usize,
}

#[derive(Default)]
struct Slot {
    stored: Option<Stored>,
    log: Log,
    /// The window the log was last counted with.
    per_ms: u64,
    /// From when on it is as if it had never been.
    expires_ms: Option<u64>,
}

impl MemoryStore {
    /// An empty store that reads this clock.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let (anchor, hasher) = (clock::instant(), RandomState::new());
        Self { clock, anchor, hasher, shards }
    }

    fn shard(&self, keys: &StateKeys) -> MutexGuard<'_, Shard> {
        #[expect(clippy::cast_possible_truncation, reason = "any part of a hash picks a shard")]
        let index = self.hasher.hash_one(keys.config()) as usize % SHARDS;
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn epoch(&self, request: &Request<'_>) -> Epoch {
        let since = request.since.saturating_duration_since(self.anchor).as_micros();
        Epoch { revision: request.revision, since: u64::try_from(since).unwrap_or(u64::MAX) }
    }

    /// Runs a rule on the limiter's slot, with its configuration reconciled.
    fn decide(
        &self,
        request: &Request<'_>,
        rule: impl FnOnce(&mut Log, u64, Config, u64) -> Verdict,
    ) -> Reply {
        let decided = self.reconciled(request, |log, config, now| {
            let rule = |permits| rule(log, permits, config, now);
            Reply::decided(request.permits, config, now, rule)
        });
        match decided {
            Ok((reply, reconciled)) => Reply { reconciled, ..reply },
            Err(unknown) => unknown,
        }
    }

    /// Reconciles the configuration and says what happened, with what is decided by it; an unknown
    /// reply when there is none.
    fn reconciled<T>(
        &self,
        request: &Request<'_>,
        decide: impl FnOnce(&mut Log, Config, u64) -> T,
    ) -> Result<(T, Option<Reconciled>), Reply> {
        let epoch = self.epoch(request);
        let mut shard = self.shard(request.keys);
        // Read under the lock, so that time does not run backwards within a limiter.
        let now = self.clock.now_ms();
        let slot = shard.slot(request.keys, now);
        if matches!(request.assertion, Assertion::Follow { .. }) && slot.stored.is_none() {
            return Err(Reply::unknown(now));
        }
        let (stored, reconciled) =
            reconcile(slot.stored, request.config, epoch, request.assertion, now);
        if reconciled == Some(Reconciled::Reset) {
            slot.log = Log::default();
        }
        slot.stored = Some(stored);
        let config = stored.config;
        slot.per_ms = config.per_ms;
        if config.keep_alive_ms > 0 {
            // Never less than what is used takes to be free again.
            let used = config.per_ms + config.per_ms / 50 + 1;
            slot.expires_ms = Some(now + config.keep_alive_ms.max(used));
        }
        Ok((decide(&mut slot.log, config, now), reconciled))
    }

    fn decide_all(&self, request: &Request<'_>, costs: &[u32]) -> Vec<Reply> {
        let decided = self.reconciled(request, |log, config, now| {
            let reply = |cost, verdict| Reply::decided(cost, config, now, |_| verdict);
            if config.mode == Mode::PerClient {
                return costs.iter().map(|&cost| reply(cost, Verdict::default())).collect();
            }
            let each = costs.iter().copied().map(u64::from);
            let verdicts = log.acquire_all(config.rate, config.per_ms, each, now);
            costs.iter().zip(verdicts).map(|(&cost, verdict)| reply(cost, verdict)).collect()
        });
        let (mut replies, reconciled): (Vec<Reply>, _) = match decided {
            Ok(decided) => decided,
            Err(unknown) => (vec![unknown; costs.len()], None),
        };
        if let Some(first) = replies.first_mut() {
            first.reconciled = reconciled;
        }
        replies
    }

    fn peek_now(&self, request: &Request<'_>) -> Reply {
        let shard = self.shard(request.keys);
        let now = self.clock.now_ms();
        let slot = shard.look(request.keys, now);
        let stored = slot.and_then(|slot| slot.stored);
        if matches!(request.assertion, Assertion::Follow { .. }) && stored.is_none() {
            return Reply::unknown(now);
        }
        let config = stored.map_or(request.config, |stored| stored.config);
        look(slot, config, request.permits, now)
    }

    /// Counts against numbers that are reconciled elsewhere.
    pub(crate) fn count(&self, keys: &StateKeys, config: Config, permits: u32) -> Reply {
        let mut shard = self.shard(keys);
        let now = self.clock.now_ms();
        let slot = shard.slot(keys, now);
        slot.per_ms = config.per_ms;
        Reply::decided(permits, config, now, |permits| {
            slot.log.acquire(config.rate, config.per_ms, permits, now)
        })
    }

    /// What [`count`](Self::count) would say, without counting.
    pub(crate) fn look(&self, keys: &StateKeys, config: Config, permits: u32) -> Reply {
        let shard = self.shard(keys);
        let now = self.clock.now_ms();
        look(shard.look(keys, now), config, permits, now)
    }

    /// Gives back permits that were [counted](Self::count).
    pub(crate) fn uncount(&self, keys: &StateKeys, permits: u32) -> u64 {
        let mut shard = self.shard(keys);
        let now = self.clock.now_ms();
        let slot = shard.slot(keys, now);
        slot.log.release(slot.per_ms, permits.into(), now)
    }

    /// Forgets what was [counted](Self::count).
    pub(crate) fn forget(&self, keys: &StateKeys) {
        self.shard(keys).slots.remove(keys.config());
    }
}

fn look(slot: Option<&Slot>, config: Config, permits: u32, now: u64) -> Reply {
    let empty = Log::default();
    let log = slot.map_or(&empty, |slot| &slot.log);
    Reply::decided(permits, config, now, |permits| {
        log.peek(config.rate, config.per_ms, permits, now)
    })
}

impl Reply {
    /// What the rule says, where it has a say.
    fn decided(
        permits: u32,
        config: Config,
        now_ms: u64,
        rule: impl FnOnce(u64) -> Verdict,
    ) -> Self {
        let permits = u64::from(permits);
        let (outcome, verdict) = if config.mode == Mode::PerClient {
            (Outcome::PerClient, Verdict::default())
        } else {
            let verdict = rule(permits);
            let outcome = match verdict.granted {
                true => Outcome::Granted,
                false if permits > config.rate => Outcome::ExceedsCapacity,
                false => Outcome::Refused,
            };
            (outcome, verdict)
        };
        Self {
            outcome,
            remaining: verdict.remaining,
            retry_after_ms: verdict.retry_after,
            reset_after_ms: verdict.reset_after,
            now_ms,
            ahead_ms: verdict.ahead,
            config,
            reconciled: None,
        }
    }

    fn unknown(now_ms: u64) -> Self {
        let silent =
            Self::decided(0, Config::new(0, 0, Mode::Overall), now_ms, |_| Verdict::default());
        Self { outcome: Outcome::Unknown, ..silent }
    }
}

impl Shard {
    fn slot(&mut self, keys: &StateKeys, now: u64) -> &mut Slot {
        if !self.slots.contains_key(keys.config()) {
            if self.slots.len() >= self.sweep_at.max(SWEEP_AT) {
                self.slots.retain(|_, slot| !slot.is_idle(now));
                self.sweep_at = self.slots.len() * 2;
            }
            self.slots.insert(keys.config().into(), Slot::default());
        }
        let slot = self.slots.get_mut(keys.config()).expect("the slot was just made");
        if slot.is_expired(now) {
            *slot = Slot::default();
        }
        slot
    }

    fn look(&self, keys: &StateKeys, now: u64) -> Option<&Slot> {
        self.slots.get(keys.config()).filter(|slot| !slot.is_expired(now))
    }
}

impl Slot {
    fn is_expired(&self, now: u64) -> bool {
        self.expires_ms.is_some_and(|expires| expires <= now)
    }

    /// Whether it says no more than a new one would: nothing is used, and the next caller writes the
    /// same configuration.
    fn is_idle(&self, now: u64) -> bool {
        let outside = self.stored.is_some_and(|stored| stored.outside);
        self.is_expired(now) || (!outside && self.log.is_idle(self.per_ms, now))
    }
}

impl Store for MemoryStore {
    async fn acquire(&self, request: &Request<'_>) -> Result<Reply, StoreError> {
        Ok(self.decide(request, |log, permits, config, now| {
            log.acquire(config.rate, config.per_ms, permits, now)
        }))
    }

    async fn acquire_all(
        &self,
        request: &Request<'_>,
        costs: &[u32],
    ) -> Result<Vec<Reply>, StoreError> {
        Ok(if costs.is_empty() { Vec::new() } else { self.decide_all(request, costs) })
    }

    async fn peek(&self, request: &Request<'_>) -> Result<Reply, StoreError> {
        Ok(self.peek_now(request))
    }

    async fn assert(&self, request: &Request<'_>) -> Result<Reply, StoreError> {
        let reply = self.decide(request, |_, _, _, _| Verdict::default());
        Ok(match reply.outcome {
            Outcome::Unknown => reply,
            _ => Reply { outcome: Outcome::Granted, remaining: reply.config.rate, ..reply },
        })
    }

    async fn release(&self, keys: &StateKeys, permits: u32) -> Result<u64, StoreError> {
        let mut shard = self.shard(keys);
        let now = self.clock.now_ms();
        let slot = shard.slot(keys, now);
        let Some(stored) = slot.stored else { return Ok(0) };
        Ok(slot.log.release(stored.config.per_ms, permits.into(), now))
    }

    async fn write(
        &self,
        keys: &StateKeys,
        config: Config,
        when: WriteWhen,
        state: KeepState,
    ) -> Result<bool, StoreError> {
        let mut shard = self.shard(keys);
        let now = self.clock.now_ms();
        let slot = shard.slot(keys, now);
        match (when, slot.stored) {
            (WriteWhen::Absent, Some(_)) | (WriteWhen::Present, None) => return Ok(false),
            _ => {}
        }
        let same_mode = slot.stored.is_some_and(|stored| stored.config.mode == config.mode);
        if state == KeepState::Reset || !same_mode {
            slot.log = Log::default();
        }
        slot.stored = Some(Stored::written(config, slot.stored));
        slot.per_ms = config.per_ms;
        if config.keep_alive_ms > 0 {
            slot.expires_ms = Some(now + config.keep_alive_ms);
        }
        Ok(true)
    }

    async fn read(&self, keys: &StateKeys) -> Result<Option<Config>, StoreError> {
        let shard = self.shard(keys);
        let slot = shard.look(keys, self.clock.now_ms());
        Ok(slot.and_then(|slot| slot.stored).map(|stored| stored.config))
    }

    async fn delete(&self, keys: &StateKeys) -> Result<bool, StoreError> {
        let now = self.clock.now_ms();
        let slot = self.shard(keys).slots.remove(keys.config());
        Ok(slot.is_some_and(|slot| slot.stored.is_some() && !slot.is_expired(now)))
    }

    async fn expire(&self, keys: &StateKeys, expiry: Expiry) -> Result<bool, StoreError> {
        let mut shard = self.shard(keys);
        let now = self.clock.now_ms();
        let slot = shard.slot(keys, now);
        let Some(stored) = &mut slot.stored else { return Ok(false) };
        let (before, mut changed) = (slot.expires_ms, true);
        match expiry {
            Expiry::At(ms) => slot.expires_ms = Some(now + ms),
            Expiry::Cleared => (slot.expires_ms, changed) = (None, before.is_some()),
            Expiry::Idle(ms) => {
                stored.config.keep_alive_ms = ms;
                slot.expires_ms = (ms > 0).then_some(now + ms);
            }
        }
        Ok(changed)
    }

    async fn ttl(&self, keys: &StateKeys) -> Result<Option<Duration>, StoreError> {
        let shard = self.shard(keys);
        let now = self.clock.now_ms();
        let expires = shard.look(keys, now).and_then(|slot| slot.stored.and(slot.expires_ms));
        Ok(expires.map(|expires| Duration::from_millis(expires - now)))
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("clock", &self.clock).finish_non_exhaustive()
    }
}
