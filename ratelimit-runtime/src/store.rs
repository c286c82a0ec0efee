//! Where limiters keep their state.
//!
//! A [`Store`] decides [`Group`]s of callers, atomically. It knows the rules and nothing of
//! policies or waiting: those are the limiter's. Tests reach it through `__private::store`.
#![cfg_attr(
    not(feature = "test-util"),
    allow(unreachable_pub, reason = "stores are closed: only tests reach them from outside")
)]

mod any;
mod group;
mod keys;
mod member;
mod memory;
#[cfg(feature = "redis")]
pub(crate) mod redis;
#[cfg(not(feature = "redis"))]
#[path = "store/no_redis.rs"]
pub(crate) mod redis;
mod replaced;
mod request;
mod sweep;

use std::{future::Future, time::Duration};

use ratelimit_spec::Penalty;
use tokio::time::Instant;

#[cfg(all(feature = "redis", feature = "test-util"))]
pub use self::redis::{
    CalendarCall, Decisions, script_charge, script_charged, script_decide, script_decisions,
    script_give_back, script_peek, script_peeked, script_penalize, script_penalized,
    script_release, script_reservations, script_reserve, script_write,
};
pub(crate) use self::{
    any::AnyStore,
    group::Heard,
    memory::{Lease, Rejects, Slot, Terms, Whose},
    sweep::Sweep,
};
pub use self::{
    group::Group,
    keys::StateKeys,
    member::{Counts, Member, MemberId},
    memory::MemoryStore,
    redis::RedisStore,
    request::Request,
};
pub use crate::algorithm::{
    Charged, Config, Grant, Refused, Ticket,
    reconcile::{Assertion, Reconciled},
};
use crate::{StoreError, algorithm::reconcile::Reconciliation};

/// What a store says of groups: for each its replies by limiter and caller, or its error.
pub type Decided = Vec<Result<Vec<Vec<Reply>>, StoreError>>;

/// Keeps the state of limiters and decides by it.
///
/// `tests/store` has what every store must do, as a suite that runs against each of them.
pub trait Store: Send + Sync + 'static {
    /// Decides groups in order, in one atomic step with one time. The configuration of each
    /// limiter is reconciled first.
    ///
    /// A caller's replies say which limiters refuse it: one that would have let it through says
    /// [`Outcome::NotTaken`]. If one limiter of a group is `PerClient` or `Unknown`, the group takes
    /// nothing, and its other limiters say `NotTaken`. The order of limiters changes no outcome.
    ///
    /// The replies of one limiter are those of separate calls at one instant, so a later smaller
    /// cost may be granted after an earlier one was refused. They differ in `outcome`, `remaining`
    /// and `retry_after_ms` alone; what is reported once (`reconciled`, `replaced`, `ahead_ms`) is in the
    /// first.
    ///
    /// # Errors
    ///
    /// The outer error concerns the whole call: the store cannot answer. The error of a group
    /// concerns that group alone: a state that no limiter writes, a key of another type, or a group
    /// that names a limiter twice or lacks a cost. A limit that is used up is no error. On Redis
    /// Cluster all limiters of a call are in one slot, or the whole call fails.
    fn decide(
        &self,
        groups: &[Group<'_>],
    ) -> impl Future<Output = Result<Decided, StoreError>> + Send;

    /// Takes permits that are free now or within so many milliseconds, for each of several costs in order
    /// and in one atomic step, and says when each caller may go: later callers come after it. What is
    /// free too late is refused, with nothing taken, and so is everything after it; so is all that is
    /// counted by a rule without reservations ([`Reservation`]). What is
    /// said once (`reconciled`, `ahead_ms`) is in the first reply.
    ///
    /// However long it can wait, nobody reserves further ahead than 2^51 / `rate` milliseconds: 17
    /// minutes at the greatest rate, and 70 000 years at 1.
    ///
    /// # Errors
    ///
    /// When the store cannot answer, or the limiter's state is none that a limiter writes.
    fn reserve(
        &self,
        request: &Request<'_>,
        costs: &[u32],
        within_ms: u64,
    ) -> impl Future<Output = Result<Vec<Reservation>, StoreError>> + Send;

    /// Gives back what a grant still holds and nothing of any other, and returns how many permits that
    /// are: none once its window is over, when the limiter is `per_client`, or when its permits cannot be
    /// distinguished from those of others any more, since the rule changed. A slot of a leaky bucket comes back
    /// only if nothing was placed after it.
    ///
    /// # Errors
    ///
    /// As for `reserve`.
    fn give_back(
        &self,
        keys: &StateKeys,
        grant: &Grant,
    ) -> impl Future<Output = Result<u64, StoreError>> + Send;

    /// Takes permits for a cost that is known only now: those that are free, and the others as a debt,
    /// up to `max_debt` in all. Every process pays the debt before it is granted anything. The reply is
    /// that to a look for one permit afterwards, and [`Outcome::Granted`] wherever the store counts.
    ///
    /// # Errors
    ///
    /// As for `reserve`.
    fn charge(
        &self,
        request: &Request<'_>,
        permits: u32,
        max_debt: u64,
    ) -> impl Future<Output = Result<(Reply, Charged), StoreError>> + Send;

    /// Says what [`decide`](Self::decide) would of a request of this cost, and changes nothing.
    ///
    /// # Errors
    ///
    /// As for `reserve`.
    fn peek(
        &self,
        request: &Request<'_>,
        cost: u32,
    ) -> impl Future<Output = Result<Reply, StoreError>> + Send;

    /// Gives permits back, those that are owed first and then the oldest ones, and returns how many there
    /// were to give back: no window can come to hold too many. Nothing when nobody ever configured the
    /// limiter, when it is `per_client`, or while slots of a leaky bucket are reserved.
    ///
    /// # Errors
    ///
    /// As for `reserve`.
    fn release(
        &self,
        keys: &StateKeys,
        permits: u32,
    ) -> impl Future<Output = Result<u64, StoreError>> + Send;

    /// Records a rejection, and blocks the limiter if it was refused in as many consecutive windows as its penalty
    /// allows. Until that ends, [`decide`](Self::decide) grants nothing to requests with a
    /// [penalty](Request::penalty), and says [`Outcome::Blocked`].
    ///
    /// # Errors
    ///
    /// When the store cannot answer.
    fn penalize(
        &self,
        keys: &StateKeys,
        penalty: &Penalty,
        per_ms: u64,
    ) -> impl Future<Output = Result<Refused, StoreError>> + Send;

    /// Forgets in how many windows the limiter was refused and how often it was blocked, and returns whether
    /// there was anything to forget.
    ///
    /// # Errors
    ///
    /// When the store cannot answer.
    fn lift(&self, keys: &StateKeys) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Writes a configuration on purpose, and returns whether it did. It stays until a process that is
    /// configured differently starts, or until `hold_ms` later if that is later.
    ///
    /// # Errors
    ///
    /// As for `reserve`.
    fn write(
        &self,
        keys: &StateKeys,
        config: Config,
        when: WriteWhen,
        state: KeepState,
        hold_ms: u64,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Returns the stored configuration, if the limiter has one.
    ///
    /// # Errors
    ///
    /// As for `reserve`.
    fn read(
        &self,
        keys: &StateKeys,
    ) -> impl Future<Output = Result<Option<StoredConfig>, StoreError>> + Send;

    /// Deletes configuration, state and penalty, and returns whether there was any.
    ///
    /// # Errors
    ///
    /// As for `reserve`.
    fn delete(&self, keys: &StateKeys) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Sets or clears when everything of a limiter expires, and returns whether that changed
    /// anything.
    ///
    /// # Errors
    ///
    /// As for `reserve`.
    fn expire(
        &self,
        keys: &StateKeys,
        expiry: Expiry,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// How long the limiter has left; nothing when it does not expire or does not exist.
    ///
    /// # Errors
    ///
    /// As for `reserve`.
    fn ttl(
        &self,
        keys: &StateKeys,
    ) -> impl Future<Output = Result<Option<Duration>, StoreError>> + Send;

    /// Reconciles the configuration alone, for limiters that count in the process.
    ///
    /// # Errors
    ///
    /// As for `reserve`.
    fn assert(
        &self,
        request: &Request<'_>,
    ) -> impl Future<Output = Result<Reply, StoreError>> + Send;
}

/// Under which condition [`Store::write`] writes.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteWhen {
    /// Whatever is stored.
    Always,
    /// Only when nothing is, or only a part.
    Absent,
    /// Only when something is.
    Present,
}

/// What happens to permits in use when a quota is changed on purpose.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeepState {
    /// They are forgotten: the whole new quota is free.
    Reset,
    /// They still count.
    Keep,
}

/// When a limiter expires.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Expiry {
    /// So many milliseconds from now.
    At(u64),
    /// So many milliseconds after its last use; 0 is never. Redisson's `keepAliveTime`.
    Idle(u64),
    /// Not, unless it is kept alive for a time after each use.
    Cleared,
}

/// What a [`Store`] answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reply {
    /// The answer proper.
    pub outcome: Outcome,
    /// Permits left after it.
    pub remaining: u64,
    /// Milliseconds until the same request could be granted, if nobody else asks: 0 when it could be
    /// right now, or never. A grant that took the last permits so tells when the next are free.
    pub retry_after_ms: u64,
    /// Milliseconds until the whole quota is free, if nobody asks.
    pub reset_after_ms: u64,
    /// Milliseconds until more permits are free than what is left; 0 when all are. As of the end of a
    /// batch, after which others may have less left.
    pub more_after_ms: u64,
    /// Milliseconds since the Unix epoch by the store's clock.
    pub now_ms: u64,
    /// How far in the future a peer's grant was dated, in milliseconds; its clock is wrong then.
    pub ahead_ms: u64,
    /// How far the grants of a bucket have moved so far, as permits before them were given back; in
    /// parts of a permit that only the rule knows.
    pub(crate) moved: u64,
    /// The configuration in force.
    pub config: Config,
    /// What reconciliation did, if it had anything to do.
    pub reconciled: Option<Reconciled>,
    /// The stored configuration that ours replaced, without its keep-alive.
    pub replaced: Option<&'static Config>,
    /// The process that announced the configuration that this one follows, if no process has sent a
    /// heartbeat for that configuration for a while.
    pub announcer: Option<MemberId>,
    /// Which of a key's several limits refuse, one bit for each. The limiter puts their replies
    /// together; a store, which knows of one at a time, leaves it empty.
    pub(crate) violated: u8,
}

impl Reply {
    /// The same reply with the outcome of reconciliation.
    fn after(self, outcome: Reconciliation) -> Self {
        let Reconciliation { reconciled, replaced } = outcome;
        Self { reconciled, replaced: replaced.and_then(replaced::kept), ..self }
    }
}

/// The heartbeat of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heartbeat<'a> {
    pub(crate) key_prefix: &'a str,
    pub(crate) id: MemberId,
    pub(crate) program: &'a str,
    /// Since when it runs.
    pub(crate) since: Instant,
    /// How long it lives without another one.
    pub(crate) lives_ms: u64,
    /// What its limiters did, a line each.
    pub(crate) limiters: &'a str,
}

/// What a [`Store`] keeps of a limiter's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredConfig {
    /// The configuration in force.
    pub config: Config,
    /// For how long no process replaces it, in milliseconds; 0 if it is not held.
    pub held_for_ms: u64,
}

impl Grant {
    /// What a granted reply stands for. `granted_after` is what later callers got of the limiter in the
    /// same step.
    #[must_use]
    pub fn of(reply: &Reply, permits: u32, granted_after: u64) -> Self {
        let ends_ms = reply.now_ms.saturating_add(reply.reset_after_ms);
        Self::new(reply.config, permits, ends_ms, granted_after).moved(reply.moved)
    }
}

/// What a [`Store`] answers to a caller that can wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reservation {
    /// The answer as to any other request, as of after the permits were taken. A limiter whose rule in
    /// force is no bucket refuses.
    pub reply: Reply,
    /// Milliseconds after which the caller may go; 0 unless it was granted.
    pub wait_ms: u64,
    /// What identifies it.
    pub ticket: Ticket,
}

/// Whether a [`Store`] handed the permits out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// It did.
    Granted,
    /// Not now.
    Refused,
    /// Not now: a penalty blocks it. More is free when that ends.
    Blocked,
    /// Not ever: a full window has fewer permits.
    ExceedsCapacity,
    /// Not, though there was room: another limiter that had to grant it too did not. Nothing was taken.
    NotTaken,
    /// The limiter is stored as `per_client`, so the store does not count it.
    PerClient,
    /// Nothing is stored, and the process has no numbers of its own.
    Unknown,
}
