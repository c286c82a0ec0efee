//! The processes that share the store: one small hash for each, and a set of all of them.

use std::time::Duration;

use super::{
    RedisStore,
    fault::{Fault, classify},
    script::MEMBERS,
};
use crate::{
    StoreError, StoreErrorKind, clock,
    store::{Heartbeat, MemberId, StateKeys},
};

impl RedisStore {
    /// Sends a heartbeat and returns the living processes. One that gets no answer closes the gate as a call does, so
    /// that a process without calls knows of the outage. One that is refused does not: decisions go on without
    /// heartbeats.
    pub(crate) async fn heartbeat(
        &self,
        beat: &Heartbeat<'_>,
    ) -> Result<Vec<MemberId>, StoreError> {
        let keys = StateKeys::new(format!("{}ratelimit:members", beat.key_prefix));
        let limit = self.deadline.max(LEAST);
        let error = match clock::timeout(self.link.engine(), limit, self.beat(&keys, beat)).await {
            Ok(Ok(members)) => return Ok(members),
            Ok(Err(error)) => error,
            Err(_) => StoreError::timeout("redis: no answer to a heartbeat"),
        };
        if error.kind() != StoreErrorKind::Misconfigured {
            self.link.close(&keys, error.clone());
        }
        Err(error)
    }

    /// Takes this process out of those that live.
    pub(crate) async fn leave(&self, beat: &Heartbeat<'_>) -> Result<(), StoreError> {
        let keys = StateKeys::new(format!("{}ratelimit:members", beat.key_prefix));
        self.beat(&keys, &Heartbeat { lives_ms: 0, ..*beat }).await.map(drop)
    }

    async fn beat(
        &self,
        keys: &StateKeys,
        beat: &Heartbeat<'_>,
    ) -> Result<Vec<MemberId>, StoreError> {
        let live = self.link.live(&self.link.line(), keys).await?;
        let mut connection = live.connection();
        let host = hostname::get().unwrap_or_default();
        let command = |by_name| {
            let mut command =
                MEMBERS.on_keys(&[keys.config(), &keys.beside(&beat.id.process_text())], by_name);
            command.arg(beat.id.to_string()).arg(beat.program).arg(env!("CARGO_PKG_VERSION"));
            command.arg(&*host.to_string_lossy()).arg(std::process::id()).arg(beat.lives_ms);
            command.arg("").arg(live.server_time(beat.since));
            command
        };
        let reply = match connection.query(&command(true)).await {
            Err(error) if error.code() == Some("NOSCRIPT") => {
                connection.query(&command(false)).await
            }
            reply => reply,
        };
        let ids: Vec<String> = reply
            .and_then(|reply| Ok(redis::from_redis_value(reply)?))
            .map_err(|error| match classify(&error) {
                Fault::Permanent(error) | Fault::Transient(error) => error,
                Fault::NotDone(_) => StoreError::unavailable(format!("redis: {error}")),
            })?;
        Ok(ids.iter().filter_map(|id| id.parse().ok()).collect())
    }
}

/// No heartbeat is given up sooner.
const LEAST: Duration = Duration::from_secs(2);
