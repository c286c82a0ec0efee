//! Checks before the first call.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::task::JoinSet;

use super::{
    RedisStore,
    address::Topology,
    connect::UNREACHED_MASTER,
    fault::{Fault, classify, refused},
    line::Line,
    link::Link,
    script::CHECK,
};
use crate::{StoreError, StoreErrorKind, clock, events::Event, home::Home, store::StateKeys};

impl RedisStore {
    /// Checks for problems that would otherwise appear in the middle of a script: commands that the user may
    /// not run on some node, and settings under which limits cannot hold. An unavailable server is not an error: it is
    /// reported as an event, and `on_store_error` decides until it is available again.
    pub(crate) async fn check(&self, key_prefix: &str) -> Result<(), StoreError> {
        let name = format!("{key_prefix}ratelimit-check-{}", std::process::id());
        let limit = self.link.deadline.max(Duration::from_secs(2));
        let line = self.link.line();
        if self.link.gates.are_of_a_cluster() {
            let look = clock::timeout(self.link.engine(), limit, self.link.look_for_nodes(&line));
            if let Err(error) = look.await.unwrap_or_else(no_reply) {
                return self.close_unless_misconfigured(&StateKeys::new(name), error);
            }
        }
        let commands = self.check_commands(&line, &name, limit);
        let eviction = async {
            // A node that does not reply affects its own calls only.
            let _ = clock::timeout(self.link.engine(), limit, self.warn_of_eviction(&line)).await;
            Ok(())
        };
        tokio::try_join!(commands, eviction).map(drop)
    }

    /// Tries the commands of the scripts on each node. An error names the node, unless all have it.
    async fn check_commands(
        &self,
        line: &Arc<Home<Line>>,
        name: &str,
        limit: Duration,
    ) -> Result<(), StoreError> {
        let mut checks = JoinSet::new();
        for keys in self.link.keys_on_each_node(name) {
            let (link, of) = (Arc::clone(&self.link), Arc::clone(line));
            let check = async move {
                let checked = clock::timeout(link.engine(), limit, check(&link, &of, &keys)).await;
                (checked.unwrap_or_else(no_reply), keys)
            };
            // The caller may have no runtime.
            checks.spawn_on(check, line.runtime());
        }
        let (nodes, mut refusals) = (checks.len(), Vec::new());
        while let Some(checked) = checks.join_next().await {
            if let Ok((Err(error), keys)) = checked
                && let Err(error) = self.close_unless_misconfigured(&keys, error)
            {
                refusals.push((keys, error));
            }
        }
        let is_of_one = refusals.len() < nodes;
        let Some((keys, error)) = refusals.pop() else { return Ok(()) };
        let node = self.link.gates.node_of(&keys).filter(|_| is_of_one);
        let Some(node) = node else { return Err(error) };
        let text = error.to_string();
        let text = text.strip_prefix("redis: ").unwrap_or(&text);
        let text = format!("redis at {}: {text}", node.address);
        Err(StoreError::misconfigured(text).caused_by(error))
    }

    fn close_unless_misconfigured(
        &self,
        keys: &StateKeys,
        error: StoreError,
    ) -> Result<(), StoreError> {
        if error.kind() == StoreErrorKind::Misconfigured {
            return Err(error);
        }
        self.link.close(keys, self.with_advice(keys, error), None);
        Ok(())
    }

    /// Adds advice to the error of a server that was not reached, or that replied nothing.
    fn with_advice(&self, keys: &StateKeys, error: StoreError) -> StoreError {
        let advice = self.advice_on_announced(keys).or_else(|| self.advice_on_tls(&error));
        let advice = advice.or_else(|| self.advice_on_master(&error));
        let Some(advice) = advice else { return error };
        let text = format!("{error}{advice}");
        error.reworded(text)
    }

    /// Returns what to set if the node of these keys was not reached at the address that the cluster announces.
    fn advice_on_announced(&self, keys: &StateKeys) -> Option<String> {
        let node = self.link.gates.node_of(keys)?;
        let is_seed = self.link.address.seeds().any(|seed| seed == node.address);
        (!is_seed && !self.link.is_connected(keys)).then(|| {
            "; if clients reach this node at another address, make it announce that one with \
             `cluster-announce-ip` and `cluster-announce-port`, or with `cluster-announce-hostname`"
                .to_owned()
        })
    }

    /// Returns what to set if it was the master that was not reached, at the address that the sentinels announce.
    fn advice_on_master(&self, error: &StoreError) -> Option<String> {
        let text = error.to_string();
        let cause = text.strip_prefix("redis: ");
        let is_of_master = cause.is_some_and(|cause| cause.starts_with(UNREACHED_MASTER));
        let is_found = matches!(self.address().topology, Topology::Sentinel { .. });
        (is_found && is_of_master).then(|| {
            "; if it is up, make the sentinels monitor it at an address that clients can reach"
                .to_owned()
        })
    }

    /// Returns what to write if the server replied nothing: it may expect TLS, or not.
    fn advice_on_tls(&self, error: &StoreError) -> Option<String> {
        let text = error.to_string();
        let has = |marks: &[&str]| marks.iter().any(|mark| text.contains(mark));
        let is_timeout = has(&["no reply", "timed out"]);
        let is_closed = has(&["reset by peer", "end of file", "broken pipe"]);
        (is_timeout || is_closed).then(|| self.link.address.advice_on_tls(is_timeout)).flatten()
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

/// Tries the commands of the scripts on the node of these keys.
async fn check(
    link: &Arc<Link>,
    line: &Arc<Home<Line>>,
    keys: &StateKeys,
) -> Result<(), StoreError> {
    let live = link.live(line, keys).await?;
    // A call to a single server may have keys of several limiters, which a node of a cluster rejects.
    let other = StateKeys::new(format!("{}-other", keys.config()));
    let all = [keys, &other];
    let all = if link.gates.are_of_a_cluster() { &all[..1] } else { &all };
    // By name and by text, because a server that knows the scripts forgets them when it restarts.
    let [by_name, by_text] =
        [true, false].map(|by_name| CHECK.on_all(all.len(), all.iter().copied(), by_name));
    let (named, reply) = tokio::join!(live.query(&by_name), live.query(&by_text));
    let complaints = match named {
        Err(error) if error.code() != Some("NOSCRIPT") => Err(error),
        _ => reply.and_then(|reply| Ok(redis::from_redis_value::<Vec<String>>(reply)?)),
    };
    match complaints.map_err(|error| classify(&error)) {
        Ok(complaints) => refused(&complaints).map_or(Ok(()), Err),
        Err(Fault::Permanent(error) | Fault::Transient(error)) => Err(error),
        Err(Fault::NotDone(_)) => Ok(()),
    }
}

fn no_reply<T>(_: clock::Elapsed) -> Result<T, StoreError> {
    Err(StoreError::timeout("redis: no reply at startup"))
}
