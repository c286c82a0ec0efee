//! Reservations, refunds of grants and charges in this process.

use ratelimit_spec::Mode;

use super::{MemoryStore, UnknownAt};
use crate::{
    algorithm::{self, Booking, Charge, Charged, Grant, Verdict},
    store::{Config, Outcome, Reply, Request, Reservation, StateKeys},
};

impl MemoryStore {
    /// [Reserves](crate::store::Store::reserve), with the configuration reconciled.
    pub(super) fn reserve_now(
        &self,
        request: &Request<'_>,
        costs: &[u32],
        within_ms: u64,
    ) -> Vec<Reservation> {
        let blocked = self.blocked_for(request);
        let reserved = self.reconciled(request, |used, config, now| {
            let each = match blocked {
                None => reserve(used, config, costs, within_ms, now),
                // More than any capacity, so nothing is taken.
                blocked => {
                    let all = vec![u32::MAX; costs.len()];
                    let mut each = reserve(used, config, &all, within_ms, now);
                    for (one, cost) in each.iter_mut().zip(costs) {
                        let wait = || used.peek(&config, (*cost).into(), now).retry_after;
                        let wait_ms = if config.reserves() { wait() } else { 0 };
                        one.reply = one.reply.blocked(blocked, *cost, wait_ms);
                    }
                    each
                }
            };
            let granted = is_any_granted(&each);
            (each, granted)
        });
        match reserved {
            Ok((mut each, outcome)) => {
                if let Some(first) = each.first_mut() {
                    first.reply = first.reply.after(outcome);
                }
                each
            }
            Err(UnknownAt(now)) => {
                vec![Reservation::of(Booking::default(), Reply::unknown(now)); costs.len()]
            }
        }
    }

    /// Reserves under a configuration that is reconciled elsewhere.
    pub(crate) fn reserve_counted(
        &self,
        keys: &StateKeys,
        config: Config,
        costs: &[u32],
        within_ms: u64,
    ) -> Vec<Reservation> {
        self.change(keys, |state, now| {
            state.used.keep_for(&config);
            let reserved = reserve(&mut state.used, config, costs, within_ms, now);
            if is_any_granted(&reserved) {
                state.keep_alive(config, now);
            }
            reserved
        })
    }

    /// Refunds what a counted grant still holds; `config` is the active one.
    pub(crate) fn give_back_counted(&self, keys: &StateKeys, config: Config, grant: &Grant) -> u64 {
        self.change(keys, |state, now| state.used.give_back(&config, grant, now))
    }

    /// [Charges](crate::store::Store::charge) under a configuration that is reconciled elsewhere.
    pub(crate) fn charge_counted(
        &self,
        keys: &StateKeys,
        config: Config,
        charge: Charge,
    ) -> (Reply, Charged) {
        self.change(keys, |state, now| {
            state.used.keep_for(&config);
            let charged = charge_to(&mut state.used, config, charge, now);
            if charged.1.excess < charge.permits.into() {
                state.keep_alive(config, now);
            }
            charged
        })
    }

    /// [Charges](crate::store::Store::charge), with the configuration reconciled.
    pub(super) fn charge_now(&self, request: &Request<'_>, charge: Charge) -> (Reply, Charged) {
        let charged = self.reconciled(request, |used, config, now| {
            let charged = charge_to(used, config, charge, now);
            (charged, charged.1.excess < charge.permits.into())
        });
        match charged {
            Ok(((reply, charged), outcome)) => (reply.after(outcome), charged),
            Err(UnknownAt(now)) => (Reply::unknown(now), Charged::default()),
        }
    }
}

fn reserve(
    used: &mut algorithm::State,
    config: Config,
    costs: &[u32],
    within_ms: u64,
    now: u64,
) -> Vec<Reservation> {
    let bookings = match config.mode {
        Mode::PerClient => vec![Booking::default(); costs.len()],
        Mode::Overall => used.reserve(&config, costs, within_ms, now),
    };
    let reservation = |(booking, cost): (Booking, &u32)| {
        let reply = Reply::decided(*cost, config, now, |_| booking.verdict);
        Reservation::of(booking, reply)
    };
    bookings.into_iter().zip(costs).map(reservation).collect()
}

fn is_any_granted(reservations: &[Reservation]) -> bool {
    reservations.iter().any(|one| one.reply.outcome == Outcome::Granted)
}

fn charge_to(
    used: &mut algorithm::State,
    config: Config,
    charge: Charge,
    now: u64,
) -> (Reply, Charged) {
    let Charge { permits, max_debt, .. } = charge;
    let mut charged = Charged::default();
    let max_debt = max_debt.unwrap_or_else(|| config.capacity());
    let rule = |_| {
        let verdict: Verdict;
        (charged, verdict) = used.charge(&config, permits.into(), max_debt, now);
        verdict
    };
    let reply = Reply::decided(1, config, now, rule);
    (reply, charged)
}

impl Reservation {
    fn of(booking: Booking, reply: Reply) -> Self {
        Self { reply, wait_ms: booking.wait, ticket: booking.ticket }
    }

    /// Returns the grant of this many permits, or `None` if the reservation was not granted.
    #[cfg(feature = "test-util")]
    #[must_use]
    pub fn grant(&self, permits: u32) -> Option<Grant> {
        let granted = self.reply.outcome == crate::store::Outcome::Granted;
        let Self { reply, ticket, wait_ms } = *self;
        let reserved = || Grant::reserved(reply.config, permits, ticket, wait_ms);
        granted.then(|| reserved().moved(reply.moved))
    }
}
