//! Checks before the first call.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use super::{
    RedisStore,
    fault::{Fault, classify, refused},
    line::Line,
    script::CHECK,
};
use crate::{StoreError, StoreErrorKind, clock, events::Event, home::Home, store::StateKeys};

impl RedisStore {
    /// Checks for problems that would otherwise appear in the middle of a script: commands that the user may
    /// not run, and settings under which limits cannot hold. An unavailable server is not an error: it is
    /// reported as an event, and `on_store_error` decides until it is available again.
    pub(crate) async fn check(&self, key_prefix: &str) -> Result<(), StoreError> {
        let keys = StateKeys::new(format!("{key_prefix}ratelimit-check-{}", std::process::id()));
        let limit = self.link.deadline.max(Duration::from_secs(2));
        let line = self.link.line();
        let checked = clock::timeout(self.link.engine(), limit, async {
            let live = self.link.live(&line, &keys).await?;
            // By name and by text, because a server that knows the scripts forgets them when it restarts.
            let [by_name, by_text] = [true, false].map(|by_name| CHECK.on(&keys, by_name));
            let (named, reply) = tokio::join!(live.query(&by_name), live.query(&by_text));
            let complaints = match named {
                Err(error) if error.code() != Some("NOSCRIPT") => Err(error),
                _ => reply.and_then(|reply| Ok(redis::from_redis_value::<Vec<String>>(reply)?)),
            };
            match complaints.map_err(|error| classify(&error)) {
                Ok(complaints) => {
                    if let Some(error) = refused(&complaints) {
                        return Err(error);
                    }
                }
                Err(Fault::Permanent(error) | Fault::Transient(error)) => return Err(error),
                Err(Fault::NotDone(_)) => {}
            }
            Ok(())
        });
        let no_answer = |_| Err(StoreError::timeout("redis: no reply at startup"));
        if let Err(error) = checked.await.unwrap_or_else(no_answer) {
            if error.kind() == StoreErrorKind::Misconfigured {
                return Err(error);
            }
            self.link.close(&keys, self.with_advice_on_tls(error), None);
            if !self.link.gates.are_of_a_cluster() {
                return Ok(());
            }
        }
        // A node that does not reply affects its own calls only.
        let _ = clock::timeout(self.link.engine(), limit, self.warn_of_eviction(&line)).await;
        Ok(())
    }

    /// Adds advice to the error of a server that replied nothing: it may expect TLS, or not.
    fn with_advice_on_tls(&self, error: StoreError) -> StoreError {
        let text = error.to_string();
        let has = |marks: [&str; 2]| marks.iter().any(|mark| text.contains(mark));
        let is_timeout = has(["no reply", "timed out"]);
        if !is_timeout && !has(["reset by peer", "end of file"]) {
            return error;
        }
        let Some(advice) = self.link.address.advice_on_tls(is_timeout) else { return error };
        let new = match error.kind() {
            StoreErrorKind::Timeout => StoreError::timeout,
            _ => StoreError::unavailable,
        };
        new(format!("{text}{advice}")).caused_by(error)
    }

    /// Warns of eviction if the check could not: no server replied then, or no limits were installed.
    pub(crate) async fn check_late(&self) {
        // Whether a server is back is for the probes to find out.
        if self.is_checked.load(Ordering::Relaxed) || self.health().is_err() {
            return;
        }
        let (line, deadline) = (self.link.line(), self.link.deadline);
        let _ = clock::timeout(self.link.engine(), deadline, self.warn_of_eviction(&line)).await;
    }

    /// Connects to all servers, and warns once of each policy by which one of them evicts keys.
    async fn warn_of_eviction(&self, line: &Arc<Home<Line>>) {
        let mut replies = self.link.ask_servers(line, redis::cmd("INFO").arg("memory"));
        let mut reported = BTreeSet::new();
        while let Some(reply) = replies.join_next().await {
            let Ok(Some(reply)) = reply else { continue };
            let text = reply.and_then(|reply| Ok(redis::from_redis_value::<String>(reply)?));
            let text = text.map_err(|error| classify(&error));
            // Without permission for this command, only the warning is missing. If all fail otherwise, it is sent again.
            if matches!(text, Ok(_) | Err(Fault::Permanent(_))) {
                self.is_checked.store(true, Ordering::Relaxed);
            }
            let Ok(text) = text else { continue };
            let policy = text.lines().find_map(|line| line.strip_prefix("maxmemory_policy:"));
            if let Some(policy) = policy.map(str::trim)
                && policy != "noeviction"
                && reported.insert(policy.to_owned())
            {
                self.events.emit(&Event::EvictionPossible { policy: policy.to_owned() });
            }
        }
    }
}
