//! The replies of the limits of a claim, and how they are combined.

use std::{
    cmp::Reverse,
    ops::Deref,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use crate::{
    Decision,
    store::{Heard, Outcome, Reply},
};

/// The replies to one claim, one for each of its limits.
#[derive(Clone)]
pub(super) struct Replies {
    pub(super) each: Each,
    /// Permits that the same batch granted after these.
    pub(super) granted_after: u64,
    /// Whether they were counted without the store.
    pub(super) degraded: bool,
}

/// The replies to one caller of a batch. They are shared by all callers, because a reply is large.
pub(super) struct OfCaller {
    batch: Arc<Vec<Replies>>,
    caller: usize,
}

/// One reply per limit. Most claims have one limit, which needs no list.
#[derive(Clone)]
pub(super) enum Each {
    One([Reply; 1]),
    Several(Vec<Reply>),
}

impl Replies {
    pub(super) fn new(each: Each) -> Self {
        Self { each, granted_after: 0, degraded: false }
    }

    /// Returns whether every limit granted the request.
    pub(super) fn grant(&self) -> bool {
        self.each.iter().all(|reply| reply.outcome == Outcome::Granted)
    }
}

impl OfCaller {
    /// Returns the replies to each caller, in order.
    pub(super) fn each(batch: Vec<Replies>) -> impl Iterator<Item = Self> {
        let (callers, batch) = (0..batch.len(), Arc::new(batch));
        callers.map(move |caller| Self { batch: Arc::clone(&batch), caller })
    }
}

impl Deref for OfCaller {
    type Target = Replies;

    fn deref(&self) -> &Replies {
        &self.batch[self.caller]
    }
}

impl Deref for Each {
    type Target = [Reply];

    fn deref(&self) -> &[Reply] {
        match self {
            Self::One(reply) => reply,
            Self::Several(replies) => replies,
        }
    }
}

impl FromIterator<Reply> for Each {
    fn from_iter<T: IntoIterator<Item = Reply>>(replies: T) -> Self {
        let mut replies = replies.into_iter();
        match (replies.next(), replies.next()) {
            (Some(reply), None) => Self::One([reply]),
            (first, second) => {
                Self::Several(first.into_iter().chain(second).chain(replies).collect())
            }
        }
    }
}

/// Returns the bit of one limit among the [violated](Reply::violated) ones.
pub(super) fn bit(n: usize) -> u8 {
    u32::try_from(n).ok().and_then(|n| 1_u8.checked_shl(n)).unwrap_or(0)
}

/// Returns the bits of the limits for which `which` is true.
fn bits(replies: &[Reply], which: impl Fn(&Reply) -> bool) -> u8 {
    let bits = replies.iter().enumerate().map(|(n, reply)| if which(reply) { bit(n) } else { 0 });
    bits.fold(0, |all, bit| all | bit)
}

/// Returns the precedence of one limit's outcome in the combined reply.
fn weight(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Granted => 0,
        Outcome::NotTaken => 1,
        Outcome::Refused => 2,
        Outcome::Blocked => 3,
        Outcome::ExceedsCapacity => 4,
        Outcome::PerClient => 5,
        Outcome::Unknown => 6,
    }
}

/// Returns the reply of all limits to one caller: the outcome and the values of the decisive limit,
/// which is the violated one with the longest wait, or the one with the smallest fraction left.
pub(super) fn combined(replies: &[Reply]) -> Heard {
    if let [reply] = replies {
        return Reply { reconciled: None, ahead_ms: 0, ..*reply }.into();
    }
    let mut parts = replies.to_vec();
    parts.sort_by_key(|reply| Reverse(decides(reply)));
    Heard { reply: decisive(replies), parts: Some(parts.into()) }
}

/// Returns how strict a reply is among those of several limits.
fn decides(reply: &Reply) -> (u8, u128) {
    let used_up = |reply: &Reply| {
        let capacity = reply.config.capacity().max(1);
        // The numbers of a reply may be those of another call, after a fault between here and the server.
        let remaining = reply.remaining.min(capacity);
        u128::from(u64::MAX) - u128::from(remaining) * u128::from(u32::MAX) / u128::from(capacity)
    };
    match reply.outcome {
        Outcome::Refused | Outcome::Blocked => (weight(reply.outcome), reply.retry_after_ms.into()),
        other => (weight(other), used_up(reply)),
    }
}

fn decisive(replies: &[Reply]) -> Reply {
    // Of equal replies the first one decides, in list order.
    let decisive = replies.iter().rev().max_by_key(|reply| decides(reply));
    let decisive = decisive.expect("a key has a limit");
    let most = |ms: fn(&Reply) -> u64| replies.iter().map(ms).max().unwrap_or(0);
    let refuses = |reply: &Reply| weight(reply.outcome) >= weight(Outcome::Refused);
    Reply {
        remaining: replies.iter().map(|reply| reply.remaining).min().unwrap_or(0),
        retry_after_ms: most(|reply| reply.retry_after_ms),
        reset_after_ms: most(|reply| reply.reset_after_ms),
        reconciled: None,
        ahead_ms: 0,
        violated: bits(replies, refuses),
        ..*decisive
    }
}

/// Like `combined`, with the configuration of the limits that would reject the request if it were repeated.
pub(super) fn next_refusal(replies: &[Reply]) -> Heard {
    let all = combined(replies);
    let longest = replies.iter().rev().max_by_key(|reply| reply.retry_after_ms);
    let config = longest.map_or(all.reply.config, |longest| longest.config);
    let waits = |reply: &Reply| reply.retry_after_ms > 0;
    let violated = if replies.len() > 1 { bits(replies, waits) } else { 0 };
    Heard { reply: Reply { config, violated, ..all.reply }, ..all }
}

/// Returns the decision of each of several limits.
pub(super) fn parts_of(
    replies: &[Reply],
    decision: impl Fn(&Reply) -> Decision,
) -> Arc<[Decision]> {
    let part = |reply: &Reply| {
        let had_room = matches!(reply.outcome, Outcome::Granted | Outcome::NotTaken);
        let part = decision(reply);
        let retry_after = part.retry_after.filter(|_| !had_room);
        Decision { retry_after, ..part }
    };
    replies.iter().map(part).collect()
}

pub(super) fn decision_of(
    limiter: &Arc<str>,
    reply: &Reply,
    degraded: bool,
    shadow: bool,
) -> Decision {
    let refused = reply.outcome != Outcome::Granted;
    Decision {
        limiter: Arc::clone(limiter),
        quota: Some(reply.config.quota()),
        remaining: reply.remaining,
        reset_after: Duration::from_millis(reply.reset_after_ms),
        more_after: Duration::from_millis(reply.more_after_ms),
        retry_after: refused.then(|| Duration::from_millis(reply.retry_after_ms)),
        counted: true,
        degraded,
        shadow,
        shadowed: None,
        blocked: reply.outcome == Outcome::Blocked,
        at: UNIX_EPOCH + Duration::from_millis(reply.now_ms),
        violated: None,
        parts: None,
    }
}
