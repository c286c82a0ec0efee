//! Direct calls of stores and scripts in tests: for one limiter or one group, instead of groups of limiters.

use std::{future::Future, time::Duration};

use ratelimit_runtime::{
    __private::store::{
        CalendarCall, Config, Group, Reply, Request, StateKeys, Store, script_decide,
        script_decisions,
    },
    StoreError,
    test_util::ManualClock,
};
use redis::{Cmd, Connection, FromRedisValue, Value};
use tokio::time::Instant;

/// One clock for a store in the process and for scripts on a server, moved by hand.
#[derive(Debug)]
pub struct OneTime {
    clock: ManualClock,
    /// The current time for scripts, in milliseconds since the Unix epoch.
    pub now: u64,
    /// The latest time so far.
    latest: u64,
}

impl OneTime {
    /// Starts at the time of the store's clock.
    #[must_use]
    pub fn new(clock: ManualClock) -> Self {
        let now = 1_700_000_000_000;
        Self { clock, now, latest: now }
    }

    /// Moves both forward.
    pub fn advance(&mut self, ms: u64) {
        self.now += ms;
        self.latest = self.latest.max(self.now);
        self.clock.advance(Duration::from_millis(ms));
    }

    /// Returns since when a process has its configuration, in microseconds: the first two processes have it for
    /// longer than any configuration a test writes, the others for less long.
    #[must_use]
    pub fn since_us(&self, process: usize) -> u64 {
        process as u64 + if process < 2 { 10 } else { self.latest * 1000 + 1000 }
    }

    /// Moves both back.
    pub fn rewind(&mut self, ms: u64) {
        self.now -= ms;
        self.clock.step_back(Duration::from_millis(ms));
    }

    /// Calls a script, by name or, if the server does not have it yet, with its text.
    ///
    /// # Panics
    ///
    /// Panics if the server returns an error, or another type.
    pub fn call<T: FromRedisValue>(&self, redis: &mut Connection, call: impl Fn(bool) -> Cmd) -> T {
        let reply = match call(true).arg(self.now).query(redis) {
            Err(error) if error.code() == Some("NOSCRIPT") => {
                call(false).arg(self.now).query(redis)
            }
            reply => reply,
        };
        reply.expect("a reply of this type")
    }
}

/// Decisions for one group.
pub trait Decide: Store {
    /// Takes permits from one limiter.
    fn acquire(
        &self,
        request: &Request<'_>,
        permits: u32,
    ) -> impl Future<Output = Result<Reply, StoreError>> + Send {
        async move { Ok(self.acquire_all(request, &[permits]).await?.remove(0)) }
    }

    /// Takes permits from one limiter for several callers.
    fn acquire_all(
        &self,
        request: &Request<'_>,
        costs: &[u32],
    ) -> impl Future<Output = Result<Vec<Reply>, StoreError>> + Send {
        async move { Ok(self.acquire_jointly(&[*request], &[costs]).await?.remove(0)) }
    }

    /// Takes permits from all of several limiters or from none.
    fn acquire_jointly(
        &self,
        requests: &[Request<'_>],
        costs: &[&[u32]],
    ) -> impl Future<Output = Result<Vec<Vec<Reply>>, StoreError>> + Send {
        async move { self.decide(&[Group { requests, costs }]).await?.remove(0) }
    }
}

impl<S: Store> Decide for S {}

/// Returns the call of the deciding script for one limiter.
pub fn call(request: &Request<'_>, costs: &[u32], since_us: u64, by_name: bool) -> Cmd {
    let group = Group { requests: &[*request], costs: &[costs] };
    script_decide(&[group], |_| since_us, by_name)
}

/// Parses the reply to such a call by a process with this configuration. Returns `None` if the call
/// lacked calendar windows, which the next call then includes.
pub fn replies(
    value: &Value,
    own: &Config,
    costs: &[u32],
    windows: &mut CalendarCall,
) -> Result<Option<Vec<Reply>>, StoreError> {
    let keys = StateKeys::new("any");
    let request = Request::new(&keys, *own, Instant::now());
    let group = Group { requests: &[request], costs: &[costs] };
    let decided = script_decisions(value, &[group], windows)?.remove(0)?;
    Ok(decided.map(|mut replies| replies.remove(0)))
}

/// Parses the reply to a call that lacks no windows.
pub fn all_replies(value: &Value, own: &Config, costs: &[u32]) -> Result<Vec<Reply>, StoreError> {
    replies(value, own, costs, &mut CalendarCall::default())
        .map(|replies| replies.expect("no windows are needed"))
}
