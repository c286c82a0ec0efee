//! Asks the store.

use super::{
    decide::{Asked, Replies},
    per_process::LOOK_EVERY_MS,
    plan::Part,
};
use crate::{
    Limits, StoreError,
    limits::{AnyStore, Inner},
    store::{Group, Outcome, Reply},
};

/// Asks the store for all claims at once, and takes note of its replies.
pub(super) async fn ask(limits: &Limits, asked: &[&Asked<'_>]) -> Result<Vec<Replies>, StoreError> {
    let inner = limits.inner();
    let parts: Vec<Vec<Part<'_>>> =
        asked.iter().map(|asked| asked.core.parts(asked.rule)).collect();
    let requests: Vec<_> = parts.iter().flatten().map(|part| part.request(inner)).collect();
    let costs =
        asked.iter().zip(&parts).flat_map(|(asked, parts)| parts.iter().map(|_| &asked.permits));
    let costs: Vec<&[u32]> = costs.map(std::slice::from_ref).collect();
    let asking: Vec<_> = asked.iter().map(|asked| asked.core.denials.asking()).collect();
    let group = Group { requests: &requests, costs: &costs };
    let decided = inner.store.decide(&[group]).await?.into_iter().next();
    let none = || Err(StoreError::unavailable("the store returned no reply"));
    let replies = decided.unwrap_or_else(none)?;
    let mut replies = replies.into_iter().map(|row| row.first().copied());
    let mut all = Vec::with_capacity(asked.len());
    for ((asked, parts), asking) in asked.iter().zip(&parts).zip(asking) {
        let each: Option<Vec<Reply>> = replies.by_ref().take(parts.len()).collect();
        let each = each.ok_or_else(|| StoreError::unavailable("the store returned no reply"))?;
        for (part, reply) in parts.iter().zip(&each) {
            part.core.observe(inner, part.rule, reply);
        }
        if inner.store.is_shared() {
            let heard = super::decide::next_refusal(&each);
            asked.core.denials.note(asking, &[asked.permits], &[heard]);
        } else {
            lease(inner, asked, &each);
        }
        all.push(Replies::new(each));
    }
    Ok(all)
}

/// Lets the next calls of a limiter of the embedded store be counted at once.
fn lease(limits: &Inner, asked: &Asked<'_>, each: &[Reply]) {
    let (AnyStore::Memory(store), [reply]) = (&limits.store, each) else { return };
    let ours = asked.numbers.follow || reply.config.same_limit(&asked.numbers.config);
    if ours && matches!(reply.outcome, Outcome::Granted | Outcome::Refused) {
        let core = asked.core;
        let slot = core.stored.get_or_init(|| store.slot(&core.keys));
        let until_ms = reply.now_ms + LOOK_EVERY_MS;
        slot.admit(core.lease(limits, asked.rule, reply.config, until_ms));
    }
}
