//! The callers of this process that wait for one limiter, in order, and the permits reserved for
//! them.
//!
//! A [`Line`] handles times, costs and positions; it never sleeps and never queries a store. It
//! returns the next action as a [`Step`], which the queue's driver carries out. Callers take no
//! part in that: each has a seat that receives its answer, so a future that is never polled
//! again delays no other caller.

mod late;

use std::collections::{BTreeSet, VecDeque};

use super::{due::Due, pace::Pace};

/// How long an empty queue keeps its reservations, in milliseconds.
const KEPT_MS: u64 = 100;

/// A caller in the queue.
#[derive(Debug)]
pub(super) struct Place<S> {
    /// Orders the callers by arrival.
    pub(super) number: u64,
    pub(super) permits: u32,
    /// The last millisecond in which the caller may be admitted.
    pub(super) until: Option<u64>,
    /// Whether the caller takes from this limiter alone now, so that a reservation is sufficient.
    pub(super) alone: bool,
    pub(super) seat: S,
}

/// What identifies a reservation.
pub(super) trait Part: Clone {
    /// Keeps the first part, and returns the last: this many permits, which may be used this many
    /// milliseconds later.
    fn split_off(&mut self, permits: u32, later_ms: u64) -> Self;
}

/// Permits that are reserved for this queue, usable from `at` on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slot<T> {
    /// In milliseconds, by the clock of the limits.
    pub(super) at: u64,
    /// How much earlier that may have been, in milliseconds.
    pub(super) lag: u64,
    pub(super) permits: u32,
    /// Identifies the reservation in its store.
    pub(super) ticket: T,
}

/// The next action of a queue's driver.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step<T> {
    /// Reserve permits for requests of these costs, the latest of which may be admitted until then.
    Reserve(Vec<u32>, Option<u64>),
    /// Query the store for the caller at the head.
    Ask,
    /// Cancel reservations, in this order.
    GiveUp(Vec<Slot<T>>),
    /// Check whether a request of this cost could be granted before the reservations.
    Look(u32),
    /// Wait until this time, or for a change.
    Sleep(u64),
    /// Stop: no caller waits, and nothing is reserved.
    End,
}

/// A caller whose wait is over.
#[derive(Debug)]
pub(super) enum Leaving<S, T> {
    /// Its permits are available.
    Admitted(Place<S>, Slot<T>),
    /// Its permits cannot be available in time; the earliest time is in this many milliseconds.
    TooLate(Place<S>, u64),
}

#[derive(Debug)]
pub(super) struct Line<S, T> {
    places: VecDeque<Place<S>>,
    slots: VecDeque<Slot<T>>,
    /// The positions with a time limit, the earliest first.
    limits: BTreeSet<(u64, u64)>,
    /// Whether a request to the store is in progress: only one driver makes requests.
    asking: bool,
    /// The position that the request is for.
    asked: Option<u64>,
    /// Whether another caller has become the head since that request was made.
    new_head: bool,
    /// The next request to the store.
    due: Due,
    /// When to check whether the permits are free before their reservation.
    look_at: u64,
    /// Since when no caller waits.
    empty_since: Option<u64>,
    /// Whether reservations may have passed, because no caller waited or the head could not use them.
    was_idle: bool,
    /// The caller of several limiters for which reservations were canceled last.
    yielded_to: Option<u64>,
    /// Whether reservations may be later than necessary.
    stale: bool,
    /// Whether callers behind the head or the reservations may not be in time any more.
    doubtful: bool,
    /// The generation of the limits that the times are based on.
    generation: u64,
}

impl<S, T> Default for Line<S, T> {
    fn default() -> Self {
        Self {
            places: VecDeque::new(),
            slots: VecDeque::new(),
            limits: BTreeSet::new(),
            asking: false,
            asked: None,
            new_head: false,
            due: Due::default(),
            look_at: u64::MAX,
            empty_since: None,
            was_idle: false,
            yielded_to: None,
            stale: false,
            doubtful: false,
            generation: 0,
        }
    }
}

impl<S, T: Part> Line<S, T> {
    /// The number of waiting callers.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.places.is_empty() && self.slots.is_empty()
    }

    /// The costs of the callers that arrived before this one.
    pub(super) fn costs_before(&self, number: u64) -> impl Iterator<Item = u32> {
        let ahead = self.places.iter().take_while(move |place| place.number < number);
        ahead.map(|place| place.permits)
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = &Slot<T>> {
        self.slots.iter()
    }

    pub(super) fn head(&self) -> Option<&Place<S>> {
        self.places.front()
    }

    /// Returns the reservation of the head. A caller that takes from other limiters too has none.
    fn next_slot(&self) -> Option<&Slot<T>> {
        self.slots.front().filter(|_| self.head().is_none_or(|head| head.alone))
    }

    /// Returns the index of the caller that uses the next reservation, and when. A caller that takes from several
    /// limiters leaves it to those behind, as does one that a request in progress will answer.
    fn next_use(&self) -> Option<(usize, u64)> {
        let slot = self.slots.front()?;
        let is_free = |place: &Place<S>| place.alone && Some(place.number) != self.asked;
        let index = self.places.iter().position(is_free)?;
        (slot.permits >= self.places[index].permits).then_some((index, slot.at))
    }

    /// When the head expects its permits, as far as that is known.
    pub(super) fn head_at(&self) -> u64 {
        self.next_slot().map_or(self.due.at, |slot| slot.at)
    }

    /// How much earlier that may be, in milliseconds: a wait that ends in time by that much is not too long.
    pub(super) fn lag(&self) -> u64 {
        self.next_slot().map_or(self.due.lag, |slot| slot.lag)
    }

    /// Adds a caller behind all that arrived before it. Later callers may be in the line already: a
    /// caller that the store rejected joins when it receives the reply, one with a cached denial
    /// joins immediately, and one that waited for another limiter joins last. A caller at the head
    /// queries the store when `due`, which is based on its `generation` of the limits.
    pub(super) fn join(&mut self, place: Place<S>, due: Due, generation: u64) {
        let index = self.places.partition_point(|other| other.number < place.number);
        if self.places.is_empty() && !self.asking {
            self.generation = self.generation.max(generation);
        }
        if index == 0 {
            self.head_is_new(due);
        }
        self.limits.extend(place.until.map(|until| (until, place.number)));
        self.places.insert(index, place);
        self.empty_since = None;
    }

    /// Returns the caller that the next request is made for.
    pub(super) fn ask(&mut self) -> Option<&Place<S>> {
        (self.asked, self.new_head) = (self.head().map(|head| head.number), false);
        self.head()
    }

    /// Removes a position, because its caller left or was answered.
    pub(super) fn leave(&mut self, number: u64, now: u64) -> Option<Place<S>> {
        let index = self.places.binary_search_by_key(&number, |place| place.number).ok()?;
        let place = self.places.remove(index)?;
        self.left(&place, now);
        if index == 0 {
            // The next caller may request less.
            self.head_is_new(self.due.no_later_than(now));
        }
        Some(place)
    }

    /// Sets the next request for a new head. One in progress is not for it, so the next is made when that returns.
    fn head_is_new(&mut self, due: Due) {
        match self.asking {
            true => self.new_head = true,
            false => self.due = due,
        }
    }

    /// Removes a caller that the store answered; `again` is when the same request can be granted again.
    pub(super) fn served(&mut self, number: u64, now: u64, again: Due) {
        let asked = self.leave(number, now).map(|place| place.permits);
        let is_same = asked == self.head().map(|head| head.permits);
        self.new_head = false;
        self.answered(if is_same { again } else { Due::at(now, again.lag) });
    }

    fn left(&mut self, place: &Place<S>, now: u64) {
        if let Some(until) = place.until {
            self.limits.remove(&(until, place.number));
        }
        if self.places.is_empty() {
            (self.empty_since, self.was_idle) = (Some(now), true);
        }
    }

    /// Records that permits may have become free early.
    pub(super) fn change(&mut self) {
        (self.due, self.stale, self.doubtful) = (Due::default(), true, true);
    }

    /// Records that no permits are free until then, except those that are reserved.
    pub(super) fn blocked_until(&mut self, at: u64) {
        if self.next_slot().is_none() {
            self.due.at = self.due.at.max(at);
        }
    }

    /// Adds a reservation that its caller did not use, for the next caller.
    pub(super) fn put_back(&mut self, slot: Slot<T>) {
        self.was_idle = true;
        self.put(slot);
    }

    /// Adds a reservation.
    pub(super) fn put(&mut self, slot: Slot<T>) {
        let index = self.slots.partition_point(|other| other.at <= slot.at);
        self.slots.insert(index, slot);
    }

    /// Records a reply of the store, and the next request.
    pub(super) fn answered(&mut self, again: Due) {
        // A change during the request still has to be considered, and the reply is not for a new head.
        let is_over = self.asking && (self.stale || self.new_head);
        self.due = if is_over { Due::at(0, again.lag) } else { again };
        (self.asking, self.asked) = (false, None);
    }

    /// Sets when to check whether the permits are free before their reservation.
    pub(super) fn look_at(&mut self, at: u64) {
        self.look_at = at;
    }

    /// Records that a new request could be granted at `free_at`, if the store replied; the next check
    /// is due at `again`.
    pub(super) fn looked(&mut self, free_at: Option<u64>, again: u64) {
        (self.asking, self.asked, self.look_at) = (false, None, again);
        if std::mem::take(&mut self.new_head) {
            self.due = Due::default();
        }
        let is_earlier = |at| self.slots.front().is_some_and(|slot| at < slot.at);
        if free_at.is_some_and(is_earlier) {
            self.change();
        }
    }

    /// Returns the next action, and removes the callers whose wait is over. A limiter without a
    /// `pace` takes no reservations. A `generation` of the limits that the line has not seen may
    /// have freed permits.
    pub(super) fn step(
        &mut self,
        now: u64,
        pace: Option<Pace>,
        generation: u64,
        least_ms: impl Fn(u64, u64) -> Option<u64>,
        leaving: &mut Vec<Leaving<S, T>>,
    ) -> Step<T> {
        if generation > self.generation {
            self.generation = generation;
            self.change();
        }
        self.hand_out(now, pace, leaving);
        let step = match self.next(now, pace) {
            Step::Sleep(_) => {
                self.turn_away(now, leaving);
                self.turn_away_behind(now, pace, least_ms, leaving);
                self.next(now, pace)
            }
            step => step,
        };
        match &step {
            Step::Reserve(..) | Step::Ask | Step::GiveUp(_) | Step::Look(_) => {
                (self.asking, self.stale, self.new_head) = (true, false, false);
            }
            Step::Sleep(_) | Step::End => {}
        }
        step
    }

    fn next(&mut self, now: u64, pace: Option<Pace>) -> Step<T> {
        let until = self.next_limit().map(|(until, _)| until.saturating_add(self.lag() + 1));
        let Some(head) = self.places.front() else {
            let kept_until = self.empty_since.map_or(0, |since| since + KEPT_MS);
            return match (self.asking, self.slots.is_empty()) {
                (true, _) => Step::Sleep(u64::MAX),
                (false, true) => Step::End,
                (false, false) if now < kept_until && pace.is_some() => Step::Sleep(kept_until),
                (false, false) => self.give_up(),
            };
        };
        let slot = self.next_use().map(|(_, at)| at);
        let sleep = |due: Option<u64>| {
            let wake = [until, slot, due].into_iter().flatten().min().unwrap_or(u64::MAX);
            Step::Sleep(wake)
        };
        if self.asking {
            return sleep(None);
        }
        let misfit = match head.alone {
            true => self.slots.front().is_some_and(|slot| slot.permits < head.permits),
            false => self.yielded_to != Some(head.number),
        };
        if (self.stale || misfit || pace.is_none()) && !self.slots.is_empty() {
            if !head.alone {
                self.yielded_to = Some(head.number);
            }
            return self.give_up();
        }
        let pace = pace.filter(|pace| head.alone && pace.grants(head.permits));
        let costs = pace.map(|pace| self.lacking(pace));
        match costs {
            Some(costs) if costs.is_empty() && self.look_at <= now => Step::Look(head.permits),
            Some(costs) if costs.is_empty() => sleep(Some(self.look_at)),
            _ if self.due.ask_at > now => sleep(Some(self.due.ask_at)),
            Some(costs) => {
                let places = self.places.iter().skip(self.slots.len()).take(costs.len());
                let latest = places.map(|place| place.until.unwrap_or(u64::MAX)).max();
                Step::Reserve(costs, latest.filter(|until| *until < u64::MAX))
            }
            None => Step::Ask,
        }
    }

    /// Cancels the last reservations first: a store accepts a reservation back if no other was made after it.
    fn give_up(&mut self) -> Step<T> {
        Step::GiveUp(self.slots.drain(..).rev().collect())
    }

    /// Keeps reservations that could not be canceled because others were made after them, if the caller
    /// at the head can use them, or those behind a caller that takes from several limiters.
    pub(super) fn keep(&mut self, slots: Vec<Slot<T>>) {
        let least = self.head().map(|head| if head.alone { head.permits } else { 0 });
        let fits = |slot: &Slot<T>| least.is_some_and(|permits| permits <= slot.permits);
        slots.into_iter().filter(fits).for_each(|slot| self.put(slot));
        // How many permits the bucket has in addition is not known.
        self.doubtful &= self.slots.is_empty();
    }

    /// Gives due reservations to the callers at the head.
    fn hand_out(&mut self, now: u64, pace: Option<Pace>, leaving: &mut Vec<Leaving<S, T>>) {
        if !self.places.is_empty() && std::mem::take(&mut self.was_idle) {
            // Callers that arrive late are not admitted all at once.
            let keeps_ms = |slot: &Slot<T>| pace.map_or(0, |pace| pace.keeps_ms(slot.permits));
            self.slots.retain(|slot| slot.at + keeps_ms(slot) > now);
        }
        while let Some((index, at)) = self.next_use() {
            if at > now {
                return;
            }
            let (Some(head), Some(mut slot)) = (self.places.remove(index), self.slots.pop_front())
            else {
                return;
            };
            self.left(&head, now);
            let rest = slot.permits - head.permits;
            if rest > 0 {
                let spaced = pace.filter(|pace| pace.spaced);
                let later = spaced.map_or(0, |pace| pace.span_ms(head.permits.into()));
                let ticket = slot.ticket.split_off(rest, later);
                self.put(Slot { at: slot.at + later, lag: slot.lag, permits: rest, ticket });
            }
            let used = Slot { permits: head.permits, ..slot };
            leaving.push(Leaving::Admitted(head, used));
        }
        self.was_idle |= !self.slots.is_empty();
    }

    /// Returns the costs to reserve next: none while more than half of the reservations are left.
    fn lacking(&self, pace: Pace) -> Vec<u32> {
        let depth = self.places.front().map_or(1, |head| pace.depth(head.permits));
        if self.slots.len() * 2 > depth {
            return Vec::new();
        }
        let fits = |place: &&Place<S>| place.alone && pace.grants(place.permits);
        let places = self.places.iter().skip(self.slots.len()).take_while(fits);
        places.take(depth - self.slots.len()).map(|place| place.permits).collect()
    }
}

#[cfg(test)]
mod tests;
