//! Sends heartbeats to the other processes that share a store.

use std::{
    cmp::Reverse,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use super::Limits;
use crate::{
    StoreErrorKind, clock,
    events::Event,
    limiter::Services,
    members::LIVES,
    registry::Registry,
    store::{Counts, Heartbeat, RedisStore},
};

/// The heartbeat interval, and the interval after the start, from which it grows: processes that
/// start together know of each other after their second heartbeats.
const EVERY: Duration = Duration::from_secs(10);
const AT_FIRST: Duration = Duration::from_secs(1);
/// The maximum number of templates with counts in a heartbeat: those with the most calls.
const BUSIEST: usize = 64;

/// Sends heartbeats as long as the limits exist.
pub(super) fn start(limits: &Limits) {
    let (weak, made) = (Arc::downgrade(limits.services()), Arc::downgrade(&limits.made));
    limits.services().engine.spawn_endless(async move {
        let mut process = Process::this();
        let mut wait = AT_FIRST;
        loop {
            tokio::time::sleep(wait).await;
            let Some(services) = weak.upgrade() else { return };
            if let Some(made) = made.upgrade() {
                process.limiters = busiest(&made.registry);
            }
            process.beat(&services).await;
            wait = clock::instant().duration_since(services.members.since).clamp(AT_FIRST, EVERY);
        }
    });
}

/// Removes this process from those that share the store.
pub(super) async fn leave(limits: &Services) {
    let process = Process::default();
    if let Some((store, heartbeat)) = process.heartbeat(limits) {
        // If this fails, the heartbeats expire.
        let _ = store.leave(&heartbeat).await;
    }
}

/// Returns the counts of the busiest limiters, one line each.
fn busiest(registry: &Registry) -> String {
    let mut all: Vec<_> = registry
        .families()
        .into_iter()
        .map(|family| {
            let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            let tally = &family.tally;
            let counts = Counts {
                admitted: tally.allowed.get(),
                rejected: tally.rejections(),
                waiting: count(&tally.waiting),
                degraded: count(&tally.degraded),
            };
            (counts, family)
        })
        .filter(|(counts, _)| *counts != Counts::default())
        .collect();
    all.sort_by_cached_key(|(counts, family)| {
        let calls = counts.admitted.saturating_add(counts.rejected).saturating_add(counts.waiting);
        (Reverse(calls), Arc::clone(&family.key))
    });
    all.iter().take(BUSIEST).map(|(counts, family)| counts.line(&family.key)).collect()
}

/// The name of this process, and its counts.
#[derive(Default)]
struct Process {
    program: String,
    limiters: String,
}

impl Process {
    fn this() -> Self {
        let path = std::env::current_exe().ok();
        let name = path.as_deref().and_then(|path| path.file_name());
        let program = name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Self { program, ..Self::default() }
    }

    /// Returns a heartbeat and the store for it, or `None` if no other process can share the store.
    fn heartbeat<'a>(&'a self, limits: &'a Services) -> Option<(&'a RedisStore, Heartbeat<'a>)> {
        let heartbeat = Heartbeat {
            key_prefix: &limits.key_prefix,
            id: limits.current().member()?,
            program: &self.program,
            since: limits.members.since,
            lives_ms: clock::whole_ms(LIVES),
            limiters: &self.limiters,
        };
        Some((limits.store.shared()?, heartbeat))
    }

    async fn beat(&self, limits: &Services) {
        let members = &limits.members;
        let Some((store, heartbeat)) = self.heartbeat(limits) else { return };
        match store.heartbeat(&heartbeat).await {
            Ok(alive) => members.learn(heartbeat.id, alive),
            Err(error)
                if error.kind() == StoreErrorKind::Misconfigured && store.health().is_ok() =>
            {
                if members.forbid() {
                    limits.events.emit(&Event::MembersUnavailable { error });
                }
            }
            // The members read before stay valid for a while.
            Err(_) => {}
        }
        store.check_late().await;
    }
}
