//! A cache of denials that the store cannot lift yet.
//!
//! Nothing becomes free early, so until then the same request is rejected without a query. Permits
//! that do become free early, such as those that another process releases, are noticed after one
//! second at most; a change by this process ends a denial immediately. So does a grant for another
//! cost, because the denied request then has to wait longer than was reported.
//!
//! Waiting callers take precedence over polling callers, across processes as within one: a polling
//! caller is rejected for a few milliseconds longer, in which waiting callers query the store.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwapOption;
use tokio::time::Instant;

use crate::{
    clock::{self, whole_ms},
    store::{Heard, Outcome, Reply},
};

/// The maximum time for which a denial is repeated without a query.
const AT_MOST: Duration = Duration::from_secs(1);
/// The server's clock counts whole milliseconds, so its wait is up to one too long.
const TICK: Duration = Duration::from_millis(1);
/// The extra denial time of a polling caller: enough for a waiting caller's timer and round trip,
/// but never more than 1/50 of the window.
const GRACE: Duration = Duration::from_millis(4);
/// The number of costs that are cached; most limiters see one.
const REMEMBERED: usize = 4;

/// Read without a lock: all threads may call a limiter that rejects at once.
#[derive(Default)]
pub(crate) struct Denials {
    /// Whether the cache may contain anything.
    any: AtomicBool,
    /// The number of times that permits may have become free early.
    changes: AtomicU32,
    /// `None` before the first denial.
    known: ArcSwapOption<Known>,
}

struct Known {
    /// The value of `changes` for these denials; the next change ends them.
    changes: u32,
    refusals: Vec<Refusal>,
}

/// A reply for this many permits that cannot change until `until`.
struct Refusal {
    permits: u32,
    until: Instant,
    heard: Instant,
    /// Whether a polling caller arrived too early, so that the denial lasts longer for such callers.
    has_grace: AtomicBool,
    reply: Reply,
    /// The reply of each of several limits.
    parts: Option<Arc<[Reply]>>,
}

/// Whether a rejected caller waits or retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    Waiting,
    Polling,
}

/// When a request was sent to the store, and the number of changes known at that time.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    at: Instant,
    changes: u32,
}

impl Denials {
    /// Returns whether the cache may contain anything.
    pub(super) fn has_any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Returns the cached denial, or `None` if the store has to be queried.
    pub(super) fn repeated(&self, permits: u32, caller: Caller) -> Option<Heard> {
        if !self.has_any() {
            return None;
        }
        let known = self.known.load();
        let known = known.as_ref().filter(|known| known.changes == self.changes())?;
        let refusal = known.refusals.iter().find(|refusal| refusal.permits == permits)?;
        let now = clock::instant();
        match caller {
            Caller::Waiting => (now < refusal.until).then(|| refusal.as_of(now)),
            Caller::Polling => refusal.refuse_polling(now),
        }
    }

    /// Must be called before a request is sent.
    pub(super) fn mark(&self) -> Mark {
        Mark { at: clock::instant(), changes: self.changes() }
    }

    /// Caches the replies to requests that were sent together, unless something changed here since.
    /// `refuses` is whether one of them would be rejected if it were repeated.
    pub(super) fn note(
        &self,
        sent: Mark,
        costs: &[u32],
        refuses: bool,
        replies: impl FnOnce() -> Vec<Heard>,
    ) {
        if !refuses && !self.has_any() {
            return;
        }
        let counted = |heard: &&Heard| {
            matches!(heard.reply.outcome, Outcome::Granted | Outcome::Refused | Outcome::Blocked)
        };
        let replies = replies();
        let Some(last) = replies.iter().rev().find(counted) else { return };
        // A grant makes the waits of other costs longer.
        let takes = replies.iter().any(|heard| heard.reply.outcome == Outcome::Granted);
        let now = clock::instant();
        let mut refusals: Vec<Refusal> = Vec::new();
        for (&permits, heard) in costs.iter().zip(&replies).filter(|(_, heard)| counted(heard)) {
            let is_new = refusals.iter().all(|refusal| refusal.permits != permits);
            if is_new && refusals.len() < REMEMBERED {
                refusals.extend(Refusal::of(permits, heard, &last.reply, sent, now));
            }
        }
        self.known.rcu(|known| {
            if self.changes() != sent.changes {
                return known.clone();
            }
            let valid = known.as_ref().filter(|known| known.changes == sent.changes && !takes);
            let others = valid.into_iter().flat_map(|known| &known.refusals);
            let others = others.filter(|one| now < one.ends() && !costs.contains(&one.permits));
            let refusals: Vec<_> =
                refusals.iter().chain(others).take(REMEMBERED).cloned().collect();
            let known = Known { changes: sent.changes, refusals };
            (!known.refusals.is_empty()).then(|| Arc::new(known))
        });
        self.any.store(self.known.load().is_some(), Ordering::Release);
    }

    /// Clears the cache, because permits may have become free early.
    pub(super) fn forget(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
        if self.has_any() {
            self.any.store(false, Ordering::Release);
            self.known.store(None);
        }
    }

    fn changes(&self) -> u32 {
        self.changes.load(Ordering::Acquire)
    }
}

impl Refusal {
    /// Returns the denial that follows from a reply; `None` if it is already over, or there is
    /// none. `last` is the last of the replies that arrived together.
    fn of(permits: u32, heard: &Heard, last: &Reply, sent: Mark, now: Instant) -> Option<Self> {
        let Heard { reply, parts } = heard;
        let wait = Duration::from_millis(reply.retry_after_ms).saturating_sub(TICK);
        let until = sent.at + wait.min(AT_MOST);
        let remaining = last.remaining;
        let reply = Reply { remaining, reconciled: None, ahead_ms: 0, ..*reply };
        let (has_grace, parts) = (AtomicBool::new(false), parts.clone());
        (until > now).then_some(Self { permits, until, heard: now, has_grace, reply, parts })
    }

    /// Returns when the denial is over for all callers.
    fn ends(&self) -> Instant {
        let grace = GRACE.min(Duration::from_millis(self.reply.config.per_ms / 50));
        if self.has_grace.load(Ordering::Relaxed) { self.until + grace } else { self.until }
    }

    fn refuse_polling(&self, now: Instant) -> Option<Heard> {
        if now >= self.ends() {
            return None;
        }
        if !self.has_grace.load(Ordering::Relaxed) {
            self.has_grace.store(true, Ordering::Relaxed);
        }
        let mut refusal = self.as_of(now);
        let ends_in = whole_ms(self.ends() - now) + 1;
        refusal.reply.retry_after_ms = refusal.reply.retry_after_ms.max(ends_in);
        Some(refusal)
    }

    /// Returns the denial with its times reduced by the time since the reply. Rounded up, so that a
    /// caller that waits for the reported time is not early.
    fn as_of(&self, now: Instant) -> Heard {
        let passed = whole_ms(now.saturating_duration_since(self.heard));
        let aged = |reply: &Reply| Reply {
            retry_after_ms: reply.retry_after_ms.saturating_sub(passed),
            reset_after_ms: reply.reset_after_ms.saturating_sub(passed),
            more_after_ms: reply.more_after_ms.saturating_sub(passed),
            now_ms: reply.now_ms + passed,
            ..*reply
        };
        let mut reply = aged(&self.reply);
        reply.retry_after_ms = reply.retry_after_ms.max(1);
        if reply.outcome != Outcome::Blocked {
            reply.outcome = Outcome::Refused;
        }
        let parts = self.parts.as_deref().map(|parts| parts.iter().map(aged).collect());
        Heard { reply, parts }
    }
}

impl Clone for Refusal {
    fn clone(&self) -> Self {
        let has_grace = AtomicBool::new(self.has_grace.load(Ordering::Relaxed));
        Self { has_grace, parts: self.parts.clone(), ..*self }
    }
}
