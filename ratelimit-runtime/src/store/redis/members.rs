//! The processes that share the store: one small hash for each, and a set of all of them.

use std::time::Duration;

use super::{
    RedisStore,
    fault::{Fault, classify},
    script::MEMBERS,
};
use crate::{
    StoreError, clock,
    store::{Heartbeat, MemberId, StateKeys},
};

impl RedisStore {
    /// Sends a heartbeat and returns the living processes. An error closes no gate: decisions go on
    /// without heartbeats.
    pub(crate) async fn heartbeat(
        &self,
        beat: &Heartbeat<'_>,
    ) -> Result<Vec<MemberId>, StoreError> {
        let sent = clock::timeout(self.link.engine(), self.deadline.max(LEAST), self.beat(beat));
        match sent.await {
            Ok(members) => members,
            Err(_) => Err(StoreError::timeout("redis: no answer to a heartbeat")),
        }
    }

    async fn beat(&self, beat: &Heartbeat<'_>) -> Result<Vec<MemberId>, StoreError> {
        let keys = StateKeys::new(format!("{}ratelimit:members", beat.key_prefix));
        let live = self.link.live(&self.link.line(), &keys).await?;
        let mut connection = live.connection();
        let command = |by_name| {
            let mut command =
                MEMBERS.on_keys(&[keys.config(), &keys.beside(&beat.id.process_text())], by_name);
            command.arg(beat.id.to_string()).arg(beat.program).arg(env!("CARGO_PKG_VERSION"));
            command.arg(beat.host).arg(std::process::id()).arg(beat.lives_ms);
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
