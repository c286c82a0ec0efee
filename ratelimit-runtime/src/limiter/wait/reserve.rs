//! Reservations of a queue.

use std::sync::{Arc, atomic::Ordering};

use super::{Core, Ticket, Waiting};
use crate::{
    limiter::{
        outage::Refused, per_process::counted_here, plan::Part, services::Services, taken::Source,
    },
    store::{Grant, Outcome, Reply, Reservation},
};

/// The reservations made by the store.
pub(super) struct Reserved {
    /// Milliseconds from now, and permits.
    pub(super) slots: Vec<(u64, u32, Ticket)>,
    /// How long the first rejected request would have to wait.
    pub(super) refused_for_ms: Option<u64>,
}

impl Core {
    /// Reserves permits for requests of these costs, in order. Returns `None` if the active
    /// configuration takes no reservations, or the store made none.
    pub(super) async fn reserve(
        self: &Arc<Self>,
        limits: &Arc<Services>,
        costs: &[u32],
        within_ms: u64,
    ) -> Option<Reserved> {
        let rule = self.rule(limits);
        let numbers = rule.numbers.as_ref().ok()?;
        let part = Part { core: self, rule: &rule, numbers };
        let (source, reserved) = if self.is_counted_here(&rule) {
            part.look_in_turn(limits).await;
            let config = counted_here(part.in_force());
            let reserved = limits.per_client.reserve_counted(&self.keys, config, costs, within_ms);
            (Source::Process, reserved)
        } else {
            // The policy decides, within this process's share.
            if limits.recovers_until(&self.keys).is_some() {
                return None;
            }
            if let Some(charging) = limits.local.charge_first(limits, std::iter::once(&**self)) {
                charging.await.and_then(Refused::any).ok()?;
            }
            let reserved =
                limits.store.reserve(&part.request(limits), costs, within_ms).await.ok()?;
            (Source::Store, reserved)
        };
        let first = reserved.first()?.reply;
        if source == Source::Store {
            part.observe(limits, &first);
            part.hear_block(limits, &first);
            if limits.store.is_shared() {
                self.hear_left(&reserved.last()?.reply, limits.clock.now_ms());
                // A request may have to wait longer than its cached denial.
                self.denials.forget();
                limits.local.end(limits, self);
            }
        }
        if !first.config.reserves() || !first.outcome.is_counted() {
            return None;
        }
        let slots = reserved.iter().zip(costs).map_while(|(reservation, cost)| {
            let granted = reservation.reply.outcome == Outcome::Granted;
            let Reservation { reply, wait_ms, ticket } = *reservation;
            let grant = Grant::reserved(reply.config, *cost, ticket, wait_ms).moved(reply.moved);
            // The values for a call that is admitted when its time has come.
            let now_ms = reply.now_ms.saturating_add(wait_ms);
            let [reset_after_ms, more_after_ms] =
                [reply.reset_after_ms, reply.more_after_ms].map(|ms| ms.saturating_sub(wait_ms));
            let reply = Reply { now_ms, reset_after_ms, more_after_ms, ..reply };
            granted.then_some((wait_ms, *cost, Ticket { source, grant, reply }))
        });
        let slots: Vec<_> = slots.collect();
        let refused = reserved.get(slots.len()).map(|refused| refused.reply.retry_after_ms.max(1));
        Some(Reserved { slots, refused_for_ms: refused })
    }
}

impl Waiting {
    /// Records how long the store took to reply.
    pub(super) fn note_round_trip(&self, us: u64) {
        let before = self.round_trip_us.load(Ordering::Relaxed);
        let mean = if before == 0 { us } else { (before * 7 + us) / 8 };
        self.round_trip_us.store(mean.max(1), Ordering::Relaxed);
    }
}
