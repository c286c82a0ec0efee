//! Previews of a request, which take nothing.

use std::sync::Arc;

use ratelimit_spec::OnStoreError;

use super::{Outcome, Refusals, Side, Why, answer::Ready, recovery};
use crate::{
    Decision, Reason, Rejection, StoreError, StoreErrorKind,
    limiter::{
        core::{Core, Rule},
        per_process::{counted_here, local_share, look_here},
        plan::{Asked, Part},
        services::Services,
    },
    store::Reply,
};

/// How long the permits left count as known, in milliseconds.
const RECENT_MS: u64 = 1_000;

impl Core {
    /// Returns the result that a request would get now.
    pub(crate) async fn peek(
        self: &Arc<Self>,
        limits: &Arc<Services>,
        permits: u64,
    ) -> Result<Decision, Rejection> {
        let rule = self.rule(limits);
        // No request overtakes waiting callers.
        if !self.queue.is_empty()
            && !self.is_shadowed(limits)
            && let Ok(Ready::Ask(_, cost)) = self.ready_if(limits, &rule, permits, || false)
        {
            let after = self.earliest(limits, cost, limits.clock.now_ms(), None).max(1);
            return Err(self.not_before(limits, Reason::Limited, after));
        }
        self.peek_in_turn(limits, permits).await
    }

    /// The same for a request that no caller waits before.
    pub(in crate::limiter) async fn peek_in_turn(
        self: &Arc<Self>,
        limits: &Arc<Services>,
        permits: u64,
    ) -> Result<Decision, Rejection> {
        let rule = self.rule(limits);
        let why = match Box::pin(self.look(limits, &rule, permits)).await {
            Ok(decision) => return Ok(decision),
            Err(why) => why,
        };
        // A preview does not count as a call that shadow mode admitted.
        if let Some(decision) = self.in_shadow(limits, &rule, &why) {
            return Ok(decision);
        }
        Err(match why {
            Why::NotNow(refusal) => Rejection::refused(Reason::Limited, *refusal),
            Why::Rejected(rejection) => rejection,
        })
    }

    pub(super) async fn look(
        self: &Arc<Self>,
        limits: &Arc<Services>,
        rule: &Rule,
        permits: u64,
    ) -> Result<Decision, Why> {
        let ready = self.ready_if(limits, rule, permits, || true).map_err(Why::Rejected)?;
        let (numbers, cost) = match ready {
            Ready::Decided(decision) => return Ok(decision),
            Ready::Ask(numbers, cost) => (numbers, cost),
        };
        if let Some(shards) = rule.shards() {
            if let Some(rejection) = self.too_many_of_shards(limits, rule, permits).await {
                return Err(Why::Rejected(rejection));
            }
            return self.look_at_any(limits, shards, permits).await;
        }
        let here = self.is_counted_here(rule);
        let asked = Asked { position: 0, core: self, rule, numbers, permits: cost };
        if !here {
            match recovery::look_within_shares(limits, &asked).await {
                Ok(Some(each)) if each.iter().any(|reply| reply.outcome != Outcome::Granted) => {
                    return self.seen(rule, &each, cost, true);
                }
                Ok(_) => {}
                Err(error) => return self.look_without_store(limits, rule, cost, &error),
            }
        }
        let parts = self.parts(rule);
        let mut each = Vec::with_capacity(parts.len());
        let count = |part: &Part<'_>| {
            limits.per_client.look(&part.core.keys, counted_here(part.in_force()), cost)
        };
        for part in &parts {
            // The store has yet to compare a configuration that was not announced.
            let known = part.core.in_force().is_some() && part.core.is_stated(part.rule);
            each.push(if here && known {
                count(part)
            } else {
                match limits.store.peek(&part.request(limits), cost).await {
                    Ok(reply) if reply.outcome == Outcome::PerClient => {
                        look_here(limits, part.core, &reply, cost)
                    }
                    Ok(reply) => {
                        if limits.store.is_shared() {
                            part.core.hear_left(&reply, limits.clock.now_ms());
                        }
                        reply
                    }
                    Err(_) if here => count(part),
                    Err(error) => return self.look_without_store(limits, rule, cost, &error),
                }
            });
        }
        self.seen(rule, &each, cost, false)
    }

    /// Returns whether a shared store had the permits a moment ago, so that it need not be asked for each rejected call.
    fn had_room(&self, limits: &Services, rule: &Rule, permits: u32) -> bool {
        let now = limits.clock.now_ms();
        let had = |core: &Self| {
            let left = core.left().filter(|left| now < left.heard_ms.saturating_add(RECENT_MS));
            left.is_some_and(|left| left.permits >= permits.into())
        };
        match rule.shards() {
            Some(shards) => shards.iter().any(|shard| had(shard)),
            None => self.each_part(rule).all(|part| had(part.core)),
        }
    }

    fn seen(
        &self,
        rule: &Rule,
        each: &[Reply],
        permits: u32,
        degraded: bool,
    ) -> Result<Decision, Why> {
        let heard = self.heard(rule, each, degraded);
        match heard.reply.outcome {
            Outcome::Granted => Ok(self.decision(&heard, degraded)),
            _ => Err(self.refused_by(&heard, permits, degraded)),
        }
    }

    fn look_without_store(
        self: &Arc<Self>,
        limits: &Arc<Services>,
        rule: &Rule,
        permits: u32,
        error: &StoreError,
    ) -> Result<Decision, Why> {
        let refuse = |reason| Why::Rejected(self.rejection(reason).with_source(error));
        if error.kind() == StoreErrorKind::Misconfigured {
            return Err(refuse(Reason::StoreMisconfigured));
        }
        let numbers = rule.numbers.as_ref().map_err(|_| refuse(Reason::StoreUnavailable))?;
        match numbers.effective.set.on_store_error() {
            OnStoreError::Reject => Err(refuse(Reason::StoreUnavailable)),
            OnStoreError::Allow => Ok(self.unlimited(limits).without_store()),
            OnStoreError::Local => {
                limits.local.begin(limits, self, rule);
                let each = self.look_at_shares(limits, rule, permits);
                self.seen(rule, &each, permits, true)
            }
        }
    }

    /// Returns what this process's share of each limit would reply to a request.
    pub(super) fn look_at_shares(
        &self,
        limits: &Services,
        rule: &Rule,
        permits: u32,
    ) -> Vec<Reply> {
        let look = |part: Part<'_>| {
            let share = local_share(limits, part.in_force());
            limits.local.counts.look(&part.core.keys, share, permits)
        };
        self.each_part(rule).map(look).collect()
    }

    async fn look_at_any(
        &self,
        limits: &Arc<Services>,
        shards: &[Arc<Self>],
        permits: u64,
    ) -> Result<Decision, Why> {
        let (mut best, mut remaining) = (None::<Result<Decision, Why>>, 0);
        for shard in shards {
            let rule = shard.rule(limits);
            let one = Box::pin(shard.look(limits, &rule, permits)).await;
            remaining += match &one {
                Ok(decision) => decision.remaining,
                Err(Why::NotNow(refusal)) => refusal.remaining,
                Err(Why::Rejected(_)) => 0,
            };
            best = Some(match (best, one) {
                (Some(Err(before)), Err(why)) => Err(before.sooner(why)),
                (Some(Ok(before)), Ok(decision)) => {
                    let reset_after = before.reset_after.max(decision.reset_after);
                    Ok(Decision { reset_after, ..before })
                }
                (Some(Ok(before)), Err(_)) => Ok(before),
                (_, one) => one,
            });
        }
        let why = match best {
            Some(Ok(decision)) => return Ok(Decision { remaining, ..self.of_whole(decision) }),
            Some(Err(Why::NotNow(refusal))) => {
                Why::NotNow(Box::new(Decision { remaining, ..*refusal }))
            }
            Some(Err(why)) => why,
            None => Why::Rejected(self.unknown()),
        };
        Err(self.of_all_shards(why, permits, shards.len()))
    }
}

/// Returns the name of the first limiter of a step.
fn name_of<'a>(asked: &[Asked<'a>]) -> &'a str {
    asked[0].core.keys.config()
}

/// Returns whether [`ahead`] does not look at a step of this side.
pub(super) fn is_later(side: Side, waiting: bool) -> bool {
    !waiting && side != Side::Process
}

/// Rejects a call that a later step would reject. Permits of an earlier step that are released again are not
/// free for other callers meanwhile, and the slot of a bucket may be lost. While no call is waiting, this
/// checks only what needs no store.
pub(super) async fn ahead(
    limits: &Arc<Services>,
    steps: &mut [(Side, Vec<Asked<'_>>)],
    waiting: bool,
) -> Result<(), Refusals> {
    if waiting {
        // In one order for all calls, so that none holds what another one takes next.
        steps.sort_by(|(_, one), (_, other)| name_of(one).cmp(name_of(other)));
    } else {
        steps.sort_by_key(|(side, _)| *side == Side::Process);
    }
    let mut refusals = Refusals::new();
    for (side, asked) in of_sides(&steps[1..], |side| !is_later(side, waiting)) {
        refusals.extend(look_ahead(limits, side, asked).await.map(|why| (asked.position, why)));
    }
    if refusals.is_empty() {
        return Ok(());
    }
    let mut left = of_sides(&steps[..1], |_| true);
    left.extend(of_sides(&steps[1..], |side| is_later(side, waiting)));
    Err(others(limits, left, refusals).await)
}

/// Returns the claims of the steps of some sides.
pub(super) fn of_sides<'s, 'a>(
    steps: &'s [(Side, Vec<Asked<'a>>)],
    of_side: impl Fn(Side) -> bool,
) -> Vec<(Side, &'s Asked<'a>)> {
    let mut all = Vec::new();
    for (side, asked) in steps.iter().filter(|(side, _)| of_side(*side)) {
        all.extend(asked.iter().map(|asked| (*side, asked)));
    }
    all
}

/// Adds those claims of a rejected call that would be rejected too: it waits for all of them.
pub(super) async fn others(
    limits: &Arc<Services>,
    claims: Vec<(Side, &Asked<'_>)>,
    mut refusals: Refusals,
) -> Refusals {
    for (side, asked) in claims {
        if side != Side::Process && asked.core.had_room(limits, asked.rule, asked.permits) {
            continue;
        }
        if let Some(why @ Why::NotNow(_)) = look_ahead(limits, side, asked).await {
            refusals.push((asked.position, why));
        }
    }
    refusals
}

/// Returns why a limiter would reject a call, unless only shadow mode admits it then.
async fn look_ahead(limits: &Arc<Services>, side: Side, asked: &Asked<'_>) -> Option<Why> {
    let Asked { core, rule, permits, .. } = asked;
    if side == Side::Process {
        for part in core.parts(rule) {
            part.look_in_turn(limits).await;
        }
    }
    let why = core.look(limits, rule, (*permits).into()).await.err()?;
    core.in_shadow(limits, rule, &why).is_none().then_some(why)
}
