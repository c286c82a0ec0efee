//! Reservations in this process.

use super::MemoryStore;
use crate::{
    algorithm::Booking,
    store::{Config, Reply, Request, Reservation, StateKeys, Ticket},
};

impl MemoryStore {
    /// [Reserves](crate::store::Store::reserve), with the configuration reconciled.
    pub(super) fn reserve_now(
        &self,
        request: &Request<'_>,
        permits: u32,
        within_ms: u64,
    ) -> Reservation {
        let mut booking = Booking::default();
        let reply = self.by_rule(request, permits, |used, permits, config, now| {
            booking = used.reserve(&config, permits, within_ms, now);
            booking.verdict
        });
        Reservation::of(booking, reply)
    }

    /// Reserves by numbers that are reconciled elsewhere.
    pub(crate) fn reserve_counted(
        &self,
        keys: &StateKeys,
        config: Config,
        permits: u32,
        within_ms: u64,
    ) -> Reservation {
        self.change(keys, |state, now| {
            state.per_ms = config.per_ms;
            state.keep_alive(config, now);
            let booking = state.used.reserve(&config, permits.into(), within_ms, now);
            Reservation::of(booking, Reply::decided(permits, config, now, |_| booking.verdict))
        })
    }

    /// Gives such a reservation back, if nothing was taken after it.
    pub(crate) fn give_up_counted(
        &self,
        keys: &StateKeys,
        config: Config,
        permits: u32,
        ticket: Ticket,
    ) -> bool {
        self.change(keys, |state, now| state.used.give_up(&config, permits.into(), ticket, now))
    }
}

impl Reservation {
    fn of(booking: Booking, reply: Reply) -> Self {
        Self { reply, wait_ms: booking.wait, ticket: booking.ticket }
    }
}
