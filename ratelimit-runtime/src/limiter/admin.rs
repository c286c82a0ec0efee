//! Management operations, applied to all limits of a key and to all shards of a split limiter. An error of
//! one of them does not affect the others.

use std::{ops::BitOr, sync::Arc, time::Duration};

use ratelimit_spec::Mode;

use super::{
    Core,
    per_process::{counted_here, look_here},
    plan::Part,
    services::Services,
    share::together,
};
use crate::{
    Quota, Quotas, RateChange, Rejection, StoreError,
    clock::expiry_ms,
    store::{Assertion, Config, Expiry, KeepState, Outcome, Request, StoredConfig, WriteWhen},
};

/// Combines the results of two limiters; the first error is returned.
pub(super) fn both<T>(
    before: Result<T, StoreError>,
    one: Result<T, StoreError>,
    join: impl FnOnce(T, T) -> T,
) -> Result<T, StoreError> {
    Ok(join(before?, one?))
}

impl Core {
    /// Returns the permits available under every limit, or from all shards together.
    pub(crate) async fn available(
        self: &Arc<Self>,
        limits: &Arc<Services>,
    ) -> Result<u64, StoreError> {
        if self.is_disabled(limits) {
            return Ok(u64::MAX);
        }
        let split = self.is_split(limits);
        let mut free = if split { 0 } else { u64::MAX };
        for core in self.limiters(limits) {
            let one = core.available_here(limits).await?;
            free = if split { free + one } else { free.min(one) };
        }
        Ok(free)
    }

    async fn available_here(self: &Arc<Self>, limits: &Arc<Services>) -> Result<u64, StoreError> {
        let rule = self.rule(limits);
        let of_shares = self.left_of_shares(limits, &rule).await?;
        let request = match &rule.numbers {
            Ok(numbers) => Part { core: self, rule: &rule, numbers }.request(limits),
            // Only the store may have a configuration.
            Err(_) => Request::new(&self.keys, self.configured(limits), rule.since)
                .assertion(Assertion::Follow { first: true }),
        };
        let reply = limits.store.peek(&request, 1).await?;
        Ok(match reply.outcome {
            Outcome::PerClient => look_here(limits, self, &reply, 1).remaining,
            _ => reply.remaining.min(of_shares.unwrap_or(u64::MAX)),
        })
    }

    /// Releases the oldest permits of all limits; returns the most that any limit released.
    pub(crate) async fn release(
        self: &Arc<Self>,
        limits: &Services,
        permits: u32,
    ) -> Result<u64, StoreError> {
        let split = self.is_split(limits);
        let (mut all, mut failed) = (0, Ok(()));
        for core in self.limiters(limits) {
            let given = if split { u32::try_from(all).unwrap_or(u32::MAX) } else { 0 };
            match core.release_here(limits, permits.saturating_sub(given)).await {
                Ok(released) => all = if split { all + released } else { all.max(released) },
                Err(error) => failed = failed.and(Err(error)),
            }
        }
        if all > 0 {
            self.family.row().measured.refunded(all);
        }
        self.changed();
        failed.map(|()| all)
    }

    async fn release_here(&self, limits: &Services, permits: u32) -> Result<u64, StoreError> {
        // Another process may have changed the mode. What is counted here needs no store.
        let stored = limits.store.read(&self.keys).await;
        let config = match &stored {
            Ok(Some(stored)) => stored.config,
            _ => self.in_force().unwrap_or_else(|| self.configured(limits)),
        };
        let released = match config.mode {
            Mode::PerClient => limits.per_client.uncount(&self.keys, config, permits),
            Mode::Overall => {
                stored?;
                let released = limits.store.release(&self.keys, permits).await?;
                limits.local.release(limits, self, config, released);
                released
            }
        };
        self.changed();
        Ok(released)
    }

    /// Writes quotas, each to the limit that it belongs to, and to each shard its share.
    pub(crate) async fn write(
        self: &Arc<Self>,
        limits: &Services,
        change: &RateChange,
        mut when: WriteWhen,
    ) -> Result<bool, StoreError> {
        let quotas = &change.quotas;
        if quotas.len() > 1 && !self.rule(limits).is_joint() {
            return Err(StoreError::misconfigured(format!(
                "`{}` has one limit; set one quota instead of {quotas}",
                self.family.key,
            )));
        }
        let changes = quotas.iter().map(|quota| Ok((quota, self.limiters_of(limits, quota)?)));
        // Nothing is written unless each of them has its limit.
        let changes = changes.collect::<Result<Vec<_>, StoreError>>()?;
        if self.is_split(limits) && when != WriteWhen::Always {
            // It is stored if any shard is: the others have expired, and change along.
            let is_stored = self.is_any_stored(limits).await?;
            if is_stored == (when == WriteWhen::Absent) {
                return Ok(false);
            }
            if is_stored {
                when = WriteWhen::Always;
            }
        }
        let mut written = Ok(false);
        for (quota, limiters) in changes {
            for core in limiters {
                let one = core.write_here(limits, quota, change, when).await;
                written = both(written, one, bool::bitor);
            }
        }
        self.changed();
        written
    }

    /// Returns whether any of the limiters is stored. It is an error if none is known to be and one cannot be read.
    async fn is_any_stored(self: &Arc<Self>, limits: &Services) -> Result<bool, StoreError> {
        let mut found = Ok(false);
        for core in self.limiters(limits) {
            match limits.store.read(&core.keys).await {
                Ok(Some(_)) => return Ok(true),
                Ok(None) => {}
                Err(error) => found = Err(error),
            }
        }
        found
    }

    async fn write_here(
        &self,
        limits: &Services,
        quota: &Quota,
        change: &RateChange,
        when: WriteWhen,
    ) -> Result<bool, StoreError> {
        let mut whole = self.kept(limits).await?.with_quota(quota);
        let before = whole.mode;
        whole.mode = change.mode.unwrap_or(before);
        let hold_ms = expiry_ms(change.hold);
        if whole.keep_alive_ms > 0 {
            // An idle limiter would expire with its hold.
            whole.keep_alive_ms = whole.keep_alive_ms.max(hold_ms);
        }
        let config = self.share().map_or(whole, |share| share.of(whole));
        // Another mode counts elsewhere, so usage cannot be carried over to it.
        let state = if whole.mode == before { change.state() } else { KeepState::Reset };
        if !limits.store.write(&self.keys, config, when, state, hold_ms).await? {
            return Ok(false);
        }
        // This process has announced a configuration for the key.
        self.state(&self.rule(limits));
        self.note(config);
        match state {
            KeepState::Reset => self.forget_used(limits),
            KeepState::Keep => limits.per_client.keep_for(&self.keys, &config),
        }
        if let Some(idle) = change.keep_alive {
            let idle = idle.map(|idle| idle.max(change.hold));
            self.expire_here(limits, Expiry::Idle(kept_ms(idle, &config))).await?;
        }
        self.changed();
        Ok(true)
    }

    /// Returns the stored configurations, one for each limit, with those of shards added up. A shard that is not stored
    /// while others are counts as configured: with that its next call writes it.
    pub(crate) async fn stored(
        self: &Arc<Self>,
        limits: &Services,
    ) -> Result<Vec<StoredConfig>, StoreError> {
        let (mut stored, mut others) = (Vec::<StoredConfig>::new(), Vec::new());
        for core in self.limiters(limits) {
            let is_shard = core.share().is_some();
            match limits.store.read(&core.keys).await? {
                Some(one) if is_shard && !stored.is_empty() => others.push(one.config),
                Some(one) => stored.push(one),
                None if is_shard => others.push(core.configured(limits)),
                None => {}
            }
        }
        if let Some(StoredConfig { config: whole, .. }) = stored.first_mut() {
            *whole = others.into_iter().fold(*whole, together);
        }
        Ok(stored)
    }

    pub(crate) async fn delete(self: &Arc<Self>, limits: &Services) -> Result<bool, StoreError> {
        let mut deleted = Ok(false);
        for core in self.limiters(limits) {
            deleted = both(deleted, core.delete_here(limits).await, bool::bitor);
        }
        self.changed();
        deleted
    }

    async fn delete_here(&self, limits: &Services) -> Result<bool, StoreError> {
        let deleted = limits.store.delete(&self.keys).await?;
        self.forget_used(limits);
        if self.in_force().is_some() {
            // If this process counts the limiter, its next call queries the store.
            match &self.rule(limits).numbers {
                Ok(own) if !own.follow => self.note(counted_here(own.config)),
                _ => self.forget_in_force(),
            }
        }
        self.forget_refused();
        self.forget_block();
        self.changed();
        Ok(deleted)
    }

    /// Discards what this process counted of a limiter whose usage the store has discarded.
    fn forget_used(&self, limits: &Services) {
        limits.per_client.forget(&self.keys);
        self.forget_left();
        limits.local.forget(&self.keys);
    }

    pub(crate) async fn expire(
        self: &Arc<Self>,
        limits: &Services,
        expiry: Expiry,
    ) -> Result<bool, StoreError> {
        let mut changed = Ok(false);
        for core in self.limiters(limits) {
            changed = both(changed, core.expire_here(limits, expiry).await, bool::bitor);
        }
        self.changed();
        changed
    }

    async fn expire_here(&self, limits: &Services, expiry: Expiry) -> Result<bool, StoreError> {
        let changed = limits.store.expire(&self.keys, expiry).await?;
        let after_ms = match expiry {
            Expiry::At(ms) if changed => Some(ms),
            // A limiter that was idle for that long has no permits in use.
            _ => None,
        };
        // Usage that this process counts expires with the configuration.
        let lapses_ms = limits.per_client.forget_after(&self.keys, after_ms);
        self.rare().looks.hurry(lapses_ms.unwrap_or(0));
        self.changed();
        Ok(changed)
    }

    pub(crate) async fn keep_alive(
        self: &Arc<Self>,
        limits: &Services,
        idle: Option<Duration>,
    ) -> Result<bool, StoreError> {
        let mut changed = Ok(false);
        for core in self.limiters(limits) {
            changed = both(changed, core.keep_alive_here(limits, idle).await, bool::bitor);
        }
        changed
    }

    async fn keep_alive_here(
        &self,
        limits: &Services,
        idle: Option<Duration>,
    ) -> Result<bool, StoreError> {
        let Some(stored) = limits.store.read(&self.keys).await? else { return Ok(false) };
        self.expire_here(limits, Expiry::Idle(kept_ms(idle, &stored.config))).await
    }

    /// Returns the longest time to live among the limiters; with several limits `None` if one of
    /// them does not expire.
    pub(crate) async fn ttl(
        self: &Arc<Self>,
        limits: &Services,
    ) -> Result<Option<Duration>, StoreError> {
        let split = self.is_split(limits);
        let mut longest = if split { None } else { Some(Duration::ZERO) };
        for core in self.limiters(limits) {
            let one = limits.store.ttl(&core.keys).await?;
            longest =
                if split { longest.max(one) } else { longest.zip(one).map(|(a, b)| a.max(b)) };
        }
        Ok(longest)
    }

    /// Returns the active quotas, as far as this process knows; a disabled limiter has none.
    pub(crate) fn quotas(&self, limits: &Services) -> Option<Vec<Quota>> {
        let known = self.known_of_all(limits).ok()?;
        let is_off = self.is_disabled(limits);
        Some(known.iter().filter(|_| !is_off).map(Config::quota).collect())
    }

    /// Returns the quotas of the store, if that has replied since this process has its configuration. Shards reply for
    /// themselves.
    pub(crate) fn confirmed_quotas(&self, limits: &Services) -> Option<Quotas> {
        let is_new = self.is_new(&self.rule(limits));
        let quotas = self.quotas(limits).filter(|quotas| !is_new && !quotas.is_empty())?;
        Some(Quotas::stored(quotas))
    }

    fn is_disabled(&self, limits: &Services) -> bool {
        self.rule(limits).numbers.as_ref().is_ok_and(|numbers| !numbers.effective.set.enabled())
    }

    /// Returns the active configurations of all limits, as far as this process knows.
    pub(super) fn known_of_all(&self, limits: &Services) -> Result<Vec<Config>, Rejection> {
        let first = self.known(limits)?;
        let rule = self.rule(limits);
        let others = self.each_part(&rule).skip(1);
        Ok(std::iter::once(first).chain(others.map(|part| part.in_force())).collect())
    }

    /// Returns what a new quota does not change: the mode and the keep-alive. They are the store's,
    /// unless this process has not announced its own yet.
    async fn kept(&self, limits: &Services) -> Result<Config, StoreError> {
        let own = self.configured(limits);
        let Some(StoredConfig { config: stored, .. }) = limits.store.read(&self.keys).await? else {
            return Ok(own);
        };
        let rule = self.rule(limits);
        let follows = rule.numbers.as_ref().is_ok_and(|numbers| numbers.follow);
        if follows || self.is_stated(&rule) {
            return Ok(stored);
        }
        let keep_alive_ms =
            if own.keep_alive_ms > 0 { own.keep_alive_ms } else { stored.keep_alive_ms };
        Ok(Config { keep_alive_ms, ..own })
    }

    fn is_split(&self, limits: &Services) -> bool {
        self.rule(limits).shards().is_some()
    }

    /// Wakes waiting calls, because permits may have become free early.
    pub(super) fn changed(&self) {
        self.denials.forget();
        self.queue.stir();
    }

    /// Returns this process's own configuration, or a placeholder that equals no real one.
    fn configured(&self, limits: &Services) -> Config {
        let rule = self.rule(limits);
        rule.numbers.as_ref().map_or(Config::new(0, 1, Mode::Overall), |numbers| numbers.config)
    }
}

/// Returns the keep-alive of a limiter: permits in use are kept for as long as they count.
fn kept_ms(idle: Option<Duration>, config: &Config) -> u64 {
    idle.map_or(0, |idle| expiry_ms(idle).max(config.counts_for_ms()))
}
