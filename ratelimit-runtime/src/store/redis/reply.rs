//! Reads the replies of scripts. An unknown shape is an error, never a grant.

use std::collections::BTreeMap;

use ratelimit_spec::Quoted;
use redis::Value;

use super::{rule::read_rule, shown::Shown};
use crate::{
    StoreError,
    store::{Config, MemberId, Outcome, Reconciled, Reply, replaced::kept},
};

/// The length of a reply before the waits; see `lua/limiter.lua`.
const HEAD: usize = 11;

/// Reads the reply to a request that takes nothing, by a process with its `own` configuration.
pub(super) fn read_look(value: &Value, cost: u32, own: &Config) -> Result<Reply, StoreError> {
    Ok(LimiterReply::read(value, &[cost], own)?.answer(cost))
}

/// Reads the replies to requests that take these costs.
pub(super) fn read_replies(
    value: &Value,
    costs: &[u32],
    own: &Config,
) -> Result<Vec<Reply>, StoreError> {
    let mut limiter = LimiterReply::read(value, costs, own)?;
    let replies = costs.iter().map(|cost| {
        let mut reply = limiter.answer(*cost);
        if reply.outcome == Outcome::Granted {
            reply.remaining = limiter.take(*cost);
        }
        reply
    });
    Ok(replies.collect())
}

/// Reads what all requests in a reply for one limiter share, and returns it with the rest.
pub(super) fn read_limiter<'a>(
    value: &'a Value,
    own: &Config,
) -> Result<(Reply, &'a [Value]), StoreError> {
    let unknown = || unknown_reply(value);
    let Value::Array(items) = value else { return Err(unknown()) };
    let (head, rest) = items.split_first_chunk::<HEAD>().ok_or_else(unknown)?;
    if let Value::BulkString(text) = &head[6]
        && let text = String::from_utf8_lossy(text)
        && read_rule(&text, 0, 1).is_none()
    {
        return Err(unknown_rule(&text));
    }
    if head[0] == Value::Int(4) {
        return Err(foreign());
    }
    Ok((read_head(head, own).ok_or_else(unknown)?, rest))
}

/// Returns the server's time in the reply for one limiter, in milliseconds, if it has one.
pub(super) fn time_in(reply: &Value) -> Option<u64> {
    const NOW: usize = 3;
    match reply {
        Value::Array(items) => integer(items.get(NOW)?),
        Value::BulkString(packed) => integer(&number(*packed.as_chunks().0.get(NOW)?)),
        _ => None,
    }
}

pub(super) fn unknown_reply(value: &Value) -> StoreError {
    let value = format!("{value:?}");
    StoreError::unavailable(format!("redis: unexpected reply {}", Shown(&value)))
}

/// A script's reply for one limiter.
pub(super) struct LimiterReply {
    /// What all requests share; `remaining` is what is free.
    common: Reply,
    waits: Waits,
}

/// The wait of each cost. Most calls have one cost.
#[derive(Default)]
struct Waits {
    first: Option<(u32, u64)>,
    others: BTreeMap<u32, u64>,
}

impl Waits {
    /// Reads the waits of these costs, one for all equal costs; `None` unless their number matches.
    fn of(costs: &[u32], mut waits: impl Iterator<Item = Option<u64>>) -> Option<Self> {
        let mut known = Self::default();
        for cost in costs {
            if known.get(*cost).is_none() {
                let wait = waits.next()??;
                match known.first {
                    None => known.first = Some((*cost, wait)),
                    Some(_) => drop(known.others.insert(*cost, wait)),
                }
            }
        }
        waits.next().is_none().then_some(known)
    }

    fn get(&self, cost: u32) -> Option<u64> {
        let first = self.first.filter(|(first, _)| *first == cost);
        first.map(|(_, wait)| wait).or_else(|| self.others.get(&cost).copied())
    }
}

impl LimiterReply {
    pub(super) fn read(value: &Value, costs: &[u32], own: &Config) -> Result<Self, StoreError> {
        let unknown = || unknown_reply(value);
        let asked = |common: &Reply| if is_counted(common) { costs } else { &[] };
        let (common, waits) = match value {
            Value::BulkString(packed) => {
                let (head, waits) = unpack(packed, own).ok_or_else(unknown)?;
                let common = read_head(&head, own).ok_or_else(unknown)?;
                (
                    common,
                    Waits::of(asked(&common), waits.iter().map(|wait| integer(&number(*wait)))),
                )
            }
            _ => {
                let (common, waits) = read_limiter(value, own)?;
                (common, Waits::of(asked(&common), waits.iter().map(integer)))
            }
        };
        Ok(Self { common, waits: waits.ok_or_else(unknown)? })
    }

    /// Returns whether the store counts it.
    pub(super) fn is_counted(&self) -> bool {
        is_counted(&self.common)
    }

    /// Returns the reply to the next request.
    pub(super) fn answer(&mut self, cost: u32) -> Reply {
        let wait_ms = self.waits.get(cost).unwrap_or(0);
        let reply = match self.common.outcome {
            Outcome::Granted => {
                Reply { retry_after_ms: wait_ms, ..decide(self.common, u64::from(cost)) }
            }
            Outcome::Blocked => {
                self.common.blocked_for(self.common.retry_after_ms, cost.into(), wait_ms)
            }
            _ => self.common,
        };
        self.common = self.common.of_next();
        reply
    }

    /// Takes the granted permits, and returns what remains.
    pub(super) fn take(&mut self, cost: u32) -> u64 {
        // A leaky bucket grants one request and is then closed.
        let spaced = self.common.config.is_spaced();
        let left = self.common.remaining - u64::from(cost);
        self.common.remaining = if spaced { 0 } else { left };
        self.common.remaining
    }
}

pub(super) fn is_counted(common: &Reply) -> bool {
    matches!(common.outcome, Outcome::Granted | Outcome::Blocked)
}

/// Unpacks a reply of a fast path, and adds what it omits: such a limiter is counted under our own configuration.
fn unpack<'a>(packed: &'a [u8], own: &Config) -> Option<([Value; HEAD], &'a [[u8; 8]])> {
    let (numbers, _) = packed.as_chunks();
    let (head, waits) = numbers.split_first_chunk()?;
    let [event, free, reset_after, now, more_after, moved] = head.map(number);
    let ours = |number: u64| i64::try_from(number).ok().map(Value::Int);
    let (rate, per, [counted, rule, ahead]) =
        (ours(own.rate)?, ours(own.per_ms)?, [1, 0, 0].map(Value::Int));
    let head = [counted, free, reset_after, now, rate, per, rule, event, ahead, more_after, moved];
    Some((head, waits))
}

fn number(bytes: [u8; 8]) -> Value {
    Value::Int(i64::from_le_bytes(bytes))
}

pub(super) fn integer(item: &Value) -> Option<u64> {
    match item {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}

/// Reads what all requests share as a reply: `remaining` is what is free, and the outcome is granted if the
/// store counts at all.
fn read_head(head: &[Value; HEAD], own: &Config) -> Option<Reply> {
    let [kind, remaining, reset_after, now, rate, per, rule, event, ahead, more_after, moved] =
        head;
    let outcome = match integer(kind)? {
        1 => Outcome::Granted,
        3 => Outcome::PerClient,
        8 => Outcome::Blocked,
        5 => Outcome::Unknown,
        _ => return None,
    };
    let (event, replaced, announcer) = read_event(event)?;
    let reconciled = match event {
        0 => None,
        1 => Some(Reconciled::Created),
        2 => Some(Reconciled::Unchanged),
        3 => Some(Reconciled::Reset),
        4 => Some(Reconciled::Carried),
        5 => Some(Reconciled::Followed),
        _ => return None,
    };
    let (rate, per_ms) = (integer(rate)?, integer(per)?);
    let config = match rule {
        Value::Int(0) => Config { rate, per_ms, ..*own },
        Value::BulkString(text) => {
            let config = read_rule(std::str::from_utf8(text).ok()?, rate, per_ms)?;
            config.keep_alive_ms(own.keep_alive_ms)
        }
        _ => return None,
    };
    let more_after_ms = integer(more_after)?;
    Some(Reply {
        outcome,
        remaining: integer(remaining)?,
        retry_after_ms: if outcome == Outcome::Blocked { more_after_ms } else { 0 },
        reset_after_ms: integer(reset_after)?,
        more_after_ms,
        now_ms: integer(now)?,
        ahead_ms: integer(ahead)?,
        moved: integer(moved)?,
        config,
        reconciled,
        replaced,
        announcer,
        violated: 0,
    })
}

/// Reads the outcome of reconciliation: a number, followed by the stored configuration that ours replaced, or
/// by `@` and the process that announced the active one, if that process may be gone.
fn read_event(event: &Value) -> Option<(u64, Option<&'static Config>, Option<MemberId>)> {
    let Value::BulkString(text) = event else { return Some((integer(event)?, None, None)) };
    let (event, numbers) = std::str::from_utf8(text).ok()?.split_once(' ')?;
    let event = event.parse().ok()?;
    if let Some(announcer) = numbers.strip_prefix('@') {
        return Some((event, None, announcer.parse().ok()));
    }
    let mut words = numbers.splitn(3, '/');
    let (rate, per) = (words.next()?, words.next()?);
    // A later version may have stored a rule that this one does not support.
    let replaced = read_rule(words.next()?, rate.parse().ok()?, per.parse().ok()?);
    Some((event, replaced.and_then(kept), None))
}

/// Decides a request for this cost with what remains.
fn decide(common: Reply, cost: u64) -> Reply {
    let capacity = common.config.capacity();
    let (outcome, remaining) = if cost > capacity {
        (Outcome::ExceedsCapacity, capacity)
    } else if cost <= common.remaining {
        (Outcome::Granted, common.remaining)
    } else {
        (Outcome::Refused, common.remaining)
    };
    Reply { outcome, remaining, ..common }
}

pub(super) fn foreign() -> StoreError {
    StoreError::misconfigured(
        "redis: the counter, the log or the state holds what no limiter of this version, or of Redisson 3.17 or \
         later, writes; delete the limiter, or choose another `key_prefix`",
    )
}

/// The error for an algorithm or a calendar of a later version, or of a version with other zones.
pub(super) fn unknown_rule(rule: &str) -> StoreError {
    StoreError::misconfigured(format!(
        "redis: the limiter uses {}, which this process does not support; run the same version everywhere, or set a \
         quota that every version supports",
        Quoted(rule)
    ))
}

#[cfg(test)]
mod tests {
    use ratelimit_spec::Mode;

    use ratelimit_spec::Rule;

    use super::*;

    fn ints(numbers: &[i64]) -> Value {
        Value::Array(numbers.iter().map(|&n| Value::Int(n)).collect())
    }

    fn own(rate: u64) -> Config {
        Config::new(rate, 1000, Mode::Overall)
    }

    #[test]
    fn each_request_gets_what_those_before_it_left() {
        let value = ints(&[1, 5, 700, 99, 6, 1000, 0, 2, 40, 60, 0, 300, 200, 0, 700]);
        let replies = read_replies(&value, &[3, 2, 7, 4, 2, 3], &own(6)).unwrap();
        let told: Vec<_> =
            replies.iter().map(|r| (r.outcome, r.remaining, r.retry_after_ms)).collect();
        assert_eq!(
            told,
            [
                (Outcome::Granted, 2, 300),
                (Outcome::Granted, 0, 200),
                (Outcome::ExceedsCapacity, 6, 0),
                (Outcome::Refused, 0, 700),
                (Outcome::Refused, 0, 200),
                (Outcome::Refused, 0, 300),
            ]
        );
        assert_eq!((replies[0].reconciled, replies[0].ahead_ms), (Some(Reconciled::Unchanged), 40));
        for reply in &replies[1..] {
            assert_eq!((reply.reconciled, reply.ahead_ms), (None, 0), "it is told once");
            assert_eq!((reply.reset_after_ms, reply.now_ms), (700, 99));
        }
    }

    #[test]
    fn a_look_leaves_what_is_free() {
        let value = ints(&[1, 5, 0, 99, 6, 1000, 0, 0, 0, 60, 0, 0]);
        let reply = read_look(&value, 3, &own(6)).unwrap();
        assert_eq!((reply.outcome, reply.remaining), (Outcome::Granted, 5));
    }

    #[test]
    fn a_leaky_bucket_grants_one_request_at_a_time() {
        let own = own(5).rule(Rule::LeakyBucket);
        let value = ints(&[1, 5, 0, 99, 5, 1000, 0, 0, 0, 60, 0, 400, 400]);
        let replies = read_replies(&value, &[2, 1, 2], &own).unwrap();
        let told: Vec<_> = replies.iter().map(|r| (r.outcome, r.remaining)).collect();
        assert_eq!(told, [(Outcome::Granted, 0), (Outcome::Refused, 0), (Outcome::Refused, 0)]);
    }

    #[test]
    fn what_is_counted_otherwise_than_by_ours_says_how() {
        let Value::Array(mut items) = ints(&[1, 9, 0, 99, 5, 1000, 0, 0, 0, 60, 0, 0]) else {
            panic!()
        };
        items[6] = Value::BulkString(b"0/token_bucket/9".to_vec());
        let value = Value::Array(items);
        let reply = read_replies(&value, &[9], &own(5)).unwrap()[0];
        assert_eq!((reply.outcome, reply.config.quota().burst()), (Outcome::Granted, Some(9)));
        let reply = read_replies(&value, &[10], &own(5)).unwrap()[0];
        assert_eq!((reply.outcome, reply.remaining), (Outcome::ExceedsCapacity, 9));
    }

    #[test]
    fn a_reply_of_unknown_shape_is_never_a_grant() {
        let read = |value| read_replies(&value, &[1, 1], &own(5));
        let packed = |numbers: &[u64]| {
            Value::BulkString(numbers.iter().flat_map(|n| n.to_le_bytes()).collect())
        };
        let told = ints(&[1, 2, 0, 99, 5, 1000, 0, 0, 0, 60, 0, 7]);
        assert_eq!(read(told).unwrap(), read(packed(&[0, 2, 0, 99, 60, 0, 7])).unwrap());
        for value in [
            Value::Nil,
            Value::Int(1),
            ints(&[1]),
            ints(&[1, -2, 0, 99, 5, 1000, 0, 0, 0, 60, 0, 7]),
            ints(&[9, 2, 0, 99, 5, 1000, 0, 0, 0, 60, 0, 7]),
            // A rule and an event of a later version.
            ints(&[1, 2, 0, 99, 5, 1000, 9, 0, 0, 60, 0, 7]),
            ints(&[1, 2, 0, 99, 5, 1000, 0, 9, 0, 60, 0, 7]),
            // One wait too few, and one too many.
            ints(&[1, 2, 0, 99, 5, 1000, 0, 0, 0, 60, 0]),
            ints(&[1, 2, 0, 99, 5, 1000, 0, 0, 0, 60, 0, 7, 7]),
            ints(&[3, 0, 0, 99, 5, 1000, 0, 0, 0, 60, 0, 7]),
            Value::BulkString(vec![1; 90]),
            packed(&[0, 2, 0, 99, 60, 0]),
            packed(&[0, 2, 0, 99, 60, 0, 7, 7]),
        ] {
            assert!(read(value.clone()).is_err(), "{value:?}");
        }
    }
}
