//! Reservations: what goes into their scripts, and what comes out.

use redis::{Cmd, Value};

use super::{
    link::Live,
    reply::{HEAD, foreign, integer, read_head},
    script::{Ask, Call, RESERVE},
};
use crate::{
    StoreError,
    store::{Outcome, Reply, Request, Reservation, StateKeys, Ticket},
};

/// A call of the script that takes permits now or in advance.
pub(super) struct Reserve<'a> {
    pub(super) request: &'a Request<'a>,
    pub(super) within_ms: u64,
}

impl Reserve<'_> {
    /// The command, with the time in microseconds since when the process has its configuration.
    fn since(&self, since_us: u64, by_name: bool) -> Cmd {
        let Self { request, within_ms } = self;
        let costs = &[request.permits];
        let mut command = Ask { script: &RESERVE, request, costs }.stated(since_us, by_name);
        command.arg(within_ms);
        command
    }
}

impl Call for Reserve<'_> {
    fn keys(&self) -> &StateKeys {
        self.request.keys
    }

    fn command(&self, live: &Live, by_name: bool) -> Cmd {
        self.since(live.server_time(self.request.since), by_name)
    }
}

/// What the script that gives a reservation back takes.
pub(super) fn give_up_words(permits: u32, ticket: Ticket) -> Vec<String> {
    let Ticket { empty_at_ms, ticks, stored } = ticket;
    [permits.into(), empty_at_ms, ticks, stored].map(|number| number.to_string()).into()
}

/// Reads what the script says; an unknown shape is an error, never a grant.
pub(super) fn read_reservation(
    value: &Value,
    request: &Request<'_>,
) -> Result<Reservation, StoreError> {
    let unknown = || StoreError::unavailable(format!("redis: unknown reply {value:?}"));
    let Value::Array(items) = value else { return Err(unknown()) };
    let (head, rest) = items.split_first_chunk::<HEAD>().ok_or_else(unknown)?;
    if head[0] == Value::Int(4) {
        return Err(foreign());
    }
    let reply = read_head(head, &request.config).ok_or_else(unknown)?;
    if reply.outcome != Outcome::Granted {
        return Ok(Reservation { reply, wait_ms: 0, ticket: Ticket::default() });
    }
    read_counted(reply, rest, request.permits.into()).ok_or_else(unknown)
}

/// What follows the head where the store counts.
fn read_counted(reply: Reply, rest: &[Value], permits: u64) -> Option<Reservation> {
    let [again, taken, wait, empty_at, ticks, stored] = rest else { return None };
    let outcome = match integer(taken)? {
        0 if permits > reply.config.capacity() => Outcome::ExceedsCapacity,
        0 => Outcome::Refused,
        1 => Outcome::Granted,
        _ => return None,
    };
    let (empty_at_ms, ticks, stored) = (integer(empty_at)?, integer(ticks)?, integer(stored)?);
    let ticket = Ticket { empty_at_ms, ticks, stored };
    let reply = Reply { outcome, retry_after_ms: integer(again)?, ..reply };
    Some(Reservation { reply, wait_ms: integer(wait)?, ticket })
}

/// A call of the script as the runtime makes it, for tests that append a time of their own.
#[cfg(feature = "test-util")]
#[must_use]
pub fn script_reserve(request: &Request<'_>, within_ms: u64, since_us: u64) -> Cmd {
    Reserve { request, within_ms }.since(since_us, false)
}

/// What the answer to such a call says.
///
/// # Errors
///
/// As for the call itself.
#[cfg(feature = "test-util")]
pub fn script_reservation(value: &Value, request: &Request<'_>) -> Result<Reservation, StoreError> {
    read_reservation(value, request)
}

/// A call that gives a reservation back, for tests that append a time of their own.
#[cfg(feature = "test-util")]
#[must_use]
pub fn script_give_up(keys: &StateKeys, permits: u32, ticket: Ticket) -> Cmd {
    // The time comes after as many arguments as the longest call has.
    let mut words = give_up_words(permits, ticket);
    words.resize(9, String::new());
    super::Tell { script: &super::GIVE_UP, keys, words }.by_text()
}
