//! The callers of this process that wait for one limiter, in order, and the permits that are reserved
//! for them.
//!
//! A [`Line`] knows times, costs and places; it never sleeps and queries no store. It returns what is
//! to be done next as a [`Step`], which the queue's driver carries out. Callers take no part in that:
//! each holds a [`Seat`] that its answer is put into, so a future that is never polled again delays
//! no other caller.

use std::collections::{BTreeSet, VecDeque};

/// How long an empty queue keeps its reservations, in milliseconds.
const KEPT_MS: u64 = 100;
/// The most reservations of one queue.
const MOST_SLOTS: u64 = 64;

/// A caller in the queue.
#[derive(Debug)]
pub(super) struct Place<S> {
    /// Tells the places of a line apart, in order.
    pub(super) number: u64,
    pub(super) permits: u32,
    /// The last millisecond in which the caller may be admitted.
    pub(super) until: Option<u64>,
    /// Whether the caller takes from this limiter alone, so that a reservation serves it.
    pub(super) alone: bool,
    pub(super) seat: S,
}

/// What identifies a reservation.
pub(super) trait Part: Clone {
    /// Leaves the first part of it here, and returns the last: this many permits, which may be used this
    /// many milliseconds later.
    fn split_off(&mut self, permits: u32, later_ms: u64) -> Self;
}

/// Permits that are reserved for this queue, to be used from a time on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slot<T> {
    /// In milliseconds by the clock of the limits.
    pub(super) at: u64,
    pub(super) permits: u32,
    /// Identifies the reservation in its store.
    pub(super) ticket: T,
}

/// How fast a limiter with reservations hands out permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    pub(super) rate: u64,
    pub(super) per_ms: u64,
    /// Whether permits are handed out one request after the other.
    pub(super) spaced: bool,
    /// The permits that the bucket holds.
    pub(super) capacity: u64,
    /// The measured round trip to the store, in milliseconds, rounded up.
    pub(super) round_trip_ms: u64,
}

impl Pace {
    /// The number of slots of this cost that fit in twice the round trip plus 5 ms.
    fn depth(&self, cost: u32) -> usize {
        let ahead_ms = self.round_trip_ms.saturating_mul(2).saturating_add(5);
        let slot = u128::from(self.per_ms) * u128::from(cost.max(1));
        let fit = (u128::from(ahead_ms) * u128::from(self.rate)).checked_div(slot);
        usize::try_from(fit.unwrap_or(0).clamp(1, MOST_SLOTS.into())).unwrap_or(1)
    }

    /// The milliseconds for which a slot that no caller used is as good as new: until the next one of a
    /// bucket that spaces its callers, or until a bucket that was empty then is full.
    fn keeps_ms(&self, permits: u32) -> u64 {
        self.span_ms(if self.spaced { permits.into() } else { self.capacity })
    }

    /// The milliseconds that a request of this cost takes up, rounded up.
    fn span_ms(&self, permits: u64) -> u64 {
        let ms = u128::from(self.per_ms) * u128::from(permits);
        u64::try_from(ms.div_ceil(self.rate.max(1).into())).unwrap_or(u64::MAX)
    }
}

/// What the driver of a queue does next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step<T> {
    /// Reserve permits for requests of these costs, the latest of which may be admitted until then.
    Reserve(Vec<u32>, Option<u64>),
    /// Ask for the caller at the head.
    Ask,
    /// Give reservations up, in this order.
    GiveUp(Vec<Slot<T>>),
    /// Wait until this time, or for a change.
    Sleep(u64),
    /// Stop: no caller waits, and nothing is reserved.
    End,
}

/// A caller whose wait is over.
#[derive(Debug)]
pub(super) enum Leaving<S, T> {
    /// Its permits are there.
    Admitted(Place<S>, Slot<T>),
    /// Its permits cannot be there in time, but not before this many milliseconds.
    TooLate(Place<S>, u64),
}

#[derive(Debug)]
pub(super) struct Line<S, T> {
    places: VecDeque<Place<S>>,
    slots: VecDeque<Slot<T>>,
    /// The places with a last moment, the earliest first.
    limits: BTreeSet<(u64, u64)>,
    next_number: u64,
    /// Whether the store is being asked: only one driver asks.
    asking: bool,
    /// When the store is to be asked next.
    due: u64,
    /// Since when no caller waits.
    empty_since: Option<u64>,
    /// Whether no caller waited since reservations were handed out last.
    was_empty: bool,
    /// Whether reservations may be later than necessary.
    stale: bool,
}

impl<S, T> Default for Line<S, T> {
    fn default() -> Self {
        Self {
            places: VecDeque::new(),
            slots: VecDeque::new(),
            limits: BTreeSet::new(),
            next_number: 0,
            asking: false,
            due: 0,
            empty_since: None,
            was_empty: false,
            stale: false,
        }
    }
}

impl<S, T: Part> Line<S, T> {
    /// The number of callers that wait.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.places.is_empty() && self.slots.is_empty()
    }

    pub(super) fn costs(&self) -> impl Iterator<Item = u32> {
        self.places.iter().map(|place| place.permits)
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = &Slot<T>> {
        self.slots.iter()
    }

    pub(super) fn head(&self) -> Option<&Place<S>> {
        self.places.front()
    }

    /// When the head expects its permits, as far as that is known.
    pub(super) fn head_at(&self) -> u64 {
        self.slots.front().map_or(self.due, |slot| slot.at)
    }

    /// Adds a caller at the end, and returns the number of its place. The first one is to ask at `due`.
    pub(super) fn join(
        &mut self,
        permits: u32,
        until: Option<u64>,
        alone: bool,
        seat: S,
        due: u64,
    ) -> u64 {
        if self.places.is_empty() && !self.asking {
            self.due = due;
        }
        let number = self.next_number;
        self.next_number += 1;
        self.limits.extend(until.map(|until| (until, number)));
        self.places.push_back(Place { number, permits, until, alone, seat });
        self.empty_since = None;
        number
    }

    /// Removes a place: its caller left, or was answered.
    pub(super) fn leave(&mut self, number: u64, now: u64) -> Option<Place<S>> {
        let index = self.places.binary_search_by_key(&number, |place| place.number).ok()?;
        let place = self.places.remove(index)?;
        self.left(&place, now);
        if index == 0 && !self.asking {
            // The next caller may ask for less.
            self.due = self.due.min(now);
        }
        Some(place)
    }

    fn left(&mut self, place: &Place<S>, now: u64) {
        if let Some(until) = place.until {
            self.limits.remove(&(until, place.number));
        }
        if self.places.is_empty() {
            (self.empty_since, self.was_empty) = (Some(now), true);
        }
    }

    /// Something may be free before its time.
    pub(super) fn change(&mut self) {
        (self.due, self.stale) = (0, true);
    }

    /// Adds a reservation, such as one that its caller did not use: the next caller may have it.
    pub(super) fn put(&mut self, slot: Slot<T>) {
        let index = self.slots.partition_point(|other| other.at <= slot.at);
        self.slots.insert(index, slot);
    }

    /// The store has answered; it is to be asked again at this time.
    pub(super) fn answered(&mut self, again: u64) {
        // A change that came meanwhile is still to be looked at.
        self.due = if self.asking && self.stale { 0 } else { again };
        self.asking = false;
    }

    /// Returns what is to be done now, and removes the callers whose wait is over. A limiter without a
    /// `pace` takes no reservations.
    pub(super) fn step(
        &mut self,
        now: u64,
        pace: Option<Pace>,
        leaving: &mut Vec<Leaving<S, T>>,
    ) -> Step<T> {
        self.hand_out(now, pace, leaving);
        let step = match self.next(now, pace) {
            Step::Sleep(_) => {
                self.turn_away(now, leaving);
                self.next(now, pace)
            }
            step => step,
        };
        match &step {
            Step::Reserve(..) | Step::Ask | Step::GiveUp(_) => {
                (self.asking, self.stale) = (true, false);
            }
            Step::Sleep(_) | Step::End => {}
        }
        step
    }

    fn next(&mut self, now: u64, pace: Option<Pace>) -> Step<T> {
        let until = self.limits.first().map(|(until, _)| until + 1);
        let Some(head) = self.places.front() else {
            let kept_until = self.empty_since.map_or(0, |since| since + KEPT_MS);
            return match (self.asking, self.slots.is_empty()) {
                (true, _) => Step::Sleep(u64::MAX),
                (false, true) => Step::End,
                (false, false) if now < kept_until => Step::Sleep(kept_until),
                (false, false) => self.give_up(),
            };
        };
        let slot = self.slots.front().map(|slot| slot.at);
        let sleep = |due: Option<u64>| {
            let wake = [until, slot, due].into_iter().flatten().min().unwrap_or(u64::MAX);
            Step::Sleep(wake)
        };
        if self.asking {
            return sleep(None);
        }
        let misfit = self.slots.front().is_some_and(|slot| slot.permits < head.permits);
        let pace = pace.filter(|_| head.alone);
        if (self.stale || misfit || pace.is_none()) && !self.slots.is_empty() {
            return self.give_up();
        }
        let costs = pace.map(|pace| self.lacking(pace));
        match costs {
            Some(costs) if costs.is_empty() => sleep(None),
            _ if self.due > now => sleep(Some(self.due)),
            Some(costs) => {
                let places = self.places.iter().skip(self.slots.len()).take(costs.len());
                let latest = places.map(|place| place.until.unwrap_or(u64::MAX)).max();
                Step::Reserve(costs, latest.filter(|until| *until < u64::MAX))
            }
            None => Step::Ask,
        }
    }

    /// The last ones first: a store takes a reservation back that nothing was reserved after.
    fn give_up(&mut self) -> Step<T> {
        Step::GiveUp(self.slots.drain(..).rev().collect())
    }

    /// Keeps reservations that could not be given up because others were made after them, as far as the
    /// caller at the head can use them.
    pub(super) fn keep(&mut self, slots: Vec<Slot<T>>) {
        let head = self.places.front().filter(|head| head.alone).map(|head| head.permits);
        let fits = |slot: &Slot<T>| head.is_some_and(|permits| permits <= slot.permits);
        slots.into_iter().filter(fits).for_each(|slot| self.put(slot));
    }

    /// Gives the callers at the head the reservations whose time has come.
    fn hand_out(&mut self, now: u64, pace: Option<Pace>, leaving: &mut Vec<Leaving<S, T>>) {
        if !self.places.is_empty() && std::mem::take(&mut self.was_empty) {
            // Callers that come late do not go all at once.
            let keeps_ms = |slot: &Slot<T>| pace.map_or(0, |pace| pace.keeps_ms(slot.permits));
            self.slots.retain(|slot| slot.at + keeps_ms(slot) > now);
        }
        while let (Some(head), Some(slot)) = (self.places.front(), self.slots.front()) {
            if slot.at > now || slot.permits < head.permits || !head.alone {
                return;
            }
            let (Some(head), Some(mut slot)) = (self.places.pop_front(), self.slots.pop_front())
            else {
                return;
            };
            self.left(&head, now);
            let rest = slot.permits - head.permits;
            if rest > 0 {
                let spaced = pace.filter(|pace| pace.spaced);
                let later = spaced.map_or(0, |pace| pace.span_ms(head.permits.into()));
                let ticket = slot.ticket.split_off(rest, later);
                self.put(Slot { at: slot.at + later, permits: rest, ticket });
            }
            let used = Slot { permits: head.permits, ..slot };
            leaving.push(Leaving::Admitted(head, used));
        }
    }

    /// Removes the callers that cannot be admitted in time: no caller goes before the head does.
    fn turn_away(&mut self, now: u64, leaving: &mut Vec<Leaving<S, T>>) {
        let earliest = if self.asking { now } else { self.head_at().max(now) };
        while let Some(&(until, number)) = self.limits.first() {
            let over = until < earliest || until < now;
            let Some(place) = over.then(|| self.leave(number, now)).flatten() else { return };
            leaving.push(Leaving::TooLate(place, earliest.saturating_sub(now)));
        }
    }

    /// The costs to reserve for next: none while more than half of the reservations are left.
    fn lacking(&self, pace: Pace) -> Vec<u32> {
        let depth = self.places.front().map_or(1, |head| pace.depth(head.permits));
        if self.slots.len() * 2 > depth {
            return Vec::new();
        }
        let places = self.places.iter().skip(self.slots.len()).take_while(|place| place.alone);
        places.take(depth - self.slots.len()).map(|place| place.permits).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Names = Line<&'static str, u32>;

    impl Part for u32 {
        fn split_off(&mut self, _: u32, _: u64) -> Self {
            *self
        }
    }

    const TEN_A_SECOND: Pace =
        Pace { rate: 10, per_ms: 1000, spaced: true, capacity: 10, round_trip_ms: 1 };

    fn step(line: &mut Names, now: u64, pace: Option<Pace>) -> (Step<u32>, Vec<String>) {
        let mut leaving = Vec::new();
        let step = line.step(now, pace, &mut leaving);
        let leaving = leaving.into_iter().map(|one| match one {
            Leaving::Admitted(place, slot) => format!("{} by {}", place.seat, slot.ticket),
            Leaving::TooLate(place, ms) => format!("{} not before {ms}", place.seat),
        });
        (step, leaving.collect())
    }

    fn slot(at: u64, ticket: u32) -> Slot<u32> {
        Slot { at, permits: 1, ticket }
    }

    #[test]
    fn a_slot_passes_to_the_next_caller_when_its_caller_leaves() {
        let mut line = Names::default();
        let first = line.join(1, None, true, "first", 0);
        line.join(1, None, true, "second", 0);
        assert_eq!(step(&mut line, 0, Some(TEN_A_SECOND)).0, Step::Reserve(vec![1], None));
        line.put(slot(100, 7));
        line.answered(0);
        assert_eq!(step(&mut line, 1, Some(TEN_A_SECOND)).0, Step::Sleep(100));
        line.leave(first, 50);
        let (next, left) = step(&mut line, 100, Some(TEN_A_SECOND));
        assert_eq!((next, left), (Step::End, vec!["second by 7".to_owned()]));
    }

    #[test]
    fn a_queue_that_stays_empty_gives_its_slots_up_the_last_first() {
        let mut line = Names::default();
        let only = line.join(1, None, true, "only", 0);
        step(&mut line, 0, Some(TEN_A_SECOND));
        line.put(slot(100, 1));
        line.put(slot(200, 2));
        line.answered(0);
        line.leave(only, 10);
        assert_eq!(step(&mut line, 20, Some(TEN_A_SECOND)).0, Step::Sleep(110));
        let given_up = Step::GiveUp(vec![slot(200, 2), slot(100, 1)]);
        assert_eq!(step(&mut line, 110, Some(TEN_A_SECOND)).0, given_up);
        line.answered(0);
        assert_eq!(step(&mut line, 111, Some(TEN_A_SECOND)).0, Step::End);
    }

    #[test]
    fn reservations_are_as_deep_as_twice_the_round_trip_needs() {
        let depth = |rate, round_trip_ms| Pace { rate, round_trip_ms, ..TEN_A_SECOND }.depth(1);
        assert_eq!((depth(10, 1), depth(10, 300)), (1, 6));
        assert_eq!((depth(1000, 1), depth(1000, 10), depth(1000, 1000)), (7, 25, 64));
    }

    #[test]
    fn more_is_reserved_when_half_is_used() {
        let mut line = Names::default();
        for _ in 0..9 {
            line.join(1, None, true, "a caller", 0);
        }
        let pace = Some(Pace { rate: 1000, ..TEN_A_SECOND });
        assert_eq!(step(&mut line, 0, pace).0, Step::Reserve(vec![1; 7], None));
        (1..=7).for_each(|at| line.put(slot(at, 0)));
        line.answered(0);
        assert_eq!(step(&mut line, 3, pace), (Step::Sleep(4), vec!["a caller by 0".to_owned(); 3]));
        assert_eq!(
            step(&mut line, 4, pace).0,
            Step::Reserve(vec![1; 2], None),
            "there are 5 callers"
        );
    }

    #[test]
    fn the_head_asks_when_it_is_due_and_no_caller_overtakes_it() {
        let mut line = Names::default();
        line.join(5, None, true, "head", 300);
        line.join(1, None, true, "next", 0);
        assert_eq!(step(&mut line, 0, None).0, Step::Sleep(300));
        assert_eq!(step(&mut line, 300, None).0, Step::Ask);
        assert_eq!(step(&mut line, 301, None).0, Step::Sleep(u64::MAX), "the store is asked once");
        line.answered(700);
        assert_eq!(step(&mut line, 302, None).0, Step::Sleep(700));
        line.change();
        assert_eq!(step(&mut line, 303, None).0, Step::Ask);
    }

    #[test]
    fn a_caller_that_cannot_go_in_time_is_turned_away_at_once() {
        let mut line = Names::default();
        line.join(1, Some(400), true, "head", 300);
        line.join(1, Some(299), true, "hopeless", 0);
        let told = vec!["hopeless not before 300".to_owned()];
        assert_eq!(step(&mut line, 0, None), (Step::Sleep(300), told));
        assert_eq!(step(&mut line, 300, None).0, Step::Ask);
        line.answered(500);
        let told = vec!["head not before 199".to_owned()];
        assert_eq!(step(&mut line, 301, None), (Step::End, told));
    }

    #[test]
    fn what_a_large_slot_has_left_is_for_the_next() {
        let mut line = Names::default();
        line.join(2, None, true, "two", 0);
        line.join(1, None, true, "one", 0);
        line.put(Slot { at: 10, permits: 3, ticket: 9 });
        let (next, left) = step(&mut line, 10, Some(TEN_A_SECOND));
        assert_eq!((next, left), (Step::Sleep(210), vec!["two by 9".to_owned()]), "spaced");
        let not_spaced = Some(Pace { spaced: false, ..TEN_A_SECOND });
        line.join(1, None, true, "other", 0);
        assert_eq!(step(&mut line, 210, not_spaced).1, ["one by 9"]);
    }

    #[test]
    fn slots_that_were_missed_while_no_caller_waited_are_not_used_at_once() {
        let pace = Some(Pace { rate: 1000, ..TEN_A_SECOND });
        let tokens = pace.map(|pace| Pace { spaced: false, capacity: 3, ..pace });
        for (pace, at_once) in [(pace, 1), (tokens, 3)] {
            let mut line = Names::default();
            let only = line.join(1, None, true, "only", 0);
            (1..=7).for_each(|at| line.put(slot(at, 0)));
            line.leave(only, 1);
            for _ in 0..7 {
                line.join(1, None, true, "late", 0);
            }
            assert_eq!(step(&mut line, 7, pace).1.len(), at_once);
        }
    }

    #[test]
    fn what_cannot_be_given_up_is_used() {
        let mut line = Names::default();
        let head = line.join(1, None, true, "head", 0);
        line.put(slot(100, 1));
        line.change();
        let Step::GiveUp(slots) = step(&mut line, 0, Some(TEN_A_SECOND)).0 else { panic!("stale") };
        line.keep(slots.clone());
        line.answered(0);
        assert_eq!(step(&mut line, 0, Some(TEN_A_SECOND)).0, Step::Sleep(100));
        line.leave(head, 10);
        line.join(2, None, true, "two", 10);
        assert_eq!(step(&mut line, 10, Some(TEN_A_SECOND)).0, Step::GiveUp(slots.clone()));
        line.keep(slots);
        line.answered(0);
        assert_eq!(step(&mut line, 10, Some(TEN_A_SECOND)).0, Step::Reserve(vec![2], None));
    }

    #[test]
    fn reservations_that_are_too_small_are_given_up() {
        let mut line = Names::default();
        line.put(slot(100, 1));
        line.join(2, None, true, "two", 0);
        assert_eq!(step(&mut line, 0, Some(TEN_A_SECOND)).0, Step::GiveUp(vec![slot(100, 1)]));
        line.answered(0);
        assert_eq!(step(&mut line, 0, Some(TEN_A_SECOND)).0, Step::Reserve(vec![2], None));
    }
}
