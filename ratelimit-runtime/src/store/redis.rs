//! The Redis store: one script call per decision, in the state format of Redisson.

pub(crate) mod address;
mod attempt;
mod call;
mod cluster;
mod connect;
#[cfg(feature = "redis-connect")]
mod connector;
mod fault;
mod gate;
mod groups;
#[cfg(feature = "test-util")]
pub(super) mod hooks;
mod line;
mod link;
mod members;
mod nodes;
mod penalize;
mod reply;
mod reserve;
mod rule;
mod script;
mod settle;
mod shown;
mod startup;
mod windows;

use std::{
    borrow::Cow,
    fmt,
    pin::pin,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use once_cell::sync::Lazy;
use ratelimit_spec::Penalty;
use redis::{FromRedisValue, ParsingError, Value};
use tokio::{sync::Notify, time::Instant};

use self::{
    address::Address,
    attempt::{Attempt, Progress},
    call::{Call, Of, Plain, Tell},
    groups::runs,
    link::Link,
    penalize::Penalize,
    reply::{read_look, unknown_reply},
    reserve::read_reservations,
    rule::write_rule,
    script::{
        ASSERT, EXPIRE, PEEK, READ, RELEASE, RESERVE, SET_RATE, Script, member_id, member_text,
    },
    shown::Shown,
    windows::Windows,
};
use super::{
    Charge, Charged, Config, Decided, Expiry, Grant, Group, KeepState, Refused, Reply, Request,
    Reservation, StateKeys, Store, StoredConfig, WriteWhen,
};
use crate::{StoreError, clock, engine::Engine, events::Events};

#[cfg(feature = "tls")]
pub(crate) use self::connect::check_authorities;
pub(crate) use self::connect::{Certificates, Root};
#[cfg(feature = "redis-connect")]
pub(crate) use self::connector::Connector;

/// How long a batch waits for a reply after the deadline, to refund what was granted.
const LATE_REPLY: Duration = Duration::from_secs(5);

/// A store in Redis, shared by any number of processes, including Java services with Redisson's `RRateLimiter`.
///
/// Each decision takes one script call. Time is the server's. Every call has a deadline, connection setup
/// included. Only a command that the server reports as not executed (`NOSCRIPT`, `MOVED`, `READONLY`,
/// `LOADING` and the like) is resent, within the deadline.
///
/// A Redis user needs these commands: `TIME`, `HMGET`, `HGET`, `HSET`, `HDEL`, `EXISTS`, `GET`, `SET`,
/// `ZADD`, `ZCARD`, `ZRANGE`, `ZRANGEBYSCORE`, `ZREM`, `ZREMRANGEBYRANK`, `PTTL`, `PEXPIRE`, `PERSIST`,
/// `DEL`, `UNLINK`, `EVAL`, `EVALSHA`; and should have `SCRIPT LOAD` and `HELLO`. Keys are `PREFIX*` and `{PREFIX*`.
pub struct RedisStore {
    link: Arc<Link>,
    events: Events,
    /// Whether the server was asked if it evicts keys.
    is_checked: AtomicBool,
}

impl RedisStore {
    pub(crate) fn new(
        address: Address,
        certificates: Certificates,
        deadline: Duration,
        events: Events,
        engine: Arc<Engine>,
    ) -> Self {
        let link = Link::new(address, certificates, deadline, events.clone(), engine);
        Self { link, events, is_checked: AtomicBool::new(false) }
    }

    /// Creates a store at this address (`redis://`, `rediss://`, `redis-cluster://` and so on). It connects
    /// on first use and abandons a call after `deadline`.
    ///
    /// # Errors
    ///
    /// Returns an error if the address is invalid, or needs a crate feature that is not enabled.
    #[cfg(feature = "test-util")]
    pub fn open(url: &str, deadline: Duration) -> Result<Self, crate::SetupError> {
        let address = Address::parse(url).map_err(|problem| problem.alone())?;
        Ok(Self::new(address, Certificates::default(), deadline, Events::default(), Arc::default()))
    }

    /// Creates a store that trusts the certificate authorities in a PEM text, instead of the system's.
    ///
    /// # Errors
    ///
    /// As for [`open`](Self::open).
    #[cfg(all(feature = "tls", feature = "test-util"))]
    pub fn open_trusting(
        url: &str,
        ca_pem: Vec<u8>,
        deadline: Duration,
    ) -> Result<Self, crate::SetupError> {
        let root = Root { file: None, pem: ca_pem.into() };
        let certificates = Certificates { root: Some(root) };
        Ok(Self::new(
            Address::parse(url).map_err(|problem| problem.alone())?,
            certificates,
            deadline,
            Events::default(),
            Arc::default(),
        ))
    }

    /// Returns whether the keys of a call have to be in one slot.
    pub(crate) fn is_cluster(&self) -> bool {
        self.address().topology == address::Topology::Cluster
    }

    /// Returns an error if calls are known not to be sent to the server.
    pub(crate) fn health(&self) -> Result<(), StoreError> {
        self.link.gates.health()
    }

    /// Fails every call from now on, and closes the connections.
    pub(crate) fn end(&self) {
        self.link.end();
    }

    /// Returns why calls for a limiter fail immediately, or `None` if they are sent.
    pub(crate) fn why_closed(&self, keys: &StateKeys) -> Option<StoreError> {
        self.link.gates.why_closed(keys)
    }

    /// Returns until when other processes may not have found a limiter's server that this one found again.
    pub(crate) fn recovers_until(&self, keys: &StateKeys) -> Option<Instant> {
        self.link.gates.recovers_until(keys)
    }

    /// Returns the `Notify` that wakes a task when calls are sent again.
    pub(crate) fn reopened(&self) -> Arc<Notify> {
        self.link.gates.reopened()
    }

    /// Returns the address of the store, without the password.
    pub(crate) fn address(&self) -> &Address {
        &self.link.address
    }

    /// Runs a script that replies to a request and takes nothing.
    async fn look(
        &self,
        script: &Lazy<Script>,
        request: &Request<'_>,
        cost: u32,
    ) -> Result<Reply, StoreError> {
        let value = self.ask(script, request, &cost.to_string(), &member_id()).await?;
        read_look(&value, cost, &request.config)
    }

    /// Runs a script with its arguments, or a plain command, and returns a value of a known type.
    async fn tell<T: FromRedisValue>(&self, call: &impl Call) -> Result<T, StoreError> {
        read(self.run(call).await?)
    }

    async fn run(&self, call: &impl Call) -> Result<Value, StoreError> {
        let (link, attempt) = (&self.link, Attempt::new(&self.link));
        let runtime = attempt.line.runtime().clone().into();
        let mut calling = pin!(attempt.call(call));
        let in_time = clock::timeout_on(runtime, link.engine(), link.deadline, calling.as_mut());
        let elapsed = match in_time.await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => {
                if attempt.concerns_all(&error)
                    && link.gates.why_closed(call.keys()).is_none()
                    && !attempt.line.is_over(link.engine()).await
                {
                    attempt.close(call.keys(), error.clone());
                }
                return Err(error);
            }
            Err(elapsed) => elapsed,
        };
        let Progress { used, redirected, is_sent, excuse } =
            std::mem::take(&mut *attempt.progress());
        let waited = format!("redis: no reply within {:?}", link.deadline);
        let error = excuse.unwrap_or_else(|| StoreError::timeout(waited));
        if !elapsed.stalled && attempt.concerns_all(&error) {
            let is_first = link.close(call.keys(), error.clone(), redirected.as_ref());
            // Of the calls that time out together, one counts for each connection.
            if let Some(live) = used
                && (is_first || is_sent && !live.is_doubtful())
            {
                live.timed_out();
            }
        }
        if is_sent
            && call.needs_late_reply()
            && let Ok(Ok(value)) = clock::timeout(link.engine(), LATE_REPLY, calling).await
        {
            return Ok(value);
        }
        Err(error.in_doubt(is_sent))
    }
}

fn read<T: FromRedisValue>(value: Value) -> Result<T, StoreError> {
    redis::from_redis_value(value).map_err(|error: ParsingError| {
        let text = error.to_string();
        StoreError::unavailable(format!("redis: unexpected reply: {}", Shown(&text)))
    })
}

/// Returns the arguments of the script that writes a configuration.
fn write_words(config: Config, when: WriteWhen, state: KeepState, hold_ms: u64) -> Vec<String> {
    let when = match when {
        WriteWhen::Always => "always",
        WriteWhen::Absent => "absent",
        WriteWhen::Present => "present",
    };
    let state = if state == KeepState::Keep { "keep" } else { "reset" };
    let Config { rate, per_ms, keep_alive_ms, .. } = config;
    let rule = write_rule(&config).into_owned();
    let numbers = [rate.to_string(), per_ms.to_string(), rule, keep_alive_ms.to_string()];
    let how = [format!("{when}/{state}"), hold_ms.to_string(), member_text()];
    numbers.into_iter().chain(how).collect()
}

/// Reads the reply of `lua/read.lua`.
fn read_config(words: &[Cow<'_, str>]) -> Result<Option<StoredConfig>, StoreError> {
    let [rate, per_ms, rule, keep_alive_ms, held_for_ms] = words else { return Ok(None) };
    let number = |word: &str| word.parse::<u64>().map_err(|_| reply::foreign());
    let config = rule::read_rule(rule, number(rate)?, number(per_ms)?);
    let config = config.ok_or_else(|| reply::unknown_rule(rule))?;
    Ok(Some(StoredConfig {
        config: config.keep_alive_ms(number(keep_alive_ms)?),
        held_for_ms: number(held_for_ms)?,
    }))
}

impl Store for RedisStore {
    async fn decide(&self, groups: &[Group<'_>]) -> Result<Decided, StoreError> {
        self.decide_groups(groups).await
    }

    async fn reserve(
        &self,
        request: &Request<'_>,
        costs: &[u32],
        within_ms: u64,
    ) -> Result<Vec<Reservation>, StoreError> {
        if costs.is_empty() {
            return Ok(Vec::new());
        }
        let within = within_ms.to_string();
        let value = self.ask(&RESERVE, request, &runs(costs), within.as_bytes()).await?;
        read_reservations(&value, request, costs)
    }

    async fn give_back(&self, keys: &StateKeys, grant: &Grant) -> Result<u64, StoreError> {
        self.give_back_grant(keys, grant).await
    }

    async fn charge(
        &self,
        request: &Request<'_>,
        charge: Charge,
    ) -> Result<(Reply, Charged), StoreError> {
        self.charge_now(request, charge).await
    }

    async fn peek(&self, request: &Request<'_>, cost: u32) -> Result<Reply, StoreError> {
        self.look(&PEEK, request, cost).await
    }

    async fn assert(&self, request: &Request<'_>) -> Result<Reply, StoreError> {
        self.look(&ASSERT, request, 0).await
    }

    async fn release(&self, keys: &StateKeys, permits: u32) -> Result<u64, StoreError> {
        let mut released = 0;
        loop {
            let left = u64::from(permits) - released;
            let release =
                |windows| Tell { windows, ..Tell::new(&RELEASE, keys, vec![left.to_string()]) };
            let value = self.run_with_windows(Windows::default(), None, release).await?;
            let (outcome, given, more): (u8, u64, u8) = read(value.clone())?;
            if outcome == 4 {
                return Err(reply::foreign());
            }
            if given > left {
                return Err(unknown_reply(&value));
            }
            released += given;
            // A long log is released in steps, so that no script runs for long.
            if more == 0 {
                return Ok(released);
            }
        }
    }

    async fn penalize(
        &self,
        keys: &StateKeys,
        penalty: &Penalty,
        per_ms: u64,
    ) -> Result<Refused, StoreError> {
        penalize::read_refused(&self.run(&Penalize { keys, penalty, per_ms }).await?)
    }

    async fn lift(&self, keys: &StateKeys) -> Result<bool, StoreError> {
        let deleted: u64 = self.tell(&Plain { name: "DEL", keys, of: Of::Penalty }).await?;
        Ok(deleted > 0)
    }

    async fn write(
        &self,
        keys: &StateKeys,
        config: Config,
        when: WriteWhen,
        state: KeepState,
        hold_ms: u64,
    ) -> Result<bool, StoreError> {
        let words = write_words(config, when, state, hold_ms);
        self.tell(&Tell::new(&SET_RATE, keys, words)).await
    }

    async fn read(&self, keys: &StateKeys) -> Result<Option<StoredConfig>, StoreError> {
        let words: Vec<Vec<u8>> = self.tell(&Tell::new(&READ, keys, Vec::new())).await?;
        // Other programs may have written bytes that are not text.
        let words: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
        read_config(&words)
    }

    async fn delete(&self, keys: &StateKeys) -> Result<bool, StoreError> {
        let deleted: u64 = self.tell(&Plain { name: "DEL", keys, of: Of::All }).await?;
        Ok(deleted > 0)
    }

    async fn expire(&self, keys: &StateKeys, expiry: Expiry) -> Result<bool, StoreError> {
        let (ms, how) = match expiry {
            Expiry::At(ms) => (Some(ms), "once"),
            Expiry::Cleared => (None, "once"),
            Expiry::Idle(ms) => (Some(ms).filter(|ms| *ms > 0), "idle"),
        };
        let ms = ms.map_or_else(|| "never".to_owned(), |ms| ms.to_string());
        let words = vec![ms, how.to_owned()];
        let changed: u64 = self.tell(&Tell::new(&EXPIRE, keys, words)).await?;
        Ok(changed > 0)
    }

    async fn ttl(&self, keys: &StateKeys) -> Result<Option<Duration>, StoreError> {
        let ms: i64 = self.tell(&Plain { name: "PTTL", keys, of: Of::Config }).await?;
        // -1 is no expiry, -2 no key.
        Ok(u64::try_from(ms).ok().map(Duration::from_millis))
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("address", self.address())
            .field("deadline", &self.link.deadline)
            .finish_non_exhaustive()
    }
}
