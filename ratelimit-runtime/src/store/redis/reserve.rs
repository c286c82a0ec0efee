//! Reservations: the arguments and the reply of their script.

use std::iter;

use redis::{Cmd, Value};

use super::{
    call::Call,
    groups::runs,
    line::Live,
    reply::{integer, is_counted, read_limiter, unknown_reply},
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
    let counted = is_counted(&reply);
    if counted && rest.len() != costs.len() * EACH {
        return Err(unknown_reply(value));
    }
    let mut reservations = Vec::with_capacity(costs.len());
    let each = rest.chunks(EACH).filter(|_| counted).map(Some).chain(iter::repeat(None));
    for (each, cost) in each.zip(costs) {
        let one = match each {
            Some(each) => read_counted(reply, each, (*cost).into()),
            None => Some(nothing(reply)),
        };
        reservations.push(one.ok_or_else(|| unknown_reply(value))?);
        reply = reply.of_next();
    }
    Ok(reservations)
}

fn nothing(reply: Reply) -> Reservation {
    Reservation { reply, wait_ms: 0, ticket: Ticket::default() }
}

/// Reads what follows the head for each cost, if the store counts.
fn read_counted(reply: Reply, each: &[Value], permits: u64) -> Option<Reservation> {
    let [again, taken, wait, empty_at, ticks, before] = each else { return None };
    let again_ms = integer(again)?;
    if reply.outcome == Outcome::Blocked {
        return Some(nothing(reply.blocked_for(reply.retry_after_ms, again_ms)));
    }
    let outcome = match integer(taken)? {
        0 if permits > reply.config.capacity() => Outcome::ExceedsCapacity,
        0 => Outcome::Refused,
        1 => Outcome::Granted,
        _ => return None,
    };
    let (empty_at_ms, ticks, before_ms) = (integer(empty_at)?, integer(ticks)?, integer(before)?);
    let ticket = Ticket { empty_at_ms, ticks, before_ms };
    let reply = Reply { outcome, retry_after_ms: again_ms, ..reply };
    Some(Reservation { reply, wait_ms: integer(wait)?, ticket })
}
