//! Announcements of processes, one after the other.

use ratelimit_spec::Mode;

use super::*;

const OLD: Epoch = Epoch { revision: 0, since: 1 };
const NEW: Epoch = Epoch { revision: 0, since: 2 };
const RESET: Assertion = Assertion::First(OnDrift::Reset);

fn config(rate: u64) -> Config {
    Config::new(rate, 1000, Mode::Overall)
}

fn first(stored: Stored, rate: u64, epoch: Epoch, now: u64) -> (Stored, Option<Reconciled>) {
    let (stored, outcome) = reconcile(Some(stored), config(rate), epoch, RESET, now);
    (stored, outcome.reconciled)
}

fn created(rate: u64, epoch: Epoch, now: u64) -> Stored {
    let (stored, outcome) = reconcile(None, config(rate), epoch, RESET, now);
    assert_eq!(outcome, Reconciled::Created.into());
    stored
}

fn written(rate: u64, made_us: u64, held_until_ms: u64, before: Stored) -> Stored {
    let change = Change { made_us, made_ms: made_us / 1000, held_until_ms };
    Stored::written(config(rate), change, Some(before), made_us / 1000)
}

#[test]
fn a_restart_with_an_equal_configuration_touches_only_the_epoch() {
    let (stored, outcome) = first(created(10, OLD, 0), 10, NEW, 5);
    assert_eq!((outcome, stored.shared.epoch), (Some(Reconciled::Unchanged), NEW));
}

#[test]
fn the_greater_epoch_wins_and_the_lower_one_follows() {
    let before = created(10, OLD, 0);
    let (stored, outcome) = reconcile(Some(before), config(20), NEW, RESET, 5);
    assert_eq!((outcome.reconciled, stored.config().rate), (Some(Reconciled::Reset), 20));
    assert_eq!(outcome.replaced, Some(config(10)));
    for assertion in [RESET, Assertion::Steady] {
        let (after, outcome) = reconcile(Some(stored.clone()), config(10), OLD, assertion, 6);
        assert_eq!((outcome, after.config().rate), (Reconciled::Followed.into(), 20));
    }
}

#[test]
fn a_revision_counts_more_than_a_start() {
    let stored = created(10, Epoch { revision: 7, since: 1 }, 0);
    let later = Epoch { revision: 6, since: 9 };
    assert_eq!(first(stored.clone(), 20, later, 5).1, Some(Reconciled::Followed));
    let changed = written(3, 5, 0, stored);
    assert_eq!(first(changed, 20, later, 5).1, Some(Reconciled::Followed));
}

#[test]
fn a_second_reset_within_a_window_carries() {
    let (stored, _) = first(created(10, OLD, 0), 20, NEW, 5);
    let newer = Epoch { revision: 0, since: 3 };
    assert_eq!(first(stored.clone(), 30, newer, 900).1, Some(Reconciled::Carried));
    assert_eq!(first(stored, 30, newer, 1005).1, Some(Reconciled::Reset));
}

#[test]
fn a_date_far_in_the_future_is_the_oldest() {
    const NOW: u64 = 1_700_000_000_000;
    let ahead = |ms: u64| Epoch { revision: 0, since: (NOW + ms) * 1000 };
    let (stored, outcome) = first(created(10, ahead(3_600_000), NOW), 20, OLD, NOW);
    assert_eq!((outcome, stored.config().rate), (Some(Reconciled::Reset), 20));
    let (stored, outcome) = first(stored, 10, ahead(3_600_000), NOW);
    assert_eq!((outcome, stored.config().rate), (Some(Reconciled::Followed), 20));
    // Processes only estimate the store's time.
    let (_, outcome) = first(stored, 10, ahead(9_000), NOW);
    assert_eq!(outcome, Some(Reconciled::Carried));
}

#[test]
fn what_was_in_force_within_an_hour_is_carried() {
    let start = |since| Epoch { revision: 0, since };
    let mut stored = created(10, start(1), 0);
    // An old and a new version that restart repeatedly side by side.
    let (mut outcome, mut resets) = (None, 0);
    for n in 0..10 {
        let rate = if n % 2 == 0 { 16 } else { 10 };
        (stored, outcome) = first(stored, rate, start(2 + n), 10_000 * (n + 1));
        resets += usize::from(outcome == Some(Reconciled::Reset));
    }
    assert_eq!((resets, outcome), (1, Some(Reconciled::Carried)));
    let later = 100_000 + REMEMBERED_FOR_MS;
    assert_eq!(first(stored.clone(), 16, start(20), later - 1).1, Some(Reconciled::Carried));
    assert_eq!(first(stored, 16, start(20), later).1, Some(Reconciled::Reset));
}

#[test]
fn four_earlier_configurations_are_remembered() {
    let mut stored = created(1, OLD, 0);
    for (rate, since) in [(2, 2), (3, 3), (4, 4), (5, 5), (6, 6)] {
        let epoch = Epoch { revision: 0, since };
        let reset;
        (stored, reset) = first(stored, rate, epoch, since * 10_000);
        assert_eq!(reset, Some(Reconciled::Reset));
    }
    let next = Epoch { revision: 0, since: 7 };
    assert_eq!(first(stored.clone(), 2, next, 70_000).1, Some(Reconciled::Carried));
    assert_eq!(first(stored, 1, next, 70_000).1, Some(Reconciled::Reset));
}

#[test]
fn only_a_younger_configuration_replaces_a_change_from_outside() {
    let changed = written(2, 5_000, 0, created(10, NEW, 0));
    for since in [1, 2, 5_000] {
        let epoch = Epoch { revision: 0, since };
        assert_eq!(first(changed.clone(), 10, epoch, 90_000).1, Some(Reconciled::Followed));
    }
    let younger = Epoch { revision: 0, since: 5_001 };
    let (after, outcome) = first(changed.clone(), 99, younger, 90_000);
    assert_eq!((after.config().rate, outcome), (99, Some(Reconciled::Carried)));
    // Writing the same configuration deliberately is a change as well.
    let same = written(10, 5_000, 0, created(10, OLD, 0));
    assert_eq!(first(same, 20, NEW, 6).1, Some(Reconciled::Followed));
}

#[test]
fn a_change_that_is_held_stays_until_its_deadline() {
    let held = written(2, 5_000, 60_000, created(10, OLD, 0));
    let younger = Epoch { revision: 0, since: 9_000 };
    assert_eq!(held.held_for_ms(59_000), 1_000);
    assert_eq!(first(held.clone(), 10, younger, 59_999).1, Some(Reconciled::Followed));
    assert_eq!(first(held, 10, younger, 60_000).1, Some(Reconciled::Carried));
}

#[test]
fn a_change_from_before_the_clock_was_set_back_is_the_oldest_and_held_as_long_again() {
    const YEAR: u64 = 31_536_000_000;
    const DAY: u64 = 86_400_000;
    let made = YEAR + DAY;
    let changed = written(2, made * 1000, made + 5_000, created(10, OLD, 0));
    assert_eq!(changed.held_for_ms(YEAR), 5_000);
    let younger = Epoch { revision: 0, since: YEAR * 1000 };
    let (changed, outcome) = first(changed, 10, younger, YEAR + 1_000);
    assert_eq!(outcome, Some(Reconciled::Followed));
    let (changed, outcome) = first(changed, 10, younger, YEAR + 5_999);
    assert_eq!((outcome, changed.held_for_ms(YEAR + 5_999)), (Some(Reconciled::Followed), 1));
    let ahead = Epoch { revision: 0, since: made * 1000 };
    assert_eq!(first(changed.clone(), 10, ahead, YEAR + 6_000).1, Some(Reconciled::Followed));
    assert_eq!(first(changed, 10, younger, YEAR + 6_000).1, Some(Reconciled::Carried));
}

#[test]
fn a_configuration_without_a_heartbeat_is_abandoned_and_carried() {
    let stored = created(20, NEW, 0);
    let steady = |now| {
        let own = config(10);
        reconcile(Some(stored.clone()), own, OLD, Assertion::Steady, now).1.reconciled
    };
    assert_eq!(steady(29_999), Some(Reconciled::Followed));
    assert_eq!(steady(30_000), Some(Reconciled::Carried));
}
