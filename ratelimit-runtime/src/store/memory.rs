//! The embedded store: the rules, under a lock on one shard of a map.

use std::{
    collections::HashMap,
    fmt,
    hash::{BuildHasher, RandomState},
    sync::{Mutex, MutexGuard, PoisonError},
};

use ratelimit_spec::Mode;

use super::{Config, Outcome, Reply, Request, StateKeys, Store};
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
    anchor: tokio::time::Instant,
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
    /// From when on this slot says no more than a missing one.
    idle_at: u64,
}

impl MemoryStore {
    /// An empty store that reads this clock.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self {
            clock,
            anchor: clock::instant(),
            hasher: RandomState::new(),
            shards,
        }
    }

    fn shard(&self, name: &str) -> MutexGuard<'_, Shard> {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "any part of a hash picks a shard"
        )]
        let index = self.hasher.hash_one(name) as usize % SHARDS;
        self.shards[index]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn epoch(&self, request: &Request<'_>) -> Epoch {
        let since = request
            .since
            .saturating_duration_since(self.anchor)
            .as_micros();
        Epoch {
            revision: request.revision,
            since: u64::try_from(since).unwrap_or(u64::MAX),
        }
    }

    /// Runs a rule on the limiter's slot, with its configuration reconciled.
    fn decide(
        &self,
        request: &Request<'_>,
        rule: impl FnOnce(&mut Log, u64, Config, u64) -> Verdict,
    ) -> Reply {
        let epoch = self.epoch(request);
        let mut shard = self.shard(request.keys.config());
        // Read under the lock, so that time does not run backwards within a limiter.
        let now = self.clock.now_ms();
        let slot = shard.slot(request.keys.config(), now);
        let (stored, reconciled) =
            reconcile(slot.stored, request.config, epoch, request.assertion, now);
        if reconciled == Some(Reconciled::Reset) {
            slot.log = Log::default();
        }
        slot.stored = Some(stored);
        let config = stored.config;
        let idle_after = config
            .keep_alive_ms
            .max(config.per_ms + config.per_ms / 50 + 1);
        slot.idle_at = if config.keep_alive_ms == 0 {
            u64::MAX
        } else {
            now + idle_after
        };

        let reply = Reply::decided(request.permits, config, now, |permits| {
            rule(&mut slot.log, permits, config, now)
        });
        Reply {
            reconciled,
            ..reply
        }
    }

    fn acquire_now(&self, request: &Request<'_>) -> Reply {
        self.decide(request, |log, permits, config, now| {
            log.acquire(config.rate, config.per_ms, permits, now)
        })
    }

    fn peek_now(&self, request: &Request<'_>) -> Reply {
        let shard = self.shard(request.keys.config());
        let now = self.clock.now_ms();
        let slot = shard
            .slots
            .get(request.keys.config())
            .filter(|slot| slot.idle_at > now);
        let config = slot
            .and_then(|slot| slot.stored)
            .map_or(request.config, |stored| stored.config);
        let empty = Log::default();
        let log = slot.map_or(&empty, |slot| &slot.log);
        Reply::decided(request.permits, config, now, |permits| {
            log.peek(config.rate, config.per_ms, permits, now)
        })
    }

    /// Counts against numbers that are reconciled elsewhere.
    pub(crate) fn count(&self, keys: &StateKeys, config: Config, permits: u32) -> Reply {
        let mut shard = self.shard(keys.config());
        let now = self.clock.now_ms();
        let slot = shard.slot(keys.config(), now);
        slot.idle_at = now + config.per_ms + config.per_ms / 50 + 1;
        Reply::decided(permits, config, now, |permits| {
            slot.log.acquire(config.rate, config.per_ms, permits, now)
        })
    }

    /// What [`count`](Self::count) would say, without counting.
    pub(crate) fn look(&self, keys: &StateKeys, config: Config, permits: u32) -> Reply {
        let shard = self.shard(keys.config());
        let now = self.clock.now_ms();
        let log = shard
            .slots
            .get(keys.config())
            .map(|slot| slot.log.clone())
            .unwrap_or_default();
        Reply::decided(permits, config, now, |permits| {
            log.peek(config.rate, config.per_ms, permits, now)
        })
    }
}

impl Reply {
    /// What the rule says, where it has a say.
    fn decided(
        permits: u32,
        config: Config,
        now_ms: u64,
        rule: impl FnOnce(u64) -> Verdict,
    ) -> Self {
        let silent = |outcome, remaining| {
            (
                outcome,
                Verdict {
                    granted: false,
                    remaining,
                    retry_after: 0,
                    reset_after: 0,
                },
            )
        };
        let permits = u64::from(permits);
        let (outcome, verdict) = if config.mode == Mode::PerClient {
            silent(Outcome::PerClient, 0)
        } else if permits > config.rate {
            silent(Outcome::ExceedsCapacity, config.rate)
        } else {
            let verdict = rule(permits);
            (
                if verdict.granted {
                    Outcome::Granted
                } else {
                    Outcome::Refused
                },
                verdict,
            )
        };
        Self {
            outcome,
            remaining: verdict.remaining,
            retry_after_ms: verdict.retry_after,
            reset_after_ms: verdict.reset_after,
            now_ms,
            config,
            reconciled: None,
        }
    }
}

impl Shard {
    fn slot(&mut self, name: &str, now: u64) -> &mut Slot {
        if !self.slots.contains_key(name) {
            if self.slots.len() >= self.sweep_at.max(SWEEP_AT) {
                self.slots.retain(|_, slot| slot.idle_at > now);
                self.sweep_at = self.slots.len() * 2;
            }
            self.slots.insert(name.into(), Slot::default());
        }
        let slot = self.slots.get_mut(name).expect("the slot was just made");
        if slot.idle_at <= now {
            *slot = Slot::default();
        }
        slot
    }
}

impl Store for MemoryStore {
    async fn acquire(&self, request: &Request<'_>) -> Result<Reply, StoreError> {
        Ok(self.acquire_now(request))
    }

    async fn peek(&self, request: &Request<'_>) -> Result<Reply, StoreError> {
        Ok(self.peek_now(request))
    }

    async fn assert(&self, request: &Request<'_>) -> Result<Reply, StoreError> {
        let reply = self.decide(request, |_, _, config, _| Verdict {
            granted: true,
            remaining: config.rate,
            retry_after: 0,
            reset_after: 0,
        });
        Ok(Reply {
            outcome: Outcome::Granted,
            remaining: reply.config.rate,
            ..reply
        })
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}
