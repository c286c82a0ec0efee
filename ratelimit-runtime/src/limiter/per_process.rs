//! `per_client` limiters: permits are counted in this process, and only the configuration is stored.

use ratelimit_spec::Mode;

use super::{
    core::{Core, Rule},
    plan::{Asked, Part},
    replies::{Each, Replies},
    services::Services,
};
use crate::{
    Reason, Rejection, clock,
    store::{Config, MemoryStore, Reconciled, Reply},
};

/// Takes permits in this process, from all limiters or from none, and refreshes their stored
/// configurations periodically. Returns `None` if the store counts one of them again, or an error
/// with the position of a claim whose configuration is not known.
pub(super) async fn take(
    limits: &Services,
    asked: &[&Asked<'_>],
) -> Option<Result<Vec<Replies>, (usize, Rejection)>> {
    let mut looked = true;
    for asked in asked {
        for part in asked.core.parts(asked.rule) {
            looked &= part.look_in_turn(limits).await;
            if part.known().is_none() {
                // Neither this process nor the store configures the limiter, or the store did not reply.
                let unavailable = asked.core.rejection(Reason::StoreUnavailable);
                let why = if looked { asked.core.unknown() } else { unavailable };
                return Some(Err((asked.position, why)));
            }
            if part.in_force().mode != Mode::PerClient {
                return None;
            }
        }
    }
    if let [asked] = asked
        && looked
        && !asked.rule.is_joint()
        && asked.core.is_stated(asked.rule)
    {
        let core = asked.core;
        let config = counted_here(core.in_force().unwrap_or(asked.numbers.config));
        let rare = core.rare();
        let slot = rare.own.get_or_init(|| limits.per_client.slot(&core.keys));
        let lease = asked.rule.lease(&core.family, config, rare.looks.due_ms());
        slot.admit(lease, || core.queue.is_empty());
    }
    let counted = count(&limits.per_client, asked, counted_here).into_iter();
    Some(Ok(counted.map(Replies::new).collect()))
}

/// Takes permits in a store of this process, from all limiters or from none, under their active
/// configurations mapped by `numbers`. Returns the replies to each claim.
pub(super) fn count(
    store: &MemoryStore,
    asked: &[&Asked<'_>],
    numbers: impl Fn(Config) -> Config,
) -> Vec<Each> {
    let parts: Vec<Vec<Part<'_>>> =
        asked.iter().map(|asked| asked.core.parts(asked.rule)).collect();
    let limiters: Vec<_> =
        parts.iter().flatten().map(|part| (&part.core.keys, numbers(part.in_force()))).collect();
    let costs: Vec<u32> = asked
        .iter()
        .zip(&parts)
        .flat_map(|(asked, parts)| parts.iter().map(|_| asked.permits))
        .collect();
    let mut replies = store.count_jointly(&limiters, &costs).into_iter();
    parts.iter().map(|parts| replies.by_ref().take(parts.len()).collect()).collect()
}

impl Core {
    /// Returns whether each process counts the limiter by itself.
    pub(super) fn is_counted_here(&self, rule: &Rule) -> bool {
        let mut parts = self.each_part(rule).peekable();
        parts.peek().is_some() && parts.all(|part| part.in_force().mode == Mode::PerClient)
    }
}

impl Part<'_> {
    /// Refreshes the stored configuration, one caller at a time for the first refresh; returns
    /// `false` if that failed.
    pub(super) async fn look_in_turn(&self, limits: &Services) -> bool {
        if self.core.is_stated(self.rule) {
            return self.look(limits).await;
        }
        // The caller that holds the lock may never be polled again.
        let first = self.core.rare().looks.first.lock();
        match clock::timeout(&limits.engine, limits.deadline, first).await {
            Ok(_looking) => self.look(limits).await,
            Err(_) => false,
        }
    }

    /// Refreshes the stored configuration if that is due; returns `false` if it failed. A refresh
    /// extends its keep-alive.
    async fn look(&self, limits: &Services) -> bool {
        let request = self.request(limits);
        let keep_alive_ms = request.config.keep_alive_ms;
        let stated = self.core.is_stated(self.rule);
        if !self.core.rare().looks.begin(limits.clock.now_ms(), stated, keep_alive_ms) {
            return true;
        }
        match limits.store.assert(&request).await {
            Ok(reply) => {
                self.observe(limits, &reply);
                true
            }
            Err(_) => false,
        }
    }
}

/// Returns what this process would reply to a request, if the store replied that each process counts.
pub(super) fn look_here(limits: &Services, core: &Core, stored: &Reply, permits: u32) -> Reply {
    let config = counted_here(stored.config);
    match stored.reconciled {
        Some(Reconciled::Reset) => limits.per_client.look_at_new(config, permits),
        _ => limits.per_client.look(&core.keys, config, permits),
    }
}

/// Returns the configuration for counting within one process, regardless of the limiter's mode.
pub(super) fn counted_here(config: Config) -> Config {
    Config { mode: Mode::Overall, ..config }
}

/// Returns the share of a quota that this process may grant while the store is unavailable.
pub(super) fn local_share(limits: &Services, config: Config) -> Config {
    counted_here(config).shared_by(limits.instances())
}
