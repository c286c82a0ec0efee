//! One request to the store for the callers of some limiters, and what becomes of its replies.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::sync::oneshot;

use crate::{
    Limits, StoreError,
    limiter::{
        Core,
        looks::LOOK_EVERY_MS,
        plan::{Asked, Part},
        replies::{Replies, next_refusal},
        taken::Taken,
    },
    limits::{AnyStore, Inner},
    metrics,
    store::{Group, Outcome, Reply},
};

/// Claims of one call, and the permits of each.
type Claims = Vec<(Arc<Core>, u32)>;

/// A row of replies for each claim, in it those to each caller.
type Rows = Vec<Vec<Replies>>;

fn no_reply() -> StoreError {
    StoreError::unavailable("the store returned no reply")
}

/// Asks the store, for all claims or for none: a row of costs for each, in it one cost for each caller.
async fn call(
    limits: &Inner,
    claims: &[(&Core, Vec<Part<'_>>)],
    rows: &[&[u32]],
) -> Result<Rows, StoreError> {
    let parts = || {
        claims
            .iter()
            .zip(rows)
            .flat_map(|((_, parts), row)| parts.iter().map(move |part| (part, row)))
    };
    let requests: Vec<_> = parts().map(|(part, _)| part.request(limits)).collect();
    let costs: Vec<&[u32]> = parts().map(|(_, row)| *row).collect();
    let asking: Vec<_> = claims.iter().map(|(core, _)| core.denials.asking()).collect();
    if limits.store.is_shared() {
        metrics::count_requests(rows.iter().map(|row| row.len()).sum());
    }
    let decided = limits.store.decide(&[Group { requests: &requests, costs: &costs }]).await?;
    let mut replies = decided.into_iter().next().ok_or_else(no_reply)??.into_iter();
    let mut all = Rows::with_capacity(claims.len());
    for (((core, parts), row), asking) in claims.iter().zip(rows).zip(asking) {
        let own: Vec<Vec<Reply>> = replies.by_ref().take(parts.len()).collect();
        for (part, replies) in parts.iter().zip(&own) {
            let first = replies.first().ok_or_else(no_reply)?;
            part.core.observe(limits, part.rule, first);
        }
        let replies = by_caller(&own, row).ok_or_else(no_reply)?;
        if limits.store.is_shared() {
            let heard: Vec<_> = replies.iter().map(|replies| next_refusal(&replies.each)).collect();
            core.denials.note(asking, row, &heard);
        }
        all.push(replies);
    }
    Ok(all)
}

/// The replies of each limiter, by caller.
fn by_caller(limiters: &[Vec<Reply>], costs: &[u32]) -> Option<Vec<Replies>> {
    let replies_to = |caller: usize| -> Option<Vec<Reply>> {
        limiters.iter().map(|replies| replies.get(caller).copied()).collect()
    };
    let mut all: Vec<Replies> = (0..costs.len())
        .map(|caller| Some(Replies::new(replies_to(caller)?)))
        .collect::<Option<_>>()?;
    let mut granted_after = 0;
    for (replies, cost) in all.iter_mut().zip(costs).rev() {
        replies.granted_after = granted_after;
        if replies.each.iter().all(|reply| reply.outcome == Outcome::Granted) {
            granted_after += u64::from(*cost);
        }
    }
    Some(all)
}

/// Asks the embedded store, which replies at once.
pub(super) async fn embedded(
    limits: &Inner,
    asked: &[&Asked<'_>],
) -> Result<Vec<Replies>, StoreError> {
    let claims: Vec<_> =
        asked.iter().map(|asked| (&**asked.core, asked.core.parts(asked.rule))).collect();
    let rows: Vec<&[u32]> =
        asked.iter().map(|asked| std::slice::from_ref(&asked.permits)).collect();
    let replies = call(limits, &claims, &rows).await?;
    let replies = asked.iter().zip(replies).map(|(asked, mut row)| {
        let replies = row.pop()?;
        lease(limits, asked, &replies.each);
        Some(replies)
    });
    replies.collect::<Option<_>>().ok_or_else(no_reply)
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

/// Asks the store for callers of one limiter, by the configuration as it is now.
pub(super) async fn of_one(
    limits: &Inner,
    core: &Core,
    costs: &[u32],
) -> Result<Vec<Replies>, StoreError> {
    of_all(limits, &[(core, costs)]).await?.pop().ok_or_else(no_reply)
}

async fn of_all(limits: &Inner, claims: &[(&Core, &[u32])]) -> Result<Rows, StoreError> {
    let rules: Vec<_> = claims.iter().map(|(core, _)| core.rule(limits)).collect();
    // A reload may have taken a configuration away after the callers had asked.
    if rules.iter().any(|rule| rule.numbers.is_err()) {
        return Err(StoreError::unavailable("the limiter is not configured any more"));
    }
    let parts = claims.iter().zip(&rules).map(|((core, _), rule)| (*core, core.parts(rule)));
    let rows: Vec<&[u32]> = claims.iter().map(|(_, costs)| *costs).collect();
    call(limits, &parts.collect::<Vec<_>>(), &rows).await
}

/// A call for several claims, as a task of its own.
pub(super) struct Together<'a> {
    limits: &'a Limits,
    claims: Arc<Claims>,
    answer: oneshot::Receiver<Result<Vec<Replies>, StoreError>>,
}

impl<'a> Together<'a> {
    pub(super) fn start(limits: &'a Limits, asked: &[&Asked<'_>]) -> Self {
        let claims: Claims =
            asked.iter().map(|asked| (Arc::clone(asked.core), asked.permits)).collect();
        let claims = Arc::new(claims);
        let (send, answer) = oneshot::channel::<Result<Vec<Replies>, _>>();
        let (own, asked) = (limits.clone(), Arc::clone(&claims));
        limits.inner().lanes.here().runtime().spawn(async move {
            let rows = asked.iter().map(|(core, permits)| (&**core, std::slice::from_ref(permits)));
            let rows = of_all(own.inner(), &rows.collect::<Vec<_>>()).await;
            let replies = rows.map(|rows| rows.into_iter().flatten().collect());
            if let Err(Ok(unclaimed)) = send.send(replies) {
                give_back(&own, &asked, &unclaimed);
            }
        });
        Self { limits, claims, answer }
    }
}

impl Future for Together<'_> {
    type Output = Result<Vec<Replies>, StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = Pin::new(&mut self.answer).poll(context);
        let aborted = |_| Err(StoreError::unavailable("the call to the store was aborted"));
        answer.map(|answer| answer.unwrap_or_else(aborted))
    }
}

impl Drop for Together<'_> {
    fn drop(&mut self) {
        self.answer.close();
        // An answer that arrived and was never looked at.
        if let Ok(Ok(unclaimed)) = self.answer.try_recv() {
            give_back(self.limits, &self.claims, &unclaimed);
        }
    }
}

/// Gives back what was granted to callers that are gone.
fn give_back(limits: &Limits, claims: &Claims, replies: &[Replies]) {
    let taken = claims.iter().zip(replies).filter_map(|((core, permits), replies)| {
        Taken::unclaimed(core, limits.inner(), *permits, replies)
    });
    Taken::give_back_later(limits, taken.collect::<Vec<_>>());
}
