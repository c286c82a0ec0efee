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
    let step = line.step(now, pace, line.generation, second_each, &mut leaving);
    let leaving = leaving.into_iter().map(|one| match one {
        Leaving::Admitted(place, slot) => format!("{} by {}", place.seat, slot.ticket),
        Leaving::TooLate(place, ms) => format!("{} not before {ms}", place.seat),
    });
    (step, leaving.collect())
}

/// The time behind the turn of the head in a window of one permit a second.
fn second_each(ahead: u64, permits: u64) -> Option<u64> {
    (permits <= 1).then(|| (ahead + permits - 1) * 1000)
}

/// Joins behind all present callers. Returns the number of the position.
fn join(
    line: &mut Names,
    permits: u32,
    until: Option<u64>,
    seat: &'static str,
    due: (u64, u64),
) -> u64 {
    let number = line.places.back().map_or(100, |last| last.number + 1);
    let place = Place { number, permits, until, alone: true, seat };
    line.join(place, Due::at(due.0, due.1), 1);
    number
}

fn slot(at: u64, ticket: u32) -> Slot<u32> {
    Slot { at, lag: 0, permits: 1, ticket }
}

#[test]
fn a_slot_passes_to_the_next_caller_when_its_caller_leaves() {
    let mut line = Names::default();
    let first = join(&mut line, 1, None, "first", (0, 0));
    join(&mut line, 1, None, "second", (0, 0));
    assert_eq!(step(&mut line, 0, Some(TEN_A_SECOND)).0, Step::Reserve(vec![1], None));
    line.put(slot(100, 7));
    line.answered(Due::at(0, 0));
    assert_eq!(step(&mut line, 1, Some(TEN_A_SECOND)).0, Step::Sleep(100));
    line.leave(first, 50);
    let (next, left) = step(&mut line, 100, Some(TEN_A_SECOND));
    assert_eq!((next, left), (Step::End, vec!["second by 7".to_owned()]));
}

#[test]
fn a_queue_that_stays_empty_gives_its_slots_up_the_last_first() {
    let mut line = Names::default();
    let only = join(&mut line, 1, None, "only", (0, 0));
    step(&mut line, 0, Some(TEN_A_SECOND));
    line.put(slot(100, 1));
    line.put(slot(200, 2));
    line.answered(Due::at(0, 0));
    line.leave(only, 10);
    assert_eq!(step(&mut line, 20, Some(TEN_A_SECOND)).0, Step::Sleep(110));
    let given_up = Step::GiveUp(vec![slot(200, 2), slot(100, 1)]);
    assert_eq!(step(&mut line, 110, Some(TEN_A_SECOND)).0, given_up);
    line.answered(Due::at(0, 0));
    assert_eq!(step(&mut line, 111, Some(TEN_A_SECOND)).0, Step::End);
}

/// A caller of several limiters moves on with the slot, and would then receive the reply as well.
#[test]
fn a_caller_for_which_a_request_is_in_progress_gets_no_slot() {
    let mut line = Names::default();
    let first = join(&mut line, 1, None, "first", (0, 0));
    join(&mut line, 1, None, "second", (0, 0));
    assert_eq!(step(&mut line, 0, None).0, Step::Ask);
    assert_eq!(line.ask().map(|head| head.number), Some(first));
    line.put_back(slot(40, 7));
    let (next, left) = step(&mut line, 50, Some(TEN_A_SECOND));
    assert_eq!((next, left), (Step::Sleep(u64::MAX), vec!["second by 7".to_owned()]));
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
        join(&mut line, 1, None, "a caller", (0, 0));
    }
    let pace = Some(Pace { rate: 1000, ..TEN_A_SECOND });
    assert_eq!(step(&mut line, 0, pace).0, Step::Reserve(vec![1; 7], None));
    (1..=7).for_each(|at| line.put(slot(at, 0)));
    line.answered(Due::at(0, 0));
    assert_eq!(step(&mut line, 3, pace), (Step::Sleep(4), vec!["a caller by 0".to_owned(); 3]));
    assert_eq!(step(&mut line, 4, pace).0, Step::Reserve(vec![1; 2], None), "there are 5 callers");
}

#[test]
fn the_head_asks_when_it_is_due_and_no_caller_overtakes_it() {
    let mut line = Names::default();
    join(&mut line, 5, None, "head", (300, 0));
    join(&mut line, 1, None, "next", (0, 0));
    assert_eq!(step(&mut line, 0, None).0, Step::Sleep(300));
    assert_eq!(step(&mut line, 300, None).0, Step::Ask);
    assert_eq!(step(&mut line, 301, None).0, Step::Sleep(u64::MAX), "the store is asked once");
    line.answered(Due::at(700, 0));
    assert_eq!(step(&mut line, 302, None).0, Step::Sleep(700));
    line.change();
    assert_eq!(step(&mut line, 303, None).0, Step::Ask);
}

#[test]
fn a_generation_that_the_line_has_not_seen_is_a_change() {
    let mut line = Names::default();
    let next = |line: &mut Names, now, generation| {
        line.step(now, None, generation, second_each, &mut Vec::new())
    };
    join(&mut line, 1, None, "head", (300, 0));
    assert_eq!(next(&mut line, 0, 1), Step::Sleep(300), "it joined in this one");
    assert_eq!(next(&mut line, 0, 2), Step::Ask);
    assert_eq!(next(&mut line, 1, 3), Step::Sleep(u64::MAX), "the request is of the one before");
    line.answered(Due::at(300, 0));
    assert_eq!(next(&mut line, 2, 3), Step::Ask);
    line.answered(Due::at(300, 0));
    assert_eq!(next(&mut line, 3, 2), Step::Sleep(300), "another driver read it earlier");
}

#[test]
fn a_caller_that_cannot_go_in_time_is_turned_away_at_once() {
    let mut line = Names::default();
    join(&mut line, 1, Some(400), "head", (300, 0));
    join(&mut line, 1, Some(299), "hopeless", (0, 0));
    let left = vec!["hopeless not before 300".to_owned()];
    assert_eq!(step(&mut line, 0, None), (Step::Sleep(300), left));
    assert_eq!(step(&mut line, 300, None).0, Step::Ask);
    line.answered(Due::at(500, 0));
    let left = vec!["head not before 199".to_owned()];
    assert_eq!(step(&mut line, 301, None), (Step::End, left));
}

#[test]
fn a_wait_that_may_be_over_in_time_is_not_too_long() {
    let mut line = Names::default();
    join(&mut line, 1, Some(300), "head", (303, 3));
    assert_eq!(step(&mut line, 301, None).0, Step::Sleep(303));
    assert_eq!(step(&mut line, 303, None).0, Step::Ask);
    assert_eq!(step(&mut line, 310, None).0, Step::Sleep(u64::MAX), "its answer is on its way");
    line.answered(Due::at(311, 3));
    let left = vec!["head not before 1".to_owned()];
    assert_eq!(step(&mut line, 310, None), (Step::End, left));
}

#[test]
fn what_a_large_slot_has_left_is_for_the_next() {
    let mut line = Names::default();
    join(&mut line, 2, None, "two", (0, 0));
    join(&mut line, 1, None, "one", (0, 0));
    line.put(Slot { at: 10, lag: 0, permits: 3, ticket: 9 });
    let (next, left) = step(&mut line, 10, Some(TEN_A_SECOND));
    assert_eq!((next, left), (Step::Sleep(210), vec!["two by 9".to_owned()]), "spaced");
    let not_spaced = Some(Pace { spaced: false, ..TEN_A_SECOND });
    join(&mut line, 1, None, "other", (0, 0));
    assert_eq!(step(&mut line, 210, not_spaced).1, ["one by 9"]);
}

#[test]
fn slots_that_were_missed_while_no_caller_waited_are_not_used_at_once() {
    let pace = Some(Pace { rate: 1000, ..TEN_A_SECOND });
    let tokens = pace.map(|pace| Pace { spaced: false, capacity: 3, ..pace });
    for (pace, at_once) in [(pace, 1), (tokens, 3)] {
        let mut line = Names::default();
        let only = join(&mut line, 1, None, "only", (0, 0));
        (1..=7).for_each(|at| line.put(slot(at, 0)));
        line.leave(only, 1);
        for _ in 0..7 {
            join(&mut line, 1, None, "late", (0, 0));
        }
        assert_eq!(step(&mut line, 7, pace).1.len(), at_once);
    }
}

#[test]
fn what_cannot_be_given_up_is_used() {
    let mut line = Names::default();
    let head = join(&mut line, 1, None, "head", (0, 0));
    line.put(slot(100, 1));
    line.change();
    let Step::GiveUp(slots) = step(&mut line, 0, Some(TEN_A_SECOND)).0 else { panic!("stale") };
    line.keep(slots.clone());
    line.answered(Due::at(0, 0));
    assert_eq!(step(&mut line, 0, Some(TEN_A_SECOND)).0, Step::Sleep(100));
    line.leave(head, 10);
    join(&mut line, 2, None, "two", (10, 0));
    assert_eq!(step(&mut line, 10, Some(TEN_A_SECOND)).0, Step::GiveUp(slots.clone()));
    line.keep(slots);
    line.answered(Due::at(0, 0));
    assert_eq!(step(&mut line, 10, Some(TEN_A_SECOND)).0, Step::Reserve(vec![2], None));
}

#[test]
fn reservations_make_way_once_for_a_caller_that_takes_from_several_limiters() {
    let mut line = Names::default();
    line.put(slot(100, 1));
    line.put(slot(200, 2));
    let place = |number, alone, seat| Place { number, permits: 1, until: None, alone, seat };
    line.join(place(2, true, "alone"), Due::at(0, 0), 1);
    line.join(place(1, false, "joint"), Due::at(0, 0), 1);
    let both = Step::GiveUp(vec![slot(200, 2), slot(100, 1)]);
    assert_eq!(step(&mut line, 0, Some(TEN_A_SECOND)).0, both);
    // Other processes reserved after them.
    line.keep(vec![slot(200, 2), slot(100, 1)]);
    line.answered(Due::at(0, 0));
    assert_eq!(step(&mut line, 0, Some(TEN_A_SECOND)).0, Step::Ask);
    line.answered(Due::at(500, 0));
    assert_eq!(step(&mut line, 50, Some(TEN_A_SECOND)).0, Step::Sleep(100));
    let (next, left) = step(&mut line, 100, Some(TEN_A_SECOND));
    assert_eq!(left, ["alone by 1"], "a caller behind it needs no more than the slot");
    assert_eq!(next, Step::Sleep(500), "no slot is its own");
}

#[test]
fn reservations_that_are_too_small_are_given_up() {
    let mut line = Names::default();
    line.put(slot(100, 1));
    join(&mut line, 2, None, "two", (0, 0));
    assert_eq!(step(&mut line, 0, Some(TEN_A_SECOND)).0, Step::GiveUp(vec![slot(100, 1)]));
    line.answered(Due::at(0, 0));
    assert_eq!(step(&mut line, 0, Some(TEN_A_SECOND)).0, Step::Reserve(vec![2], None));
}

#[test]
fn a_caller_that_joins_late_is_served_before_all_that_came_after_it() {
    let mut line = Names::default();
    let place = |number, seat| Place { number, permits: 1, until: None, alone: true, seat };
    line.join(place(3, "third"), Due::at(10, 0), 1);
    line.join(place(4, "fourth"), Due::at(0, 0), 1);
    line.join(place(2, "second"), Due::at(0, 0), 1);
    assert_eq!(step(&mut line, 10, None).0, Step::Ask);
    assert_eq!(line.ask().map(|head| head.seat), Some("second"));
    line.join(place(1, "first"), Due::at(0, 0), 1);
    // The request in progress is for another caller.
    assert!(line.leave(2, 11).is_some());
    line.answered(Due::at(11, 0));
    let seats: Vec<_> = line.places.iter().map(|place| place.seat).collect();
    assert_eq!(seats, ["first", "third", "fourth"]);
}

#[test]
fn reservations_that_are_later_than_necessary_are_given_up() {
    let mut line = Names::default();
    join(&mut line, 3, None, "only", (0, 0));
    step(&mut line, 0, Some(TEN_A_SECOND));
    let promised = Slot { permits: 3, ..slot(9000, 1) };
    line.put(promised.clone());
    line.answered(Due::at(0, 0));
    line.look_at(1000);
    for (free_at, next) in [(None, 2000), (Some(9000), 3000)] {
        let due = next - 1000;
        assert_eq!(step(&mut line, due - 1, Some(TEN_A_SECOND)).0, Step::Sleep(due));
        assert_eq!(step(&mut line, due, Some(TEN_A_SECOND)).0, Step::Look(3));
        assert_eq!(step(&mut line, due, Some(TEN_A_SECOND)).0, Step::Sleep(9000), "it looks once");
        line.looked(free_at, next);
    }
    step(&mut line, 3000, Some(TEN_A_SECOND));
    line.looked(Some(8999), 4000);
    let given_up = Step::GiveUp(vec![promised]);
    assert_eq!(step(&mut line, 3001, Some(TEN_A_SECOND)).0, given_up);
    line.answered(Due::at(0, 0));
    assert_eq!(step(&mut line, 3002, Some(TEN_A_SECOND)).0, Step::Reserve(vec![3], None));
}

#[test]
fn a_caller_that_joins_at_the_head_does_not_wait_for_what_the_next_one_needs() {
    let mut line = Names::default();
    let place = |number, seat| Place { number, permits: 1, until: None, alone: true, seat };
    line.join(place(3, "needs much"), Due::at(900, 0), 1);
    assert_eq!(step(&mut line, 0, None).0, Step::Sleep(900));
    line.join(place(2, "head"), Due::at(200, 0), 1);
    assert_eq!(step(&mut line, 0, None).0, Step::Sleep(200));
    assert_eq!(step(&mut line, 200, None).0, Step::Ask);
    assert_eq!(line.ask().map(|head| head.seat), Some("head"));
    line.join(place(1, "earlier"), Due::at(300, 0), 1);
    line.answered(Due::at(900, 0));
    assert_eq!(step(&mut line, 201, None).0, Step::Ask, "the reply was for another one");
    assert_eq!(line.ask().map(|head| head.seat), Some("earlier"));
    line.leave(1, 202);
    line.answered(Due::at(900, 0));
    assert_eq!(step(&mut line, 203, None).0, Step::Ask, "so was this one");
}

#[test]
fn a_caller_is_turned_away_by_when_permits_are_free_not_by_when_the_store_is_asked() {
    let mut line = Names::default();
    let due = Due::at(900, 0).asked_by(100);
    let place = |number, until, seat| Place { number, permits: 1, until, alone: true, seat };
    line.join(place(1, None, "head"), due, 1);
    line.join(place(2, Some(899), "hopeless"), Due::default(), 1);
    let left = vec!["hopeless not before 900".to_owned()];
    assert_eq!(step(&mut line, 0, None), (Step::Sleep(100), left));
    assert_eq!(step(&mut line, 100, None).0, Step::Ask);
    line.answered(due.asked_by(200));
    assert_eq!(line.head_at(), 900);
}

#[test]
fn a_caller_that_may_be_in_time_without_the_head_is_not_turned_away_with_it() {
    let mut line = Names::default();
    join(&mut line, 5, Some(800), "needs much", (0, 0));
    join(&mut line, 1, Some(700), "next", (0, 0));
    assert_eq!(step(&mut line, 0, Some(TEN_A_SECOND)).0, Step::Reserve(vec![5], Some(800)));
    line.answered(Due::at(900, 0).asked_by(500));
    let left = vec!["needs much not before 899".to_owned()];
    let next = Step::Reserve(vec![1], Some(700));
    assert_eq!(step(&mut line, 1, Some(TEN_A_SECOND)), (next, left));
}

#[test]
fn callers_behind_the_reservations_are_turned_away_when_a_lower_rate_leaves_them_no_chance() {
    let slow = |spaced| Some(Pace { rate: 1, spaced, capacity: 1, ..TEN_A_SECOND });
    for spaced in [false, true] {
        let mut line = Names::default();
        join(&mut line, 1, None, "head", (0, 0));
        join(&mut line, 2, None, "never", (0, 0));
        for (until, seat) in [(1999, "late"), (2000, "next"), (2999, "later"), (3000, "last")] {
            join(&mut line, 1, Some(until), seat, (0, 0));
        }
        let fast = Some(TEN_A_SECOND);
        assert_eq!(step(&mut line, 0, fast).0, Step::Reserve(vec![1], None));
        line.put(slot(100, 1));
        line.answered(Due::at(0, 0));
        assert_eq!(step(&mut line, 1, fast), (Step::Sleep(100), Vec::new()));
        line.change();
        assert_eq!(step(&mut line, 2, slow(spaced)).0, Step::GiveUp(vec![slot(100, 1)]));
        line.answered(Due::at(0, 0));
        assert_eq!(step(&mut line, 3, slow(spaced)).0, Step::Reserve(vec![1], None));
        line.put(slot(1000, 2));
        line.answered(Due::at(0, 0));
        let left = ["late not before 1996", "later not before 2996"].map(str::to_owned).to_vec();
        assert_eq!(step(&mut line, 4, slow(spaced)), (Step::Sleep(1000), left));
    }
}

#[test]
fn callers_behind_the_head_are_turned_away_when_a_lower_rate_leaves_them_no_chance() {
    let mut line = Names::default();
    join(&mut line, 1, None, "head", (500, 500));
    join(&mut line, 2, None, "never", (0, 0));
    for (until, seat) in [(1499, "late"), (1500, "next"), (2499, "later"), (2500, "last")] {
        join(&mut line, 1, Some(until), seat, (0, 0));
    }
    assert_eq!(step(&mut line, 0, None), (Step::Sleep(500), Vec::new()));
    line.change();
    assert_eq!(step(&mut line, 1, None), (Step::Ask, Vec::new()));
    line.answered(Due::at(500, 0));
    let left = ["late not before 1498", "later not before 2498"].map(str::to_owned).to_vec();
    assert_eq!(step(&mut line, 2, None), (Step::Sleep(500), left));
}

#[test]
fn beside_a_reservation_that_was_not_canceled_no_caller_is_turned_away() {
    let mut line = Names::default();
    join(&mut line, 1, None, "head", (0, 0));
    join(&mut line, 1, Some(500), "next", (0, 0));
    let slow = Some(Pace { rate: 1, ..TEN_A_SECOND });
    assert_eq!(step(&mut line, 0, slow).0, Step::Reserve(vec![1], None));
    line.put(slot(100, 1));
    line.answered(Due::at(0, 0));
    line.change();
    assert_eq!(step(&mut line, 1, slow).0, Step::GiveUp(vec![slot(100, 1)]));
    line.keep(vec![slot(100, 1)]);
    line.answered(Due::at(0, 0));
    assert_eq!(step(&mut line, 2, slow), (Step::Sleep(100), Vec::new()));
}
