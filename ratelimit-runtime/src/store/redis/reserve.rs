//! Reservations: the arguments and the reply of their script.

use redis::{Cmd, Value};

use super::{
    call::Call,
    groups::runs,
    line::Live,
    reply::{integer, read_limiter, unknown_reply},
    script::{RESERVE, add_statement},
};
use crate::{
    StoreError,
    store::{Outcome, Reply, Request, Reservation, StateKeys, Ticket},
};

/// The number of values for each reservation; see `lua/reserve.lua`.
const EACH: usize = 6;

/// A call of the script that takes permits now or in advance.
pub(super) struct Reserve<'a> {
    pub(super) request: &'a Request<'a>,
    pub(super) costs: &'a [u32],
    pub(super) within_ms: u64,
}

impl Reserve<'_> {
    /// Builds the command, with the time in microseconds at which the process received its configuration.
    pub(super) fn since(&self, since_us: u64, by_name: bool) -> Cmd {
        let Self { request, costs, within_ms } = self;
        RESERVE.on_requests(std::iter::once(*request), by_name, |command| {
            add_statement(command, request, &runs(costs), since_us);
            command.arg(within_ms);
        })
    }
}

impl Call for Reserve<'_> {
    fn keys(&self) -> &StateKeys {
        self.request.keys
    }

    fn command(&self, live: &Live, by_name: bool) -> Cmd {
        self.since(live.server_time(self.request.since), by_name)
    }

    fn may_need_hash_alone(&self) -> bool {
        self.request.may_have_hash_alone()
    }
}

/// Reads the script's reply; an unknown shape is an error, never a grant.
pub(super) fn read_reservations(
    value: &Value,
    request: &Request<'_>,
    costs: &[u32],
) -> Result<Vec<Reservation>, StoreError> {
    let (mut reply, rest) = read_limiter(value, &request.config)?;
    if reply.outcome != Outcome::Granted {
        let none = |reply| Reservation { reply, wait_ms: 0, ticket: Ticket::default() };
        let later =
            Reply { reconciled: None, replaced: None, announcer: None, ahead_ms: 0, ..reply };
        let mut told = vec![later; costs.len()];
        told.iter_mut().take(1).for_each(|first| *first = reply);
        let waits = rest.chunks(EACH).filter(|_| reply.outcome == Outcome::Blocked);
        for (reply, each) in told.iter_mut().zip(waits) {
            *reply = reply.blocked_for(reply.retry_after_ms, integer(&each[0]).unwrap_or(0));
        }
        return Ok(told.into_iter().map(none).collect());
    }
    if rest.len() != costs.len() * EACH {
        return Err(unknown_reply(value));
    }
    let mut told = Vec::with_capacity(costs.len());
    for (each, cost) in rest.chunks(EACH).zip(costs) {
        let one = read_counted(reply, each, (*cost).into());
        told.push(one.ok_or_else(|| unknown_reply(value))?);
        (reply.reconciled, reply.replaced, reply.announcer) = (None, None, None);
        reply.ahead_ms = 0;
    }
    Ok(told)
}

/// Reads what follows the head for each cost, if the store counts.
fn read_counted(reply: Reply, each: &[Value], permits: u64) -> Option<Reservation> {
    let [again, taken, wait, empty_at, ticks, before] = each else { return None };
    let outcome = match integer(taken)? {
        0 if permits > reply.config.capacity() => Outcome::ExceedsCapacity,
        0 => Outcome::Refused,
        1 => Outcome::Granted,
        _ => return None,
    };
    let (empty_at_ms, ticks, before_ms) = (integer(empty_at)?, integer(ticks)?, integer(before)?);
    let ticket = Ticket { empty_at_ms, ticks, before_ms };
    let reply = Reply { outcome, retry_after_ms: integer(again)?, ..reply };
    Some(Reservation { reply, wait_ms: integer(wait)?, ticket })
}
