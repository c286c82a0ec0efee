//! What can be done to a limiter beside taking permits.

use ratelimit_spec::Mode;

use super::Core;
use crate::{
    Quota, StoreError,
    clock::whole_ms,
    limits::Inner,
    store::{Config, KeepState, Outcome, Request, WriteWhen},
};

impl Core {
    pub(crate) async fn available(&self, limits: &Inner) -> Result<u64, StoreError> {
        let configured = self.configured(limits);
        let request = Request::new(&self.keys, configured, limits.current().since);
        let reply = limits.store.peek(&request).await?;
        let config = match reply.outcome {
            Outcome::PerClient => reply.config,
            _ => return Ok(reply.remaining),
        };
        let here = Config { mode: Mode::Overall, ..config };
        Ok(limits.per_client.look(&self.keys, here, 1).remaining)
    }

    pub(crate) async fn release(&self, limits: &Inner, permits: u32) -> Result<u64, StoreError> {
        let mode = self.in_force().unwrap_or_else(|| self.configured(limits)).mode;
        let released = match mode {
            Mode::PerClient => limits.per_client.uncount(&self.keys, permits),
            Mode::Overall => limits.store.release(&self.keys, permits).await?,
        };
        self.queue.stir();
        Ok(released)
    }

    pub(crate) async fn write(
        &self,
        limits: &Inner,
        quota: &Quota,
        when: WriteWhen,
        state: KeepState,
    ) -> Result<bool, StoreError> {
        let config =
            Config { rate: quota.rate(), per_ms: whole_ms(quota.per()), ..self.configured(limits) };
        let written = limits.store.write(&self.keys, config, when, state).await?;
        if written {
            // This process has had its say about the key.
            self.rule(limits).state();
            self.note(config);
            if state == KeepState::Reset {
                limits.per_client.forget(&self.keys);
            }
            self.queue.stir();
        }
        Ok(written)
    }

    pub(crate) async fn delete(&self, limits: &Inner) -> Result<bool, StoreError> {
        let deleted = limits.store.delete(&self.keys).await?;
        limits.per_client.forget(&self.keys);
        self.queue.stir();
        Ok(deleted)
    }

    /// This process's own numbers; without any, none that could be mistaken for some.
    fn configured(&self, limits: &Inner) -> Config {
        self.numbers(limits).map_or(Config::new(0, 1, Mode::Overall), |numbers| numbers.config)
    }
}
