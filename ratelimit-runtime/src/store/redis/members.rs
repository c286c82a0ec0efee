//! The processes that share the store: one small hash for each, and a set of all of them.

use std::time::Duration;

use redis::{Cmd, FromRedisValue};

use super::{RedisStore, attempt::Attempt, call::Call, line::Live, read, script::MEMBERS};
use crate::{
    StoreError, StoreErrorKind, clock,
    store::{Counts, Heartbeat, Member, MemberId, StateKeys},
};

/// The shortest deadline of a heartbeat, and of reading the members.
const LEAST: Duration = Duration::from_secs(2);

impl RedisStore {
    /// Sends a heartbeat and returns the processes that were alive before it. One without a reply, or without a
    /// connection if no call has one, closes the gate as a call does, so that a process without calls notices the
    /// outage. One that is rejected does not: decisions work without heartbeats.
    pub(crate) async fn heartbeat(
        &self,
        beat: &Heartbeat<'_>,
    ) -> Result<Vec<MemberId>, StoreError> {
        let (keys, attempt) = (keys(beat.key_prefix), Attempt::new(&self.link));
        let (limit, beating) = (self.link.deadline.max(LEAST), self.beat(&attempt, &keys, beat));
        let error = match clock::timeout(self.link.engine(), limit, beating).await {
            Ok(Ok(members)) => return Ok(members),
            Ok(Err(error)) => error,
            // If the cluster rejects all calls, the node that replied is not down.
            Err(_) => {
                let excuse = attempt.progress().excuse.take();
                excuse.unwrap_or_else(|| StoreError::timeout("redis: no reply to a heartbeat"))
            }
        };
        // A server that refuses further connections may still serve those that calls have; one that hangs does not.
        let unreached = error.kind() == StoreErrorKind::Unavailable && !attempt.was_connected();
        if attempt.concerns_all(&error) && !(unreached && self.link.is_connected(&keys)) {
            attempt.close(&keys, error.clone());
        }
        Err(error)
    }

    /// Removes this process from the live ones.
    pub(crate) async fn leave(&self, beat: &Heartbeat<'_>) -> Result<(), StoreError> {
        let keys = keys(beat.key_prefix);
        let attempt = Attempt::new(&self.link);
        self.beat(&attempt, &keys, &Heartbeat { lives_ms: 0, ..*beat }).await.map(drop)
    }

    async fn beat(
        &self,
        attempt: &Attempt<'_>,
        keys: &StateKeys,
        beat: &Heartbeat<'_>,
    ) -> Result<Vec<MemberId>, StoreError> {
        let host = hostname::get().unwrap_or_default();
        let beat = |live: &Live, by_name| {
            let mut command =
                MEMBERS.on_keys(&[keys.config(), &keys.beside(&beat.id.process_text())], by_name);
            command.arg(beat.id.to_string()).arg(beat.program).arg(env!("CARGO_PKG_VERSION"));
            command.arg(&*host.to_string_lossy()).arg(std::process::id()).arg(beat.lives_ms);
            command.arg("").arg(live.server_time(beat.since)).arg(beat.limiters);
            command
        };
        let ids: Vec<String> = attempt.call(&About { keys, command: beat }).await.and_then(read)?;
        // Slots move, and replicas become masters.
        self.link.look_again(&self.link.line());
        Ok(ids.iter().filter_map(|id| id.parse().ok()).collect())
    }

    async fn ask_about<T: FromRedisValue>(
        &self,
        keys: &StateKeys,
        command: impl Fn(&Live, bool) -> Cmd,
    ) -> Result<T, StoreError> {
        read(Attempt::new(&self.link).call(&About { keys, command }).await?)
    }

    /// Returns the processes that share the store, as their last heartbeats describe them.
    pub(crate) async fn members(&self, key_prefix: &str) -> Result<Vec<Member>, StoreError> {
        let keys = keys(key_prefix);
        let all =
            clock::timeout(self.link.engine(), self.link.deadline.max(LEAST), self.roster(&keys));
        all.await.unwrap_or_else(|_| Err(StoreError::timeout("redis: no reply about members")))
    }

    async fn roster(&self, keys: &StateKeys) -> Result<Vec<Member>, StoreError> {
        let all = |_: &Live, _| redis::cmd("ZRANGE").arg(keys.config()).arg(0).arg(-1).to_owned();
        let ids: Vec<String> = self.ask_about(keys, all).await?;
        let ids: Vec<MemberId> = ids.iter().filter_map(|id| id.parse().ok()).collect();
        self.described(keys, &ids).await
    }

    /// Returns the members with these ids. All commands are sent before the first reply, because one round trip for
    /// each would take longer than the deadline if there are many.
    async fn described(
        &self,
        keys: &StateKeys,
        ids: &[MemberId],
    ) -> Result<Vec<Member>, StoreError> {
        match ids {
            [] => return Ok(Vec::new()),
            [id] => return Ok(Vec::from_iter(self.member(keys, *id).await?)),
            _ => {}
        }
        let (some, others) = ids.split_at(ids.len() / 2);
        let [some, others] = [some, others].map(|ids| Box::pin(self.described(keys, ids)));
        let (mut members, others) = tokio::try_join!(some, others)?;
        members.extend(others);
        Ok(members)
    }

    /// Returns a member as its last heartbeat describes it; `None` if its heartbeats have ended.
    async fn member(&self, keys: &StateKeys, id: MemberId) -> Result<Option<Member>, StoreError> {
        let about = |_: &Live, _| {
            let mut about = redis::cmd("HMGET");
            about.arg(keys.beside(&id.process_text()));
            about.arg(&["program", "version", "host", "pid", "since", "limiters"]).to_owned()
        };
        let fields: [Option<String>; 6] = self.ask_about(keys, about).await?;
        let [Some(program), Some(version), Some(host), pid, since, limiters] = fields else {
            return Ok(None);
        };
        let number = |text: Option<String>| text.and_then(|text| text.parse::<u64>().ok());
        let pid = number(pid).and_then(|pid| u32::try_from(pid).ok()).unwrap_or_default();
        let since_us = number(since).unwrap_or_default();
        let limiters = limiters.unwrap_or_default();
        let limiters = limiters.lines().filter_map(Counts::read).collect();
        Ok(Some(Member { id, program, version, host, pid, since_us, limiters }))
    }
}

/// Returns the name of the set and what the names of the hashes begin with. No value makes it the name of a limiter,
/// because a `~` in a value is escaped.
fn keys(key_prefix: &str) -> StateKeys {
    StateKeys::new(format!("{key_prefix}ratelimit:~members"))
}

/// A command on the keys of members.
struct About<'a, F> {
    keys: &'a StateKeys,
    command: F,
}

impl<F: Fn(&Live, bool) -> Cmd> Call for About<'_, F> {
    fn keys(&self) -> &StateKeys {
        self.keys
    }

    fn command(&self, live: &Live, by_name: bool) -> Cmd {
        (self.command)(live, by_name)
    }
}
