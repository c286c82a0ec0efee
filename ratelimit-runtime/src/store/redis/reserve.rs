//! Reservations: the reply of their script.

use std::iter;

use redis::Value;

use super::reply::{integer, is_counted, read_limiter, unknown_reply};
use crate::{
    StoreError,
    store::{Outcome, Reply, Request, Reservation, Ticket},
};

/// The number of values for each reservation; see `lua/reserve.lua`.
const EACH: usize = 6;

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
        return Some(nothing(reply.blocked_for(reply.retry_after_ms, permits, again_ms)));
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
