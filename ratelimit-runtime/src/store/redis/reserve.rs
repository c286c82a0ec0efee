//! Reservations: what goes into their scripts, and what comes out.

use redis::{Cmd, Value};

use super::{
    link::Live,
    reply::{integer, read_limiter, unknown_reply},
    script::{Call, RESERVE, add_statement},
};
use crate::{
    StoreError,
    store::{Outcome, Reply, Request, Reservation, StateKeys, Ticket},
};

/// A call of the script that takes permits now or in advance.
pub(super) struct Reserve<'a> {
    pub(super) request: &'a Request<'a>,
    pub(super) permits: u32,
    pub(super) within_ms: u64,
}

impl Reserve<'_> {
    /// The command, with the time in microseconds since when the process has its configuration.
    pub(super) fn since(&self, since_us: u64, by_name: bool) -> Cmd {
        let Self { request, permits, within_ms } = self;
        let mut command = RESERVE.on(request.keys, by_name);
        add_statement(&mut command, request, &permits.to_string(), since_us);
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
    permits: u32,
) -> Result<Reservation, StoreError> {
    let (reply, rest) = read_limiter(value, &request.config)?;
    if reply.outcome != Outcome::Granted {
        return Ok(Reservation { reply, wait_ms: 0, ticket: Ticket::default() });
    }
    read_counted(reply, rest, permits.into()).ok_or_else(|| unknown_reply(value))
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
