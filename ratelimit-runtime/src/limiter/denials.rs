//! What the store refused a moment ago and cannot grant yet.
//!
//! Nothing becomes free before its time, so until then the same request is refused without asking.
//! What may free something earlier, such as a release by another process, is seen after a second
//! at most; what this process does itself ends it at once.
//!
//! Who waits goes before who tries again and again, across processes as within one: those who
//! try in the meantime are refused for a few milliseconds more, in which whoever waited asks.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use super::replies::answers_of;
use crate::{
    Answer,
    clock::{self, whole_ms},
    store::{Heard, Outcome, Reply},
};

/// The longest a refusal is repeated without asking again.
const AT_MOST: Duration = Duration::from_secs(1);
/// The server's clock counts whole milliseconds, so its wait is up to one too long.
const TICK: Duration = Duration::from_millis(1);
/// How long those who tried too early let others go first: a waiting caller's timer and its way to
/// the store, but never more than a fiftieth of the window.
const COURTESY: Duration = Duration::from_millis(4);
/// Numbers of permits that are remembered; most limiters know one.
const REMEMBERED: usize = 4;

#[derive(Default)]
pub(crate) struct Denials {
    /// Whether there is anything to look up.
    any: AtomicBool,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    changes: u64,
    refusals: Vec<Refusal>,
}

/// For this many permits the store cannot say anything else until then.
struct Refusal {
    permits: u32,
    until: Instant,
    heard: Instant,
    /// What those who try, and do not wait, owe since one of them came too early.
    courtesy: Duration,
    reply: Reply,
    /// The reply of each of several limits.
    parts: Option<Arc<[Reply]>>,
}

/// Whether a caller waits when it is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    Waits,
    Tries,
}

/// When a request was sent to the store, and how many changes were known by then.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    at: Instant,
    changes: u64,
}

impl Denials {
    /// What the store would say, if that is certain.
    pub(super) fn repeated(&self, permits: u32, manner: Manner) -> Option<Reply> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let mut known = self.known();
        let refusal = known.refusals.iter_mut().find(|refusal| refusal.permits == permits)?;
        let now = clock::instant();
        match manner {
            Manner::Waits => (now < refusal.until).then(|| refusal.as_of(now)),
            Manner::Tries => refusal.refuse_one_who_tries(now),
        }
    }

    /// The answer of each of several limits to a request whose refusal is repeated.
    #[cold]
    pub(super) fn parts(&self, permits: u32, repeated: &Reply) -> Option<Arc<[Answer]>> {
        let known = self.known();
        let refusal = known.refusals.iter().find(|refusal| refusal.permits == permits)?;
        let passed = repeated.now_ms.saturating_sub(refusal.reply.now_ms);
        let aged = |reply: &Reply| Reply {
            retry_after_ms: reply.retry_after_ms.saturating_sub(passed),
            reset_after_ms: reply.reset_after_ms.saturating_sub(passed),
            more_after_ms: reply.more_after_ms.saturating_sub(passed),
            now_ms: repeated.now_ms,
            ..*reply
        };
        let parts: Vec<Reply> = refusal.parts.as_deref()?.iter().map(aged).collect();
        Some(answers_of(&parts))
    }

    /// To be called before a request is sent.
    pub(super) fn mark(&self) -> Mark {
        Mark { at: clock::instant(), changes: self.known().changes }
    }

    /// Takes note of the replies to a request, unless something changed here since it was sent.
    pub(super) fn note(&self, sent: Mark, costs: &[u32], replies: &[Heard]) {
        let counted =
            |heard: &&Heard| matches!(heard.reply.outcome, Outcome::Granted | Outcome::Refused);
        let Some(last) = replies.iter().rev().find(counted) else { return };
        let mut known = self.known();
        if known.changes != sent.changes {
            return;
        }
        let now = clock::instant();
        known.refusals.retain(|refusal| now < refusal.ends() && !costs.contains(&refusal.permits));
        let mut seen = 0;
        for (&permits, heard) in costs.iter().zip(replies).filter(|(_, heard)| counted(heard)) {
            let (reply, parts) = (&heard.reply, heard.parts.clone());
            if permits == seen || reply.retry_after_ms == 0 {
                continue;
            }
            seen = permits;
            let wait = Duration::from_millis(reply.retry_after_ms).saturating_sub(TICK);
            let until = sent.at + wait.min(AT_MOST);
            let repeated = |refusal: &Refusal| refusal.permits == permits;
            if until <= now || known.refusals.iter().any(repeated) {
                continue;
            }
            known.refusals.truncate(REMEMBERED - 1);
            let reply =
                Reply { remaining: last.reply.remaining, reconciled: None, ahead_ms: 0, ..*reply };
            let courtesy = Duration::ZERO;
            known
                .refusals
                .insert(0, Refusal { permits, until, heard: now, courtesy, reply, parts });
        }
        self.any.store(!known.refusals.is_empty(), Ordering::Release);
    }

    /// Forgets everything: something may be free before its time.
    pub(super) fn forget(&self) {
        let mut known = self.known();
        known.changes += 1;
        known.refusals.clear();
        self.any.store(false, Ordering::Release);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Refusal {
    /// When nobody is refused by it any more.
    fn ends(&self) -> Instant {
        self.until + self.courtesy
    }

    fn refuse_one_who_tries(&mut self, now: Instant) -> Option<Reply> {
        if now >= self.ends() {
            return None;
        }
        self.courtesy = COURTESY.min(Duration::from_millis(self.reply.config.per_ms / 50));
        let reply = self.as_of(now);
        let ends_in = whole_ms(self.ends() - now) + 1;
        Some(Reply { retry_after_ms: reply.retry_after_ms.max(ends_in), ..reply })
    }

    /// The refusal with what has passed of its times since it was heard. Rounded up: whoever waits
    /// as long as it is told is not early.
    fn as_of(&self, now: Instant) -> Reply {
        let passed = whole_ms(now.saturating_duration_since(self.heard));
        Reply {
            outcome: Outcome::Refused,
            retry_after_ms: self.reply.retry_after_ms.saturating_sub(passed).max(1),
            reset_after_ms: self.reply.reset_after_ms.saturating_sub(passed),
            more_after_ms: self.reply.more_after_ms.saturating_sub(passed),
            now_ms: self.reply.now_ms + passed,
            ..self.reply
        }
    }
}
