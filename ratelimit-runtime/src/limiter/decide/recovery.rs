//! Decides after the store has become available again, while other processes may not have noticed.
//!
//! The other processes still grant their shares, which the store learns when they return. Until then this process
//! takes no more than its own share from the store either.

use std::sync::Arc;

use ratelimit_spec::OnStoreError;
use tokio::time::Instant;

use super::{Granted, Refusals, outcome, policy, replied};
use crate::{
    StoreError, clock,
    limiter::{
        batch,
        core::{Core, Rule},
        outage::Refused,
        per_process::{count, local_share},
        plan::Asked,
        replies::{Each, Replies},
        services::Services,
        taken::Source,
    },
    store::{Grant, Outcome, Reply},
};

/// Returns until when a call is limited to the shares of its limiters; `None` if it is not.
pub(super) fn until(limits: &Services, asked: &[&Asked<'_>]) -> Option<Instant> {
    let by_share =
        |asked: &&Asked<'_>| asked.numbers.effective.set.on_store_error() == OnStoreError::Local;
    let until = asked.iter().filter_map(|asked| limits.recovers_until(&asked.core.keys)).max()?;
    asked.iter().all(by_share).then_some(until)
}

/// Takes from the shares of all claims, then from the store: by the deadline of the call, which also
/// waits for what an outage granted to be charged.
pub(super) async fn within_shares(
    limits: &Arc<Services>,
    asked: &[&Asked<'_>],
    until: Instant,
) -> Result<Vec<Granted>, Refusals> {
    let due = clock::instant() + limits.deadline;
    if let Err(error) = keep(limits, asked, until, due).await {
        return policy::without_store(limits, asked, &error);
    }
    let shares = count(&limits.local.counts, asked, |config| local_share(limits, config));
    let outcomes = |outcome| move |reply: &Reply| reply.outcome == outcome;
    let mut replies = shares.iter().flat_map(|each| each.iter());
    if replies.clone().any(outcomes(Outcome::ExceedsCapacity)) {
        // No share has that many permits.
        return replied(limits, asked, by(due, limits, batch::ask(limits, asked)).await);
    }
    if !replies.all(outcomes(Outcome::Granted)) {
        let degraded = |each| Ok(Replies { degraded: true, ..Replies::new(each) });
        return outcome(asked, shares.into_iter().map(degraded).collect(), Source::Local);
    }
    let mut taken = Shares { limits, asked, shares };
    let replies = by(due, limits, batch::ask(limits, asked)).await;
    if replies.as_ref().is_ok_and(|replies| replies.iter().all(Replies::grant)) {
        taken.shares.clear();
    }
    // Without the store, the policy takes from the share again.
    drop(taken);
    replied(limits, asked, replies)
}

/// Returns what the shares reply to a call that takes nothing; `None` if the store alone decides it.
pub(super) async fn look_within_shares(
    limits: &Arc<Services>,
    asked: &Asked<'_>,
) -> Result<Option<Vec<Reply>>, StoreError> {
    let Some(until) = until(limits, &[asked]) else { return Ok(None) };
    keep(limits, &[asked], until, clock::instant() + limits.deadline).await?;
    let shares = asked.core.look_at_shares(limits, asked.rule, asked.permits);
    let exceeds = |reply: &Reply| reply.outcome == Outcome::ExceedsCapacity;
    Ok((!shares.iter().any(exceeds)).then_some(shares))
}

impl Core {
    /// Returns the permits that this process's shares have left; `None` if a call is not limited to them.
    pub(in crate::limiter) async fn left_of_shares(
        self: &Arc<Self>,
        limits: &Arc<Services>,
        rule: &Rule,
    ) -> Result<Option<u64>, StoreError> {
        let Ok(numbers) = &rule.numbers else { return Ok(None) };
        if self.is_counted_here(rule) {
            return Ok(None);
        }
        let asked = Asked { position: 0, core: self, rule, numbers, permits: 1 };
        let shares = look_within_shares(limits, &asked).await?;
        Ok(shares.into_iter().flatten().map(|share| share.remaining).min())
    }
}

/// Counts all limits of a call in this process too from now on.
async fn keep(
    limits: &Arc<Services>,
    asked: &[&Asked<'_>],
    until: Instant,
    due: Instant,
) -> Result<(), StoreError> {
    let cores = asked.iter().flat_map(|asked| asked.core.each_part(asked.rule));
    // Otherwise the permits of this call would later be charged as if the store had not granted them.
    if let Some(charging) = limits.local.charge_first(limits, cores.map(|part| part.core)) {
        by(due, limits, charging).await.and_then(Refused::any)?;
    }
    asked.iter().for_each(|asked| limits.local.keep(limits, asked, until));
    Ok(())
}

async fn by<T>(
    due: Instant,
    limits: &Services,
    asking: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let left = due.saturating_duration_since(clock::instant());
    let replied = clock::timeout(&limits.engine, left, asking).await;
    replied.unwrap_or_else(|_| Err(StoreError::late(limits.deadline)))
}

/// The permits that a call took from shares. Released unless the store grants the call too.
struct Shares<'a> {
    limits: &'a Services,
    asked: &'a [&'a Asked<'a>],
    shares: Vec<Each>,
}

impl Drop for Shares<'_> {
    fn drop(&mut self) {
        for (asked, each) in self.asked.iter().zip(&self.shares) {
            for (part, reply) in asked.core.each_part(asked.rule).zip(each.iter()) {
                let (share, grant) = (reply.config, Grant::of(reply, asked.permits, 0));
                self.limits.local.counts.give_back_counted(&part.core.keys, share, &grant);
            }
        }
    }
}
