//! What a limiter is in Redis, read past both sides.

use std::collections::BTreeMap;

use ratelimit_runtime::__private::store::StateKeys;
use redis::{Connection, pipe};
use tests::{redis_server::RedisServer, state::Epoch};

/// A limiter's keys at one instant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct State {
    /// The fields that are texts.
    pub(crate) config: BTreeMap<String, String>,
    pub(crate) epoch: Option<Epoch>,
    pub(crate) counter: Option<i64>,
    pub(crate) log: Vec<Entry>,
}

/// A member of the log.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) member: Vec<u8>,
    pub(crate) at_ms: f64,
}

impl Entry {
    /// Its permits: the last four bytes, after one with the length of an id, and the id.
    pub(crate) fn permits(&self) -> u32 {
        permits(&self.member).unwrap_or_else(|| panic!("a foreign member {:?}", self.member))
    }
}

/// The permits of a member of the log, if it is one.
pub(crate) fn permits(member: &[u8]) -> Option<u32> {
    let (length, rest) = member.split_first()?;
    let (id, permits) = rest.split_at_checked(usize::from(*length))?;
    assert_eq!(id.len(), usize::from(*length));
    Some(u32::from_le_bytes(permits.try_into().ok()?))
}

/// A member of the log with this id.
pub(crate) fn member(id: &[u8], permits: u32) -> Vec<u8> {
    let length = u8::try_from(id.len()).expect("ids are short");
    [&[length], id, &permits.to_le_bytes()].concat()
}

impl State {
    pub(crate) fn of(server: &RedisServer, name: &str) -> Self {
        Self::read(&mut server.connect().expect("the server accepts"), &StateKeys::new(name))
    }

    pub(crate) fn read(redis: &mut Connection, keys: &StateKeys) -> Self {
        type Log = Vec<(Vec<u8>, f64)>;
        type Fields = BTreeMap<String, Vec<u8>>;
        let (mut fields, counter, log): (Fields, _, Log) = pipe()
            .atomic()
            .cmd("HGETALL")
            .arg(keys.config())
            .cmd("GET")
            .arg(keys.counter())
            .cmd("ZRANGE")
            .arg(keys.log())
            .arg(&["0", "-1", "WITHSCORES"])
            .query(redis)
            .expect("keys of a limiter");
        let log = log.into_iter().map(|(member, at_ms)| Entry { member, at_ms }).collect();
        let epoch = fields.remove("epoch").and_then(|epoch| Epoch::read(&epoch));
        let text = |(field, value)| Some((field, String::from_utf8(value).ok()?));
        let config = fields.into_iter().filter_map(text).collect();
        Self { config, epoch, counter, log }
    }

    pub(crate) fn rate(&self) -> i64 {
        self.config["rate"].parse().expect("a number")
    }

    pub(crate) fn used(&self) -> i64 {
        self.log.iter().map(|entry| i64::from(entry.permits())).sum()
    }

    /// Whether counter and log make up the rate, which both sides count on.
    pub(crate) fn is_whole(&self) -> bool {
        match self.counter {
            Some(counter) => counter + self.used() == self.rate(),
            None => self.log.is_empty(),
        }
    }

    #[track_caller]
    pub(crate) fn assert_whole(&self) {
        assert!(self.is_whole(), "counter + log = rate does not hold: {self:?}");
    }
}
