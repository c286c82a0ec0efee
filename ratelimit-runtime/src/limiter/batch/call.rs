//! One request to the store for the callers of some limiters, and the handling of its replies.

use std::{
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
};

use tokio::{sync::oneshot, time::timeout};

use crate::{
    StoreError, clock,
    limiter::{
        Core,
        denials::Mark,
        looks::LOOK_EVERY_MS,
        outage::Refused,
        plan::{Asked, Part},
        replies::{Each, Replies, next_refusal},
        services::Services,
        taken::Taken,
    },
    metrics,
    store::{AnyStore, Group, Outcome, Reply},
    task,
};

/// Limiters, each with the costs of its callers.
pub(super) type Claims = Vec<(Arc<Core>, Vec<u32>)>;

/// One row of replies per claim, with the replies to each caller.
type Rows = Vec<Vec<Replies>>;

/// The requests of all callers of one limiter.
#[derive(Clone)]
struct Claimed<'a> {
    core: &'a Core,
    /// Empty if the limiter is not configured.
    parts: Vec<Part<'a>>,
    /// The cost of each caller.
    costs: &'a [u32],
}

fn no_reply() -> StoreError {
    StoreError::unavailable("the store returned no reply")
}

/// Sends claims to the store in groups of `size`. A group succeeds or fails as a whole.
async fn call(
    limits: &Arc<Services>,
    claims: &[Claimed<'_>],
    size: usize,
) -> Result<Vec<Result<Rows, StoreError>>, StoreError> {
    let parts = claims.iter().flat_map(|claim| &claim.parts);
    let charging = limits.local.charge_first(limits, parts.map(|part| part.core));
    if let Some(charging) = charging {
        let refused = charging.await?;
        if !refused.is_empty() {
            return Box::pin(call_beside(limits, claims, size, &refused)).await;
        }
    }
    send(limits, claims, size).await
}

/// Sends the groups of which no limiter was refused a charge. The others fail.
async fn call_beside(
    limits: &Arc<Services>,
    claims: &[Claimed<'_>],
    size: usize,
    refused: &Refused,
) -> Result<Vec<Result<Rows, StoreError>>, StoreError> {
    let why = |group: &[Claimed<'_>]| {
        let mut parts = group.iter().flat_map(|claim| &claim.parts);
        parts.find_map(|part| refused.of(part.core)).cloned()
    };
    let charged = claims.chunks(size).filter(|group| why(group).is_none());
    let charged: Vec<_> = charged.flatten().cloned().collect();
    let mut sent = match charged.is_empty() {
        true => Vec::new(),
        false => send(limits, &charged, size).await?,
    }
    .into_iter();
    let each = claims.chunks(size).map(|group| match why(group) {
        Some(error) => Err(error),
        None => sent.next().unwrap_or_else(|| Err(no_reply())),
    });
    Ok(each.collect())
}

/// Sends claims that need no charge first.
async fn send(
    limits: &Arc<Services>,
    claims: &[Claimed<'_>],
    size: usize,
) -> Result<Vec<Result<Rows, StoreError>>, StoreError> {
    let parts =
        || claims.iter().flat_map(|claim| claim.parts.iter().map(move |part| (part, claim.costs)));
    let requests: Vec<_> = parts().map(|(part, _)| part.request(limits)).collect();
    let costs: Vec<&[u32]> = parts().map(|(_, costs)| costs).collect();
    let (mut requests, mut costs) = (&requests[..], &costs[..]);
    let mut group = |claims: &[Claimed<'_>]| {
        let len = claims.iter().map(|claim| claim.parts.len()).sum();
        let (group, others) = (requests.split_at(len), costs.split_at(len));
        (requests, costs) = (group.1, others.1);
        Group { requests: group.0, costs: others.0 }
    };
    let groups: Vec<_> = claims.chunks(size).map(&mut group).collect();
    let marks: Vec<_> = claims.iter().map(|claim| claim.core.denials.mark()).collect();
    let decided = limits.store.decide(&groups).await?;
    if limits.store.is_shared() {
        metrics::count_requests(claims.iter().map(|claim| claim.costs.len()).sum());
    }
    let groups = claims.chunks(size).zip(marks.chunks(size)).zip(decided);
    Ok(groups.map(|((claims, marks), replies)| read(limits, claims, marks, replies)).collect())
}

/// Records the replies to a group, and sorts them by claim and caller.
fn read(
    limits: &Services,
    claims: &[Claimed<'_>],
    marks: &[Mark],
    replies: Result<Vec<Vec<Reply>>, StoreError>,
) -> Result<Rows, StoreError> {
    // A reload may have removed a configuration after the callers arrived.
    if claims.iter().any(|claim| claim.parts.is_empty()) {
        return Err(StoreError::unavailable("the limiter is not configured any more"));
    }
    let mut replies = replies?.into_iter();
    let mut all = Rows::with_capacity(claims.len());
    for (Claimed { core, parts, costs }, mark) in claims.iter().zip(marks) {
        let own: Vec<Vec<Reply>> = replies.by_ref().take(parts.len()).collect();
        for (part, replies) in parts.iter().zip(&own) {
            let first = replies.first().ok_or_else(no_reply)?;
            part.observe(limits, first);
            part.hear_block(limits, first);
            if limits.store.is_shared() {
                let last = replies.last().unwrap_or(first);
                part.core.hear_left(last, limits.clock.now_ms());
                limits.local.end(limits, part.core);
            }
        }
        let replies = by_caller(&own, costs).ok_or_else(no_reply)?;
        if limits.store.is_shared() {
            let refuses = own.iter().flatten().any(|reply| reply.retry_after_ms > 0);
            core.denials.note(*mark, costs, refuses, || {
                replies.iter().map(|replies| next_refusal(&replies.each)).collect()
            });
        }
        all.push(replies);
    }
    Ok(all)
}

/// Returns the replies of each limiter by caller.
fn by_caller(limiters: &[Vec<Reply>], costs: &[u32]) -> Option<Vec<Replies>> {
    let replies_to = |caller: usize| -> Option<Each> {
        limiters.iter().map(|replies| replies.get(caller).copied()).collect()
    };
    let mut all = Vec::with_capacity(costs.len());
    for caller in 0..costs.len() {
        all.push(Replies::new(replies_to(caller)?));
    }
    let mut granted_after = 0;
    for (replies, cost) in all.iter_mut().zip(costs).rev() {
        replies.granted_after = granted_after;
        if replies.grant() {
            granted_after += u64::from(*cost);
        }
    }
    Some(all)
}

/// Calls the embedded store, which replies immediately.
pub(super) async fn embedded(
    limits: &Arc<Services>,
    asked: &[&Asked<'_>],
) -> Result<Vec<Replies>, StoreError> {
    let claims: Vec<_> = asked
        .iter()
        .map(|asked| Claimed {
            core: asked.core,
            parts: asked.core.parts(asked.rule),
            costs: std::slice::from_ref(&asked.permits),
        })
        .collect();
    let replies = call(limits, &claims, claims.len()).await?.pop().ok_or_else(no_reply)??;
    let replies = asked.iter().zip(replies).map(|(asked, mut row)| {
        let replies = row.pop()?;
        lease(limits, asked, &replies.each);
        Some(replies)
    });
    replies.collect::<Option<_>>().ok_or_else(no_reply)
}

/// Lets the next calls of a limiter of the embedded store be counted immediately.
fn lease(limits: &Services, asked: &Asked<'_>, each: &[Reply]) {
    let (AnyStore::Memory(store), [reply]) = (&limits.store, each) else { return };
    let ours = asked.numbers.follow || reply.config.same_limit(&asked.numbers.config);
    // Only a full decision sees a block and its rejections.
    if ours
        && asked.rule.penalty().is_none()
        && matches!(reply.outcome, Outcome::Granted | Outcome::Refused)
    {
        let core = asked.core;
        let slot = core.stored.get_or_init(|| store.slot(&core.keys));
        let until_ms = reply.now_ms + LOOK_EVERY_MS;
        let lease = asked.rule.lease(&core.family, reply.config, until_ms);
        slot.admit(lease, || core.queue.is_empty());
    }
}

/// Calls the store for the callers of several limiters, each with its costs, under their current
/// configurations. Each limiter is decided independently of the others.
pub(super) async fn of_each(
    limits: &Arc<Services>,
    lanes: &Claims,
) -> Vec<Result<Vec<Replies>, StoreError>> {
    let rows = |rows: Result<Rows, _>| rows?.pop().ok_or_else(no_reply);
    match of_groups(limits, lanes, 1).await {
        Ok(replies) => replies.into_iter().map(rows).collect(),
        Err(error) => lanes.iter().map(|_| Err(error.clone())).collect(),
    }
}

async fn of_groups(
    limits: &Arc<Services>,
    claims: &Claims,
    size: usize,
) -> Result<Vec<Result<Rows, StoreError>>, StoreError> {
    let rules: Vec<_> = claims.iter().map(|(core, _)| core.rule(limits)).collect();
    let claims: Vec<_> = claims
        .iter()
        .zip(&rules)
        .map(|((core, costs), rule)| Claimed { core, parts: core.parts(rule), costs })
        .collect();
    call(limits, &claims, size).await
}

/// A call for several claims, in its own task.
pub(super) struct Together<'a> {
    limits: &'a Arc<Services>,
    claims: Arc<Claims>,
    answer: oneshot::Receiver<Result<Vec<Replies>, StoreError>>,
}

impl<'a> Together<'a> {
    pub(super) fn start(limits: &'a Arc<Services>, asked: &[&Asked<'_>]) -> Self {
        let claims: Claims =
            asked.iter().map(|asked| (Arc::clone(asked.core), vec![asked.permits])).collect();
        let claims = Arc::new(claims);
        let (send, answer) = oneshot::channel::<Result<Vec<Replies>, _>>();
        let (own, asked, unfinished) = (limits.clone(), Arc::clone(&claims), limits.engine.begin());
        task::begin(limits.lanes.here().runtime(), async move {
            let mut send = Some(send);
            let mut groups = pin!(of_groups(&own, &asked, asked.len()));
            let deadline = own.deadline + clock::LATE;
            let groups = match timeout(deadline, groups.as_mut()).await {
                Ok(groups) => groups,
                Err(_) => {
                    let late = Err(StoreError::late(own.deadline));
                    // A caller that is gone needs no answer.
                    let _ = send.take().map(|send| send.send(late));
                    groups.await
                }
            };
            let rows = groups.and_then(|mut groups| groups.pop().ok_or_else(no_reply)?);
            let replies = rows.map(|rows| rows.into_iter().flatten().collect());
            let late = send.is_none();
            let unclaimed = match send {
                Some(send) => send.send(replies).err(),
                None => Some(replies),
            };
            if let Some(Ok(unclaimed)) = unclaimed {
                for taken in taken_by(&own, &asked, &unclaimed) {
                    taken.give_back_unclaimed(&own, late).await;
                }
            }
            drop(unfinished);
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
        // An answer arrived but was never read.
        if let Ok(Ok(unclaimed)) = self.answer.try_recv() {
            Taken::give_back_later(self.limits, taken_by(self.limits, &self.claims, &unclaimed));
        }
    }
}

/// Returns what was granted to a caller that is gone.
fn taken_by(limits: &Services, claims: &Claims, replies: &[Replies]) -> Vec<Taken> {
    let taken = claims.iter().zip(replies).filter_map(|((core, costs), replies)| {
        Taken::unclaimed(core, limits, *costs.first()?, replies)
    });
    taken.collect()
}
