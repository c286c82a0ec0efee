//! Decides while the store is unavailable.

use std::sync::Arc;

use ratelimit_spec::OnStoreError;

use super::{Granted, Refusals, Why, outcome};
use crate::{
    Reason, Rejection, StoreError, StoreErrorKind,
    events::Event,
    limiter::{
        Core,
        per_process::{count, counted_here, local_share},
        plan::Asked,
        replies::Replies,
        services::Services,
        taken::Source,
    },
    store::{AnyStore, Outcome},
};

/// Applies each limiter's policy, because the store did not decide.
pub(super) fn without_store(
    limits: &Arc<Services>,
    asked: &[&Asked<'_>],
    error: &StoreError,
) -> Result<Vec<Granted>, Refusals> {
    let misconfigured = error.kind() == StoreErrorKind::Misconfigured;
    let (mut granted, mut refusals) = (Vec::new(), Refusals::new());
    let mut local = Vec::new();
    for (n, asked) in asked.iter().enumerate() {
        let core = asked.core;
        let refuse =
            |reason| (asked.position, Why::Rejected(core.rejection(reason).with_source(error)));
        if misconfigured {
            core.complain(limits, error.clone());
            refusals.push(refuse(Reason::StoreMisconfigured));
            continue;
        }
        match asked.numbers.effective.set.on_store_error() {
            OnStoreError::Reject => refusals.push(refuse(Reason::StoreUnavailable)),
            OnStoreError::Allow => {
                let decision = core.unlimited(limits).without_store();
                granted.push((n, Granted::free(core, decision)));
            }
            OnStoreError::Local => local.push(n),
        }
    }
    if !refusals.is_empty() {
        return Err(refusals);
    }
    let counted: Vec<&Asked<'_>> = local.iter().map(|n| asked[*n]).collect();
    let by_share = outcome(&counted, count_locally(limits, &counted), Source::Local)?;
    if error.is_in_doubt() {
        for asked in counted {
            for part in asked.core.each_part(asked.rule) {
                limits.local.excuse(limits, &part, |known, share, now| {
                    known.acquire(share, asked.permits.into(), now);
                });
            }
        }
    }
    granted.extend(local.into_iter().zip(by_share));
    granted.sort_by_key(|(n, _)| *n);
    Ok(granted.into_iter().map(|(_, granted)| granted).collect())
}

/// Counts in this process, against its share of the quotas.
fn count_locally(limits: &Arc<Services>, asked: &[&Asked<'_>]) -> Vec<Result<Replies, Rejection>> {
    for asked in asked {
        limits.local.begin(limits, asked.core, asked.rule);
    }
    let counted = count(&limits.local.counts, asked, |config| local_share(limits, config));
    let each = asked.iter().zip(counted).map(|(asked, each)| {
        if each.iter().any(|reply| reply.outcome == Outcome::ExceedsCapacity) {
            let is_known = asked.core.each_part(asked.rule).all(|part| part.known().is_some());
            let why = if is_known {
                "the call costs more than this process's share of the quota"
            } else {
                "this process does not know the quota"
            };
            let why = format!("the store is unavailable, and {why}");
            return Err(asked.core.rejection(Reason::StoreUnavailable).with_detail(why));
        }
        Ok(Replies { degraded: true, ..Replies::new(each) })
    });
    each.collect()
}

impl Core {
    /// Counts a call that cannot be rejected in this process, because its store is misconfigured or the limits are
    /// shut down; `None` if its permits are not free.
    pub(in crate::limiter) fn without_store_at_all(
        self: &Arc<Self>,
        limits: &Arc<Services>,
        permits: u64,
    ) -> Option<Granted> {
        let permits = u32::try_from(permits).ok()?;
        let rule = self.rule(limits);
        let numbers = rule.numbers.as_ref().ok()?;
        let asked = Asked { position: 0, core: self, rule: &rule, numbers, permits };
        // What this process counts in any case needs no share.
        let counted = match &limits.store {
            _ if self.is_counted_here(&rule) => Some((&limits.per_client, Source::Process)),
            AnyStore::Memory(store) if store.health().is_ok() => Some((store, Source::Store)),
            AnyStore::Memory(_) | AnyStore::Redis(_) => None,
        };
        let (replies, source) = match counted {
            None => (count_locally(limits, &[&asked]), Source::Local),
            Some((store, source)) => {
                let each = count(store, &[&asked], counted_here).into_iter();
                let degraded = |each| Ok(Replies { degraded: true, ..Replies::new(each) });
                (each.map(degraded).collect(), source)
            }
        };
        match outcome(&[&asked], replies, source) {
            Ok(granted) => granted.into_iter().next(),
            Err(refusals) => {
                let (_, why) = refusals.into_iter().next()?;
                self.shadowed(limits, &rule, &why)
            }
        }
    }

    /// Reports that the limiter cannot be counted as configured.
    pub(in crate::limiter) fn complain(&self, limits: &Services, error: StoreError) {
        let limiter = Arc::clone(&self.family.key);
        limits.events.emit(&Event::Misconfigured { limiter, error });
    }
}
