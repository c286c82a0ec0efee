//! What both stores decide around changes of the clocks, month ends and leap days.

use proptest::prelude::*;
use ratelimit_runtime::__private::store::{
    Algorithm, Assertion, Config, Mode, OnDrift, Outcome, Reconciled,
};
use tests::redis_server::RedisServer;

use super::twins::Twins;

pub(super) const HOUR: u64 = 3_600_000;
pub(super) const DAY: u64 = 24 * HOUR;

// In UTC, in milliseconds.
pub(super) const VIENNA_FORWARD: u64 = 1_711_846_800_000; // 2024-03-31 01:00
pub(super) const VIENNA_BACK: u64 = 1_729_990_800_000; // 2024-10-27 01:00
pub(super) const NEW_YORK_FORWARD: u64 = 1_710_054_000_000; // 2024-03-10 07:00
pub(super) const LORD_HOWE_BACK: u64 = 1_712_415_600_000; // 2024-04-06 15:00
const LEAP_DAY: u64 = 1_709_164_800_000; // 2024-02-29 00:00
pub(super) const NEW_YEAR: u64 = 1_735_689_600_000; // 2025-01-01 00:00, a Wednesday
const APIA_CHANGES_SIDES: u64 = 1_325_239_200_000; // 2011-12-30 10:00

pub(super) fn by(calendar: &str, rate: u64) -> Config {
    Config::new(rate, 1, Mode::Overall).by_calendar(calendar.parse().unwrap())
}

#[test]
fn a_day_ends_with_the_clocks_of_its_zone() {
    let server = RedisServer::start();
    for (name, calendar, midnight, hours) in [
        ("forward", "day@Europe/Vienna", VIENNA_FORWARD - 2 * HOUR, 23),
        ("back", "day@Europe/Vienna", VIENNA_BACK - 3 * HOUR, 25),
        ("york", "day@America/New_York", NEW_YORK_FORWARD - 2 * HOUR, 23),
        ("leap", "day@UTC", LEAP_DAY, 24),
        ("february", "month@UTC", LEAP_DAY - 28 * DAY, 29 * 24),
        ("week", "week@UTC", NEW_YEAR - 2 * DAY, 7 * 24),
        ("apia", "week@Pacific/Apia", APIA_CHANGES_SIDES - 4 * DAY, 6 * 24),
    ] {
        let (config, length) = (by(calendar, 3), hours * HOUR);
        let mut twins = Twins::new(&server, name, midnight - 1);
        assert_eq!(twins.acquire(config, 3).reset_after_ms, 1, "{calendar}");
        assert_eq!(twins.acquire(config, 1).retry_after_ms, 1, "{calendar}");

        twins.go_to(midnight);
        let reply = twins.acquire(config, 2);
        assert_eq!((reply.outcome, reply.remaining), (Outcome::Granted, 1), "{calendar}");
        assert_eq!(reply.reset_after_ms, length, "{calendar}");

        twins.go_to(midnight + length - 1);
        assert_eq!(twins.acquire(config, 2).retry_after_ms, 1, "{calendar}");
        assert_eq!(twins.release(9), 2, "{calendar}");
        assert_eq!(twins.acquire(config, 3).remaining, 0, "{calendar}");
        twins.go_to(midnight + length);
        assert_eq!(twins.acquire(config, 3).outcome, Outcome::Granted, "{calendar}");
    }
}

#[test]
fn a_clock_that_steps_back_admits_nothing_twice() {
    let server = RedisServer::start();
    let (config, midnight) = (by("day@Europe/Vienna", 3), VIENNA_FORWARD - 2 * HOUR);
    let mut twins = Twins::new(&server, "back", midnight);
    twins.acquire(config, 3);
    twins.go_to(midnight - 1);
    // The day that begins in a millisecond has 23 hours.
    assert_eq!(twins.acquire(config, 1).retry_after_ms, 23 * HOUR + 1);
    assert_eq!(twins.release(1), 1);
    assert_eq!(twins.acquire(config, 1).outcome, Outcome::Granted);
    // Further back it counts from now, until the next midnight.
    twins.go_to(midnight - 30 * HOUR);
    let reply = twins.acquire(config, 1);
    assert_eq!((reply.outcome, reply.retry_after_ms), (Outcome::Refused, 6 * HOUR));
    assert_eq!(reply.ahead_ms, 30 * HOUR);
}

#[test]
fn a_process_whose_clock_is_wrong_asks_twice_and_is_right() {
    let server = RedisServer::start();
    let config = by("hour@Asia/Kathmandu", 3);
    let mut twins = Twins::new(&server, "skewed", NEW_YEAR + 14 * 60_000);
    for (skew, attempts) in [
        (0, 1),
        // A neighbouring window is sent along; of what is further away none is.
        (50 * 60_000, 1),
        (-50 * 60_000, 1),
        (5 * 3_600_000, 2),
        (-5 * 3_600_000, 2),
        (-50 * 365 * 86_400_000, 2),
    ] {
        twins.skew = skew;
        let answer = twins.ask("acquire", (config, 0), &[1], Assertion::Steady, None);
        assert_eq!(answer.attempts, attempts, "{skew}");
        assert_eq!(answer.replies[0].reset_after_ms, 60_000, "{skew}");
        let answer = twins.ask("peek", (config, 0), &[1], Assertion::Steady, None);
        assert_eq!(answer.attempts, attempts, "{skew}");
    }
}

#[test]
fn nothing_is_written_until_the_windows_are_known() {
    let server = RedisServer::start();
    let config = by("minute@UTC", 3);
    let mut twins = Twins::new(&server, "created", NEW_YEAR);
    twins.skew = 86_400_000;
    // Had the first attempt written the numbers, the second would find them unchanged.
    let first = Assertion::First(OnDrift::Reset);
    let answer = twins.ask("acquire", (config, 0), &[2], first, None);
    assert_eq!(answer.attempts, 2);
    assert_eq!(answer.replies[0].reconciled, Some(Reconciled::Created));
    let newer = by("minute@UTC", 5);
    let answer = twins.ask("acquire", (newer, 1), &[1], first, None);
    assert_eq!(answer.replies[0].reconciled, Some(Reconciled::Reset));
    assert_eq!((answer.attempts, answer.replies[0].remaining), (2, 4));
    assert_eq!(twins.keys_stored(), 1);
}

#[test]
fn another_zone_counts_what_was_used_or_forgets_it() {
    let server = RedisServer::start();
    let (vienna, tokyo) = (by("day@Europe/Vienna", 10), by("day@Asia/Tokyo", 10));
    let mut twins = Twins::new(&server, "moved", NEW_YEAR);
    twins.acquire(vienna, 6);
    let reply = twins.restart(tokyo, 1, OnDrift::Carry);
    assert_eq!((reply.reconciled, reply.remaining), (Some(Reconciled::Carried), 3));
    // 9:00 in Tokyo.
    assert_eq!(reply.reset_after_ms, 15 * HOUR);
    assert!(twins.state().ends_with(b"day@Asia/Tokyo"));
    // The process of before goes by what is stored, and learns whose windows these are.
    let old = twins.ask("acquire", (vienna, 0), &[1], Assertion::Steady, None);
    assert_eq!((old.attempts, old.replies[0].config.calendar()), (2, tokyo.calendar()));
    let old = twins.ask("acquire", (vienna, 0), &[1], Assertion::Steady, tokyo.calendar());
    assert_eq!((old.attempts, old.replies[0].remaining), (1, 1));
}

#[derive(Clone, Debug)]
enum Step {
    Near { boundary: usize, off: i64 },
    Move(i64),
    Acquire { process: usize, costs: Vec<u32> },
    Peek { process: usize, permits: u32 },
    Release { permits: u32 },
    Follow { permits: u32 },
    Restart { process: usize, carry: bool },
}

const TIMES: [u64; 9] = [
    VIENNA_FORWARD,
    VIENNA_FORWARD + 21 * HOUR,
    VIENNA_BACK,
    VIENNA_BACK + 22 * HOUR,
    NEW_YORK_FORWARD,
    LORD_HOWE_BACK,
    LEAP_DAY,
    NEW_YEAR,
    APIA_CHANGES_SIDES,
];

fn trace(processes: usize) -> impl Strategy<Value = Vec<Step>> {
    let near = prop_oneof![
        Just(-1),
        Just(0),
        Just(1),
        -2_i64..3,
        -60_001_i64..60_001,
        -5_400_000_i64..5_400_000
    ];
    let away = prop_oneof![Just(1), Just(60_000), Just(3_600_000), -100_000_i64..200_000_000];
    let costs = prop::collection::vec(1..6_u32, 1..4);
    let step = prop_oneof![
        2 => (0..TIMES.len(), near).prop_map(|(boundary, off)| Step::Near { boundary, off }),
        4 => away.prop_map(Step::Move),
        10 => (0..processes, costs).prop_map(|(process, costs)| Step::Acquire { process, costs }),
        2 => (0..processes, 1..6_u32).prop_map(|(process, permits)| Step::Peek { process, permits }),
        1 => (1..9_u32).prop_map(|permits| Step::Release { permits }),
        1 => (1..6_u32).prop_map(|permits| Step::Follow { permits }),
        2 => (0..processes, any::<bool>()).prop_map(|(process, carry)| Step::Restart { process, carry }),
    ];
    prop::collection::vec(step, 1..60)
}

fn run(twins: &mut Twins, configs: &[Config], step: Step) {
    let process = |n: usize| (configs[n], n as u64);
    match step {
        Step::Near { boundary, off } => twins.go_to(TIMES[boundary].saturating_add_signed(off)),
        Step::Move(ms) => twins.go_to(twins.now.saturating_add_signed(ms)),
        Step::Acquire { process: n, costs } => {
            twins.agree("acquire", process(n), &costs, Assertion::Steady);
        }
        Step::Peek { process: n, permits } => {
            twins.agree("peek", process(n), &[permits], Assertion::Steady);
        }
        Step::Release { permits } => {
            twins.release(permits);
        }
        Step::Follow { permits } => {
            let follow = Assertion::Follow { first: false };
            twins.agree("acquire", process(0), &[permits], follow);
        }
        Step::Restart { process: n, carry } => {
            let on_drift = if carry { OnDrift::Carry } else { OnDrift::Reset };
            twins.restart(configs[n], n as u64, on_drift);
        }
    }
}

/// Random steps around changes of the clocks, by processes that are configured so.
fn random_traces(name: &str, cases: u32, configs: &[Config]) {
    let server = RedisServer::start();
    let mut case = 0;
    let case = std::cell::RefCell::new(&mut case);
    let traces = (0..TIMES.len(), -200_i64..200, trace(configs.len()));
    let result = tests::random_histories(cases).run(&traces, |(start, off, trace)| {
        **case.borrow_mut() += 1;
        let start = TIMES[start].saturating_add_signed(off);
        let mut twins = Twins::new(&server, &format!("{name}:{}", case.borrow()), start);
        // A third of the callers have to ask twice.
        twins.skew = [0, 0, 9 * 86_400_000][**case.borrow() % 3];
        for step in trace {
            run(&mut twins, configs, step);
        }
        Ok(())
    });
    result.unwrap();
}

#[test]
fn every_calendar_decides_alike() {
    for calendar in [
        "minute@Asia/Kathmandu",
        "hour@Australia/Lord_Howe",
        "day@Europe/Vienna",
        "day@America/New_York",
        "week@Pacific/Apia",
        "month@UTC",
    ] {
        random_traces(calendar, 40, &[by(calendar, 5)]);
    }
}

#[test]
fn calendars_and_other_rules_are_reconciled_alike() {
    use ratelimit_runtime::__private::store::Algorithm::{FixedWindow, SlidingWindow, TokenBucket};
    let other = |algorithm: Algorithm, burst| {
        let config = Config::new(5, DAY, Mode::Overall).rule(algorithm.rule(burst));
        config.keep_alive_ms(1 << 40)
    };
    let kept = |calendar| by(calendar, 5).keep_alive_ms(1 << 40);
    let (vienna, kathmandu) = (kept("day@Europe/Vienna"), kept("day@Asia/Kathmandu"));
    random_traces("zones", 60, &[vienna, kathmandu, by("hour@Europe/Vienna", 7)]);
    random_traces("length", 60, &[kept("day@UTC"), other(FixedWindow, 0)]);
    random_traces("rules", 80, &[vienna, other(SlidingWindow, 0), other(TokenBucket, 8)]);
}
