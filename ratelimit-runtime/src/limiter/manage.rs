//! What can be done to a limiter beside taking permits.

use std::time::Duration;

use ratelimit_spec::Mode;

use super::{Core, here::counted_here};
use crate::{
    Quota, StoreError,
    clock::whole_ms,
    limits::Inner,
    store::{Config, Expiry, KeepState, Outcome, Request, WriteWhen},
};

impl Core {
    pub(crate) async fn available(&self, limits: &Inner) -> Result<u64, StoreError> {
        let configured = self.configured(limits);
        let request = Request::new(&self.keys, configured, limits.current().since)
            .in_force(self.in_force().and_then(|config| config.calendar));
        let reply = limits.store.peek(&request, 1).await?;
        let config = match reply.outcome {
            Outcome::PerClient => reply.config,
            _ => return Ok(reply.remaining),
        };
        Ok(limits.per_client.look(&self.keys, counted_here(config), 1).remaining)
    }

    pub(crate) async fn release(&self, limits: &Inner, permits: u32) -> Result<u64, StoreError> {
        let config = self.in_force().unwrap_or_else(|| self.configured(limits));
        let released = match config.mode {
            Mode::PerClient => limits.per_client.uncount(&self.keys, config, permits),
            Mode::Overall => limits.store.release(&self.keys, permits).await?,
        };
        self.changed();
        Ok(released)
    }

    pub(crate) async fn write(
        &self,
        limits: &Inner,
        quota: &Quota,
        when: WriteWhen,
        state: KeepState,
    ) -> Result<bool, StoreError> {
        let whole = self.kept(limits).await?.with_quota(quota);
        let config = self.share.map_or(whole, |share| share.of(whole));
        let written = limits.store.write(&self.keys, config, when, state).await?;
        if written {
            // This process has had its say about the key.
            self.rule(limits).state();
            self.note(config);
            match state {
                KeepState::Reset => {
                    limits.per_client.forget(&self.keys);
                    self.forgive();
                }
                KeepState::Keep => limits.per_client.withdraw(&self.keys),
            }
            self.changed();
        }
        Ok(written)
    }

    pub(crate) async fn delete(&self, limits: &Inner) -> Result<bool, StoreError> {
        let deleted = limits.store.delete(&self.keys).await?;
        limits.per_client.forget(&self.keys);
        self.forgive();
        if let Some(config) = self.in_force() {
            // Where this process counts for itself, it asks the store next.
            self.note(counted_here(config));
        }
        self.changed();
        Ok(deleted)
    }

    pub(crate) async fn keep_alive(
        &self,
        limits: &Inner,
        idle: Option<Duration>,
    ) -> Result<bool, StoreError> {
        let Some(stored) = limits.store.read(&self.keys).await? else { return Ok(false) };
        // What is used is kept for as long as it counts.
        let idle = idle.map_or(0, |idle| expiry_ms(idle).max(stored.counts_for_ms()));
        self.expire(limits, Expiry::Idle(idle)).await
    }

    pub(crate) async fn expire(&self, limits: &Inner, expiry: Expiry) -> Result<bool, StoreError> {
        let changed = limits.store.expire(&self.keys, expiry).await?;
        let after_ms = match expiry {
            Expiry::At(ms) if changed => Some(ms),
            // What is idle for so long has nothing in use.
            _ => None,
        };
        // What this process counts itself goes with the configuration.
        let lapses_ms = limits.per_client.forget_after(&self.keys, after_ms);
        self.looks.hurry(lapses_ms.unwrap_or(0));
        Ok(changed)
    }

    /// What a new quota leaves as it is: the mode and the keep-alive. They are the store's, unless
    /// this process has some that it did not state yet.
    async fn kept(&self, limits: &Inner) -> Result<Config, StoreError> {
        let own = self.configured(limits);
        let Some(stored) = limits.store.read(&self.keys).await? else { return Ok(own) };
        let follows = self.numbers(limits).is_ok_and(|numbers| numbers.follow);
        if follows || self.rule(limits).is_stated() {
            return Ok(stored);
        }
        let keep_alive_ms =
            if own.keep_alive_ms > 0 { own.keep_alive_ms } else { stored.keep_alive_ms };
        Ok(Config { keep_alive_ms, ..own })
    }

    /// Something may be free before its time.
    pub(super) fn changed(&self) {
        self.denied.forget();
        self.queue.stir();
    }

    /// This process's own numbers; without any, none that could be mistaken for some.
    fn configured(&self, limits: &Inner) -> Config {
        self.numbers(limits).map_or(Config::new(0, 1, Mode::Overall), |numbers| numbers.config)
    }
}

/// Whole milliseconds of an expiry. More than a date can hold are 140 000 years.
pub(super) fn expiry_ms(after: Duration) -> u64 {
    whole_ms(after).min(1 << 52)
}
