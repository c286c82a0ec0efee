//! Several limiters of one call whose state lives in one cluster slot: decided in one step, so that a
//! call takes of all of them or of none, and while it waits for one it holds nothing of the others.
//!
//! What one step cannot decide (a limiter in shadow mode or in parts, one that is counted in the
//! process, a store that is away) is left to be decided one after the other.

use std::sync::{Arc, atomic::Ordering};

use ratelimit_spec::Mode;

use super::{
    Core, Patience,
    ask::Ready,
    denied::Manner,
    numbers::Rule,
    several::{Part, ask_jointly, combined},
};
use crate::{
    Answer, Limits, Reason, Rejection,
    limits::Inner,
    store::{Heard, Outcome, Reply},
};

/// What a call asks of one of its limiters.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) core: Arc<Core>,
    pub(crate) permits: u32,
    pub(crate) patience: Patience,
}

/// Where a call was refused, and why.
type Refused = (usize, Rejection);

/// What one step says.
enum Step {
    Granted(Vec<Answer>),
    /// The claim whose permits come last of those that are missing, and when, in milliseconds.
    NotBefore(usize, u64),
}

/// Whether several limiters can be decided in one step, as far as their names tell.
pub(crate) fn share_a_slot<'a>(mut cores: impl Iterator<Item = &'a Arc<Core>>) -> bool {
    let Some(first) = cores.next() else { return false };
    let mut others = cores.peekable();
    others.peek().is_some() && others.all(|core| core.keys.tag() == first.keys.tag())
}

/// Takes the permits of all claims, which [share a slot](share_a_slot), at once; nothing where that has
/// to be done one after the other.
pub(crate) async fn acquire_together(
    limits: &Limits,
    claims: &[Claim],
) -> Option<Result<Vec<Answer>, Refused>> {
    let result = Box::pin(in_turn(limits.inner(), claims)).await?;
    match &result {
        Ok(_) => claims.iter().for_each(|claim| claim.core.tally(true)),
        Err((position, _)) => claims[*position].core.tally(false),
    }
    Some(result)
}

async fn in_turn(limits: &Inner, claims: &[Claim]) -> Option<Result<Vec<Answer>, Refused>> {
    let started = limits.clock.now_ms();
    // Nobody overtakes those who wait.
    let mut head = claims.iter().position(|claim| !claim.core.queue.is_empty());
    if head.is_some_and(|position| claims[position].patience == Patience::None) {
        return None;
    }
    loop {
        let Some(position) = head else {
            match decide(limits, claims, started).await? {
                Ok(Step::Granted(decisions)) => return Some(Ok(decisions)),
                Ok(Step::NotBefore(position, _)) => head = Some(position),
                Err(refused) => return Some(Err(refused)),
            }
            continue;
        };
        match wait_at(limits, claims, position, started).await? {
            Ok(Step::Granted(decisions)) => {
                claims[position].core.family.tally.waited.fetch_add(1, Ordering::Relaxed);
                return Some(Ok(decisions));
            }
            Ok(Step::NotBefore(other, _)) => head = Some(other),
            Err(refused) => return Some(Err(refused)),
        }
    }
}

/// Waits in the queue of one claim until all are granted, or another one is what keeps the call: those
/// who wait for this limiter alone need not wait for the other.
async fn wait_at(
    limits: &Inner,
    claims: &[Claim],
    position: usize,
    started: u64,
) -> Option<Result<Step, Refused>> {
    let Claim { core, permits, patience } = &claims[position];
    let room = core.numbers(limits).ok()?.effective.max_waiters.value;
    let Ok(place) = core.queue.join(*permits, room) else {
        let head_in = core.queue.head_in(limits.clock.now_ms()).max(1);
        return Some(Err((position, core.not_before(Reason::QueueFull, head_in))));
    };
    let _turn = match core.turn(limits, &place, patience.until(started)).await {
        Ok(turn) => turn,
        Err(rejection) => return Some(Err((position, rejection))),
    };
    loop {
        let seen = core.seen(limits);
        match decide(limits, claims, started).await? {
            Ok(Step::NotBefore(last, wait)) if last == position => {
                place.expect_at(limits.clock.now_ms() + wait);
                core.nap(limits, &place, wait, seen).await;
            }
            other => return Some(other),
        }
    }
}

/// Asks for all claims in one step, unless it is known that one would be refused. A claim that has to
/// wait for longer than it may is refused.
async fn decide(limits: &Inner, claims: &[Claim], started: u64) -> Option<Result<Step, Refused>> {
    let rules: Vec<Arc<Rule>> = claims.iter().map(|claim| claim.core.rule(limits)).collect();
    if !claims.iter().zip(&rules).all(|(claim, rule)| claim.is_decided_here(limits, rule)) {
        return None;
    }
    let known = claims.iter().map(|claim| claim.core.denied.repeated(claim.permits, Manner::Waits));
    let known: Vec<Option<Heard>> = known.map(|reply| reply.map(Heard::from)).collect();
    let replies = match known.iter().any(Option::is_some) {
        true => known,
        false => ask(limits, claims, &rules).await?.into_iter().map(Some).collect(),
    };
    let (now, mut last) = (limits.clock.now_ms(), None);
    for (position, (claim, reply)) in claims.iter().zip(&replies).enumerate() {
        let Some(heard) = reply.as_ref().filter(|heard| !is_room(heard.reply.outcome)) else {
            continue;
        };
        let reply = heard.reply;
        let refusal = match claim.core.settle_all(heard, claim.permits, false) {
            Ok(refusal) => refusal,
            Err(rejection) => return Some(Err((position, rejection))),
        };
        let wait = reply.retry_after_ms;
        if claim.patience.until(started).is_some_and(|until| now + wait > until) {
            let reason = match claim.patience {
                Patience::None => Reason::Limited,
                _ => Reason::WaitTooLong,
            };
            return Some(Err((position, claim.core.refused(reason, &refusal))));
        }
        last = last.max(Some((wait, position)));
    }
    if let Some((wait, position)) = last {
        return Some(Ok(Step::NotBefore(position, wait)));
    }
    let granted = claims
        .iter()
        .zip(replies)
        .map(|(claim, reply)| claim.core.settle_all(&reply?, claim.permits, false).ok());
    Some(Ok(Step::Granted(granted.collect::<Option<_>>()?)))
}

/// One call to the store for all claims; nothing where it does not count them all.
async fn ask(limits: &Inner, claims: &[Claim], rules: &[Arc<Rule>]) -> Option<Vec<Heard>> {
    let (mut parts, mut costs, mut counts) = (Vec::<Part<'_>>::new(), Vec::new(), Vec::new());
    for (claim, rule) in claims.iter().zip(rules) {
        let own = claim.core.parts(rule);
        costs.extend(own.iter().map(|_| std::slice::from_ref(&claim.permits)));
        counts.push((own.len(), claim.core.denied.asking()));
        parts.extend(own);
    }
    let replies = ask_jointly(limits, &parts, &costs).await.ok()?;
    let mut replies = replies.into_iter().map(|row| row.first().copied());
    let mut answers = Vec::with_capacity(claims.len());
    for (claim, (count, asked)) in claims.iter().zip(counts) {
        let own: Vec<Reply> = replies.by_ref().take(count).collect::<Option<_>>()?;
        let answer = combined(&own);
        if answer.reply.outcome == Outcome::Refused && limits.store.is_shared() {
            let answer = std::slice::from_ref(&answer);
            claim.core.denied.note(asked, &[claim.permits], answer);
        }
        answers.push(answer);
    }
    let counted =
        |answer: &Heard| !matches!(answer.reply.outcome, Outcome::PerClient | Outcome::Unknown);
    answers.iter().all(counted).then_some(answers)
}

fn is_room(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Granted | Outcome::Spared)
}

impl Claim {
    /// Whether the store alone decides it, as a whole, and nothing is owed before.
    fn is_decided_here(&self, limits: &Inner, rule: &Rule) -> bool {
        let Ok(Ready::Ask(numbers)) = self.core.ready(limits, rule, self.permits) else {
            return false;
        };
        let mode = self.core.in_force().unwrap_or(numbers.config).mode;
        mode == Mode::Overall
            && rule.shards.is_none()
            && !rule.is_shadowed()
            && self.core.debt() == 0
    }
}
