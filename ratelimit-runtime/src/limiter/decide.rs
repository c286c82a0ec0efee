//! The single path from a call's claims to its decisions.
//!
//! Each claim is counted by one [`Side`], chosen only here: the store, this process, or shards that
//! are queried sequentially. Claims of one side are decided atomically if possible, so that a call
//! takes from all of its limiters or from none; otherwise the permits of earlier steps are released
//! when a later step rejects the call. If the store is unavailable, the policy decides.

mod answer;
mod charge;
mod known;
mod look;
mod policy;
mod recovery;

use std::sync::Arc;

use ratelimit_spec::Wait;

pub(super) use self::answer::Ready;
pub(crate) use self::known::{decide_by_name, spend};
use super::{
    batch::{self, Asking},
    core::{Core, Rule},
    denials::Caller,
    per_process::{self, count, counted_here},
    permit::Permit,
    plan::{Asked, Claim},
    replies::{Each, Replies},
    services::Services,
    taken::{Answer, Held, Source, Taken},
};
use crate::{Decision, Rejection, StoreError, store::Outcome};

/// The permits that a call got from one claim.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) decision: Decision,
    pub(crate) taken: Taken,
    /// The milliseconds after which the same request can be granted again.
    pub(crate) again_ms: u64,
    /// The rejection that shadow mode overruled.
    pub(crate) overruled: Option<Rejection>,
}

impl Granted {
    /// A call that was admitted without counting.
    fn free(core: &Arc<Core>, decision: Decision) -> Self {
        Self { decision, taken: Taken::nothing(core), again_ms: 0, overruled: None }
    }
}

/// Why a claim got no permits.
#[derive(Clone, Debug)]
pub(crate) enum Why {
    /// No permits are free yet; the decision contains when they will be.
    NotNow(Box<Decision>),
    /// No wait helps, or the time to wait is unknown.
    Rejected(Rejection),
}

/// The claims that rejected a call, by position.
pub(crate) type Refusals = Vec<(usize, Why)>;

/// The result of all claims of a call.
pub(crate) enum Got<T> {
    /// The permit of the common case, which needs no list.
    One(Permit),
    /// `None` for a claim that has no decision.
    All(Vec<Option<T>>),
}

impl From<Got<Permit>> for Vec<Option<Permit>> {
    fn from(got: Got<Permit>) -> Self {
        match got {
            Got::One(permit) => vec![Some(permit)],
            Got::All(permits) => permits,
        }
    }
}

impl Got<Permit> {
    /// The permit of all claims together.
    pub(super) fn together(self) -> Option<Permit> {
        match self {
            Self::One(permit) => Some(permit),
            Self::All(permits) => permits.into_iter().flatten().reduce(Permit::and),
        }
    }
}

/// What counts a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Store,
    /// This process, which has a budget of its own.
    Process,
    /// The first of its shards that has room.
    Shards,
}

/// Takes the permits of all claims, or none.
pub(crate) async fn decide(
    limits: &Arc<Services>,
    claims: &[Claim],
) -> Result<Vec<Granted>, Refusals> {
    let rules: Vec<Arc<Rule>> = claims.iter().map(|claim| claim.core.rule(limits)).collect();
    let mut granted: Vec<Option<Granted>> = claims.iter().map(|_| None).collect();
    let mut steps: Vec<(Side, Vec<Asked<'_>>)> = Vec::with_capacity(1);
    for (position, (claim, rule)) in claims.iter().zip(&rules).enumerate() {
        match claim.core.ready(limits, rule, claim.permits) {
            Ok(Ready::Decided(decision)) => {
                let free = Granted::free(&claim.core, decision);
                granted[position] = Some(match claim.permits {
                    0 => Granted { taken: Taken::free(&claim.core), ..free },
                    _ => free,
                });
            }
            Ok(Ready::Ask(numbers, permits)) => {
                let core = &claim.core;
                add(limits, &mut steps, Asked { position, core, rule, numbers, permits });
            }
            Err(rejection) => {
                let why = Why::Rejected(rejection);
                granted[position] = claim.core.shadowed(limits, rule, &why);
                if granted[position].is_none() {
                    return Err(vec![(position, why)]);
                }
            }
        }
    }
    let several = steps.len() > 1;
    if let Err(refusals) = known_refusals(&steps) {
        // The store is not queried for them.
        let here = look::of_sides(&steps, |side| side == Side::Process);
        return Err(Box::pin(look::others(limits, here, refusals)).await);
    }
    let waiting = several && claims.iter().any(|claim| !claim.core.queue.is_empty());
    if several {
        Box::pin(look::ahead(limits, &mut steps, waiting)).await?;
    }
    let mut held = Held::new(limits);
    for (n, (side, asked)) in steps.iter().enumerate() {
        let result = match side {
            Side::Shards => Box::pin(by_any(limits, &asked[0])).await,
            side => together(limits, *side, &asked.iter().collect::<Vec<_>>()).await,
        };
        match unless_shadowed(limits, asked, result) {
            Ok(got) => {
                for (asked, got) in asked.iter().zip(got) {
                    held.note(&got.taken);
                    granted[asked.position] = Some(got);
                }
            }
            Err(refusals) => {
                held.give_back().await;
                // The earlier steps had the permits, and some were looked at before.
                let later = |side| look::is_later(side, waiting);
                let later = look::of_sides(&steps[n + 1..], later);
                return Err(Box::pin(look::others(limits, later, refusals)).await);
            }
        }
    }
    held.keep();
    Ok(granted.into_iter().flatten().collect())
}

impl Side {
    fn of(core: &Core, rule: &Rule) -> Self {
        if rule.shards().is_some() {
            Self::Shards
        } else if core.is_counted_here(rule) {
            Self::Process
        } else {
            Self::Store
        }
    }
}

/// Decides and counts the common case, a call of one limiter that Redis counts: its future needs no
/// room for other cases and its grant needs no lists. Returns `None` in all other cases.
pub(super) fn decide_one<'a>(
    limits: &'a Arc<Services>,
    claim: &'a Claim,
) -> Option<impl Future<Output = Result<Got<Granted>, Refusals>> + use<'a>> {
    let (core, rule) = (&claim.core, claim.core.rule(limits));
    let permits = usual(limits, core, &rule, claim.permits)?;
    let asking = Asking::start(limits, core, permits);
    Some(async move {
        let replies = asking.await;
        if let Ok(replies) = &replies
            && let Each::One([reply]) = &replies.each
            && reply.outcome == Outcome::Granted
        {
            core.count_granted(reply);
            let answer = Answer::Reply(*reply, replies.granted_after);
            let permit = Permit::at_once(core, (answer, Source::Store), permits);
            return Ok(Got::One(permit));
        }
        let replies = replies.map(|replies| vec![(*replies).clone()]);
        let numbers = rule.numbers.as_ref().expect("they are what the store was asked by");
        let asked = Asked { position: 0, core, rule: &rule, numbers, permits };
        let result = replied(limits, &[&asked], replies);
        let granted = unless_shadowed(limits, &[asked], result)?;
        granted.iter().for_each(|got| core.count_if_degraded(&got.decision));
        core.count_admitted(limits, granted.first());
        Ok(Got::All(granted.into_iter().map(Some).collect()))
    })
}

/// Returns the permits of a request that a single reply of Redis decides.
fn usual(limits: &Services, core: &Arc<Core>, rule: &Rule, permits: u64) -> Option<u32> {
    let recovers = || limits.recovers_until(&core.keys).is_some();
    if !limits.store.is_shared() || !core.queue.is_empty() || recovers() {
        return None;
    }
    if Side::of(core, rule) != Side::Store {
        return None;
    }
    let Ok(Ready::Ask(_, permits)) = core.ready(limits, rule, permits) else { return None };
    let is_known = || core.denials.repeated(permits, Caller::Waiting).is_some();
    (rule.is_shadowed() || !is_known()).then_some(permits)
}

/// Adds a claim to the step that decides it. A claim that cannot be decided with others is a step of its own.
fn add<'a>(limits: &Services, steps: &mut Vec<(Side, Vec<Asked<'a>>)>, asked: Asked<'a>) {
    let side = Side::of(asked.core, asked.rule);
    let alone = side == Side::Shards || asked.rule.is_shadowed();
    let fits = |(other, others): &&mut (Side, Vec<Asked<'a>>)| {
        let one_call =
            |other: &Asked<'a>| limits.store.one_call(&other.core.keys, &asked.core.keys);
        *other == side
            && !alone
            && others.iter().all(|other| !other.rule.is_shadowed())
            && (side == Side::Process || others.iter().all(one_call))
    };
    match steps.iter_mut().find(fits) {
        Some((_, step)) => step.push(asked),
        None => steps.push((side, vec![asked])),
    }
}

/// Rejects a call immediately if a limiter is known to reject it.
fn known_refusals(steps: &[(Side, Vec<Asked<'_>>)]) -> Result<(), Refusals> {
    let asked = steps.iter().filter(|(side, _)| *side == Side::Store).flat_map(|(_, asked)| asked);
    let refusals = asked.filter(|asked| !asked.rule.is_shadowed()).filter_map(|asked| {
        let heard = asked.core.denials.repeated(asked.permits, Caller::Waiting)?;
        Some((asked.position, asked.core.refused_by(&heard, asked.permits, false)))
    });
    let refusals: Refusals = refusals.collect();
    if refusals.is_empty() { Ok(()) } else { Err(refusals) }
}

/// Takes from the first shard that has the permits.
async fn by_any(limits: &Arc<Services>, asked: &Asked<'_>) -> Result<Vec<Granted>, Refusals> {
    let Asked { position, core, rule, permits, .. } = *asked;
    let Some(shards) = rule.shards() else { return Ok(Vec::new()) };
    if let Some(rejection) = core.too_many_of_shards(limits, rule, permits.into()).await {
        return Err(vec![(position, Why::Rejected(rejection))]);
    }
    let mut best = None::<Why>;
    for shard in core.in_rotation(shards) {
        let (shard, permits) = (Arc::clone(shard), permits.into());
        let claim = Claim { core: shard, permits, wait: Wait::None, fallible: true };
        match Box::pin(decide(limits, &[claim])).await {
            Ok(granted) => {
                let of_all = |got: Granted| Granted {
                    decision: core.of_whole(got.decision),
                    taken: got.taken.by_shard_of(core),
                    // Another shard may grant the same request now.
                    again_ms: 0,
                    ..got
                };
                return Ok(granted.into_iter().map(of_all).collect());
            }
            Err(refusals) => {
                best = refusals.into_iter().map(|(_, why)| why).chain(best).reduce(Why::sooner);
            }
        }
    }
    let why = best.unwrap_or_else(|| Why::Rejected(core.unknown()));
    Err(vec![(position, core.of_all_shards(why, permits.into(), shards.len()))])
}

/// Admits a call that only shadow mode admits.
fn unless_shadowed(
    limits: &Services,
    asked: &[Asked<'_>],
    result: Result<Vec<Granted>, Refusals>,
) -> Result<Vec<Granted>, Refusals> {
    let refusals = match result {
        Ok(granted) => return Ok(granted),
        Err(refusals) => refusals,
    };
    if let ([one], [(_, why)]) = (asked, &refusals[..])
        && let Some(granted) = one.core.shadowed(limits, one.rule, why)
    {
        return Ok(vec![granted]);
    }
    Err(refusals)
}

/// Takes the permits of claims of one side atomically.
async fn together(
    limits: &Arc<Services>,
    side: Side,
    asked: &[&Asked<'_>],
) -> Result<Vec<Granted>, Refusals> {
    if side == Side::Process
        && let Some(taken) = Box::pin(per_process::take(limits, asked)).await
    {
        let refused = |(position, rejection)| vec![(position, Why::Rejected(rejection))];
        let replies = taken.map_err(refused)?;
        return outcome(asked, replies.into_iter().map(Ok).collect(), Source::Process);
    }
    if side == Side::Store
        && let Some(until) = recovery::until(limits, asked)
    {
        return Box::pin(recovery::within_shares(limits, asked, until)).await;
    }
    let replies = batch::ask(limits, asked).await;
    if let Ok(replies) = &replies
        && replies.iter().any(is_moved)
        && !replies.iter().all(is_moved)
    {
        return Box::pin(apart(limits, asked, replies)).await;
    }
    replied(limits, asked, replies)
}

/// Returns whether the store left a claim to this process: the mode is `per_client`.
fn is_moved(replies: &Replies) -> bool {
    replies.each.iter().any(|reply| reply.outcome == Outcome::PerClient)
}

/// Takes the permits of claims of which the store left some to this process, and so granted none: first those.
async fn apart(
    limits: &Arc<Services>,
    asked: &[&Asked<'_>],
    replies: &[Replies],
) -> Result<Vec<Granted>, Refusals> {
    let (mut held, mut all) = (Held::new(limits), Vec::with_capacity(asked.len()));
    for side in [Side::Process, Side::Store] {
        let step = asked.iter().zip(replies);
        let step = step.filter(|(_, replies)| is_moved(replies) == (side == Side::Process));
        let step: Vec<_> = step.map(|(asked, _)| *asked).collect();
        match together(limits, side, &step).await {
            Ok(granted) => {
                granted.iter().for_each(|got| held.note(&got.taken));
                all.extend(step.iter().map(|asked| asked.position).zip(granted));
            }
            Err(refusals) => {
                held.give_back().await;
                return Err(refusals);
            }
        }
    }
    held.keep();
    all.sort_by_key(|(position, _)| *position);
    Ok(all.into_iter().map(|(_, got)| got).collect())
}

/// Returns the result of each claim, from the store's replies or without them.
fn replied(
    limits: &Arc<Services>,
    asked: &[&Asked<'_>],
    replies: Result<Vec<Replies>, StoreError>,
) -> Result<Vec<Granted>, Refusals> {
    let replies = match replies {
        Ok(replies) => replies,
        Err(error) => return policy::without_store(limits, asked, &error),
    };
    if replies.iter().any(is_moved) {
        let counted = count(&limits.per_client, asked, counted_here).into_iter();
        let replies = counted.map(|each| Ok(Replies::new(each))).collect();
        return outcome(asked, replies, Source::Process);
    }
    outcome(asked, replies.into_iter().map(Ok).collect(), Source::Store)
}

/// Returns the result of claims that were decided together.
fn outcome(
    asked: &[&Asked<'_>],
    replies: Vec<Result<Replies, Rejection>>,
    source: Source,
) -> Result<Vec<Granted>, Refusals> {
    let (mut granted, mut refusals) = (Vec::with_capacity(asked.len()), Refusals::new());
    for (asked, replies) in asked.iter().zip(replies) {
        let replies = match replies {
            Ok(replies) => replies,
            Err(rejection) => {
                refusals.push((asked.position, Why::Rejected(rejection)));
                continue;
            }
        };
        let heard = asked.core.heard(asked.rule, &replies.each, replies.degraded);
        match heard.reply.outcome {
            Outcome::Granted => granted.push(Granted {
                decision: asked.core.decision(&heard, replies.degraded),
                taken: Taken::by(asked, &replies, source),
                again_ms: if asked.rule.is_shadowed() { 0 } else { heard.reply.retry_after_ms },
                overruled: None,
            }),
            Outcome::NotTaken => {}
            _ => refusals.push((
                asked.position,
                asked.core.refused_by(&heard, asked.permits, replies.degraded),
            )),
        }
    }
    if refusals.is_empty() { Ok(granted) } else { Err(refusals) }
}
