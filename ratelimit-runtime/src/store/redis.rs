//! The Redis store: one script call per decision, in the state format of Redisson.

pub(crate) mod address;
mod connect;
mod fault;
mod link;
mod script;

use std::{fmt, sync::Arc, time::Duration};

use once_cell::sync::Lazy;
use redis::Value;
use tokio::time::{sleep, timeout};

use self::{
    address::Address,
    fault::{Fault, NotDone, classify},
    link::{Link, Live},
    script::{ACQUIRE, ASSERT, Call, PEEK, Script, read_reply},
};
use super::{Reply, Request, StateKeys, Store};
use crate::{
    StoreError,
    events::{Event, Events},
};

pub(crate) use self::connect::Certificates;

/// The scripts by name, for tests that run them with a time of their own.
#[cfg(feature = "test-util")]
#[must_use]
pub fn scripts() -> [(&'static str, &'static str); 3] {
    [
        ("acquire", ACQUIRE.text),
        ("peek", PEEK.text),
        ("assert", ASSERT.text),
    ]
}

/// Pauses between attempts the server answered with "not yet".
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LAST_PAUSE: Duration = Duration::from_millis(20);

/// Keeps limiters in Redis, where any number of processes share them, Java services with
/// Redisson's `RRateLimiter` among them.
///
/// One script call decides. Time is the server's. Every call has a deadline, connection set-up
/// included; what the server refused without doing it (`NOSCRIPT`, `MOVED`, `READONLY`, `LOADING`
/// and the like) is sent again within it, and nothing else is.
///
/// A Redis user needs these commands: `TIME`, `HMGET`, `HGET`, `HSET`, `GET`, `SET`, `ZADD`,
/// `ZCARD`, `ZRANGE`, `ZRANGEBYSCORE`, `ZREM`, `ZREMRANGEBYRANK`, `PTTL`, `PEXPIRE`, `DEL`, `EVAL`,
/// `EVALSHA`; and should have `SCRIPT LOAD` and `HELLO`. Keys are `PREFIX*` and `{PREFIX*`.
pub struct RedisStore {
    link: Arc<Link>,
    deadline: Duration,
    events: Events,
}

impl RedisStore {
    pub(crate) fn new(
        address: Address,
        certificates: Certificates,
        deadline: Duration,
        events: Events,
    ) -> Self {
        Self {
            link: Link::new(address, certificates, events.clone()),
            deadline,
            events,
        }
    }

    /// A store at this address, `redis://`, `rediss://`, `redis-cluster://` and so on, that connects
    /// on first use and gives up on a call after `deadline`.
    ///
    /// # Errors
    ///
    /// When the address cannot be read, or needs a crate feature that is not enabled.
    pub fn open(url: &str, deadline: Duration) -> Result<Self, crate::SetupError> {
        let address = Address::parse(url)?;
        Ok(Self::new(
            address,
            Certificates::default(),
            deadline,
            Events::default(),
        ))
    }

    /// Where the store is, without the password.
    pub(crate) fn address(&self) -> &Address {
        self.link.address()
    }

    /// Looks for what only shows in the middle of a script: commands the user may not run, and
    /// settings under which limits cannot hold. A server that is away is no error: it is warned
    /// about, and `on_store_error` decides until it is back.
    pub(crate) async fn check(&self, key_prefix: &str) -> Result<(), StoreError> {
        let keys = StateKeys::new(format!(
            "{key_prefix}ratelimit-check-{}",
            std::process::id()
        ));
        let checked = timeout(self.deadline.max(Duration::from_secs(2)), async {
            let live = self.link.live(&keys).await?;
            let mut reply = live.connection().query(&script::check(&keys, true)).await;
            if reply
                .as_ref()
                .is_err_and(|error| error.code() == Some("NOSCRIPT"))
            {
                reply = live.connection().query(&script::check(&keys, false)).await;
            }
            let complaints =
                reply.and_then(|reply| Ok(redis::from_redis_value::<Vec<String>>(reply)?));
            match complaints.map_err(|error| classify(&error)) {
                Ok(complaints) => refuse_complaints(&complaints)?,
                Err(Fault::Permanent(error) | Fault::Transient(error)) => return Err(error),
                Err(Fault::NotDone(_)) => {}
            }
            self.warn_of_eviction(&live).await;
            Ok(())
        });
        let error = match checked.await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => error,
            Err(_) => StoreError::unavailable("redis: no answer at startup"),
        };
        if error.kind() == crate::StoreErrorKind::Misconfigured {
            return Err(error);
        }
        self.link.close(&keys, error);
        Ok(())
    }

    async fn warn_of_eviction(&self, live: &Live) {
        let reply = live
            .connection()
            .query(redis::cmd("INFO").arg("memory"))
            .await;
        // A user who may not ask, or a cluster's many answers, cost the warning and no more.
        let Ok(text) = reply.and_then(|reply| Ok(redis::from_redis_value::<String>(reply)?)) else {
            return;
        };
        let policy = text
            .lines()
            .find_map(|line| line.strip_prefix("maxmemory_policy:"));
        if let Some(policy) = policy.map(str::trim)
            && policy != "noeviction"
        {
            self.events.emit(&Event::EvictionPossible {
                policy: policy.to_owned(),
            });
        }
    }

    async fn run(&self, script: &Lazy<Script>, request: &Request<'_>) -> Result<Reply, StoreError> {
        let mut attempt = Attempt {
            link: &self.link,
            used: None,
            excuse: None,
        };
        match timeout(self.deadline, attempt.call(script, request)).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(error)) => {
                // A wrong password concerns everybody, a key of a wrong type only its limiter.
                if attempt.used.is_none() || error.kind() == crate::StoreErrorKind::Unavailable {
                    self.link.close(request.keys, error.clone());
                }
                Err(error)
            }
            Err(_) => {
                let waited = format!("redis: no answer within {:?}", self.deadline);
                let error = attempt
                    .excuse
                    .take()
                    .unwrap_or_else(|| StoreError::unavailable(waited));
                if self.link.close(request.keys, error.clone())
                    && let Some(live) = attempt.used
                {
                    self.link.timed_out(&live);
                }
                Err(error)
            }
        }
    }
}

/// One decision's way through the connection, remembered for when the deadline cuts it short.
struct Attempt<'a> {
    link: &'a Arc<Link>,
    used: Option<Arc<Live>>,
    excuse: Option<StoreError>,
}

impl Attempt<'_> {
    async fn call(&mut self, script: &Script, request: &Request<'_>) -> Result<Reply, StoreError> {
        let (mut by_name, mut pause) = (true, FIRST_PAUSE);
        loop {
            let live = self.link.live(request.keys).await?;
            self.used = Some(Arc::clone(&live));
            let call = Call {
                script,
                request,
                since: live.server_time(request.since),
            };
            let command = call.command(by_name);
            let error = match live.connection().query(&command).await {
                Ok(value) => {
                    self.link.answered(&live);
                    return read_reply(&value, request.config.keep_alive_ms);
                }
                Err(error) => error,
            };
            match classify(&error) {
                Fault::NotDone(NotDone::NoScript) => by_name = false,
                Fault::NotDone(NotDone::Moving(moving)) => {
                    if let Some(value) = self.ask(&live, &call, &moving).await {
                        return read_reply(&value, request.config.keep_alive_ms);
                    }
                    self.pause(
                        &mut pause,
                        StoreError::unavailable(format!("redis: {moving}")),
                    )
                    .await;
                }
                Fault::NotDone(NotDone::ReadOnly(error)) => {
                    self.link.discard(&live);
                    self.pause(&mut pause, error).await;
                }
                Fault::NotDone(NotDone::NotYet(error)) => self.pause(&mut pause, error).await,
                Fault::Permanent(error) => return Err(error),
                Fault::Transient(store_error) => {
                    if error.is_connection_dropped() {
                        self.link.discard(&live);
                    }
                    return Err(store_error);
                }
            }
        }
    }

    /// Asks the node a slot is moving to; nothing when it does not answer with a decision either.
    async fn ask(&self, live: &Live, call: &Call<'_>, moving: &redis::RedisError) -> Option<Value> {
        #[cfg(feature = "cluster")]
        {
            live.connection()
                .query_moving(&call.command(false), moving)
                .await
                .ok()
        }
        #[cfg(not(feature = "cluster"))]
        {
            let _ = (live, call, moving);
            None
        }
    }

    async fn pause(&mut self, pause: &mut Duration, excuse: StoreError) {
        self.excuse = Some(excuse);
        sleep(*pause).await;
        *pause = (*pause * 2).min(LAST_PAUSE);
    }
}

fn refuse_complaints(complaints: &[String]) -> Result<(), StoreError> {
    if complaints.is_empty() {
        return Ok(());
    }
    let complaints = complaints.join("; ");
    Err(StoreError::misconfigured(format!(
        "redis: the Redis user may not do what the scripts need; grant these commands: {complaints}"
    )))
}

impl Store for RedisStore {
    async fn acquire(&self, request: &Request<'_>) -> Result<Reply, StoreError> {
        self.run(&ACQUIRE, request).await
    }

    async fn peek(&self, request: &Request<'_>) -> Result<Reply, StoreError> {
        self.run(&PEEK, request).await
    }

    async fn assert(&self, request: &Request<'_>) -> Result<Reply, StoreError> {
        self.run(&ASSERT, request).await
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("address", self.address())
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}
