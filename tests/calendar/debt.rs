//! A debt is paid by windows that pass, though they are not equally long.

use ratelimit_runtime::__private::store::{Algorithm, Config, Mode, OnDrift, Outcome, Reconciled};
use tests::redis_server::RedisServer;

use super::{
    traces::{
        DAY, HOUR, LORD_HOWE_BACK, NEW_YEAR, NEW_YORK_FORWARD, VIENNA_BACK, VIENNA_FORWARD, by,
    },
    twins::Twins,
};

/// A calendar, when a window of it begins, and how long after that it and the next two end, in milliseconds.
const WINDOWS: [(&str, u64, [u64; 3]); 8] = [
    // Of 31, 28 and 31 days; of 28, 31 and 30; of 30, 31 and 30.
    ("month@UTC", NEW_YEAR, [31 * DAY, 59 * DAY, 90 * DAY]),
    ("month@UTC", NEW_YEAR + 31 * DAY, [28 * DAY, 59 * DAY, 89 * DAY]),
    ("month@UTC", NEW_YEAR + 90 * DAY, [30 * DAY, 61 * DAY, 91 * DAY]),
    ("day@Europe/Vienna", VIENNA_FORWARD - 26 * HOUR, [24 * HOUR, 47 * HOUR, 71 * HOUR]),
    ("day@Europe/Vienna", VIENNA_BACK - 27 * HOUR, [24 * HOUR, 49 * HOUR, 73 * HOUR]),
    ("day@America/New_York", NEW_YORK_FORWARD - 2 * HOUR, [23 * HOUR, 47 * HOUR, 71 * HOUR]),
    ("hour@Australia/Lord_Howe", LORD_HOWE_BACK - 2 * HOUR, [HOUR, 5 * HOUR / 2, 7 * HOUR / 2]),
    ("hour@Australia/Lord_Howe", LORD_HOWE_BACK - HOUR, [3 * HOUR / 2, 5 * HOUR / 2, 7 * HOUR / 2]),
];

#[test]
fn a_window_without_a_call_pays_as_much_as_any_other() {
    let server = RedisServer::start();
    for (n, (calendar, start, ends)) in WINDOWS.into_iter().enumerate() {
        let config = by(calendar, 3);
        for (windows, end) in [(1, ends[1]), (2, ends[2])] {
            let mut twins = Twins::new(&server, &format!("{n}:{windows}"), start);
            twins.acquire(config, 3);
            assert_eq!(twins.charge(config, 3 * windows), u64::from(3 * windows), "{calendar}");
            twins.go_to(start + end - 1);
            let reply = twins.acquire(config, 1);
            let refused = (Outcome::Refused, 1);
            assert_eq!((reply.outcome, reply.retry_after_ms), refused, "{calendar} from {start}");
            let mut twins = Twins::new(&server, &format!("{n}:{windows}:idle"), start);
            twins.acquire(config, 3);
            twins.charge(config, 3 * windows);
            twins.go_to(start + end);
            let reply = twins.acquire(config, 3);
            assert_eq!(reply.outcome, Outcome::Granted, "{calendar} from {start}");
        }
    }
}

#[test]
fn what_many_windows_owe_is_paid_on_time() {
    let server = RedisServer::start();
    let config = by("day@Europe/Vienna", 3);
    // Midnight in winter.
    let start = NEW_YEAR - HOUR;
    let mut twins = Twins::new(&server, "year", start);
    twins.acquire(config, 1);
    assert_eq!(twins.charge(config, 2 + 200 * 3), 600);
    // In summer, midnight is an hour earlier: these are the last two hours that the debt takes, then a free day.
    twins.go_to(start + 200 * DAY + 21 * HOUR);
    assert_eq!(twins.acquire(config, 1).retry_after_ms, 2 * HOUR);
    twins.go_to(start + 200 * DAY + 23 * HOUR);
    assert_eq!(twins.acquire(config, 3).outcome, Outcome::Granted);
}

#[test]
fn what_windows_without_a_call_paid_is_not_carried() {
    let server = RedisServer::start();
    let month = by("month@UTC", 3);
    let mut twins = Twins::new(&server, "month", NEW_YEAR);
    twins.acquire(month, 3);
    assert_eq!(twins.charge(month, 3), 3);
    twins.go_to(NEW_YEAR + 70 * DAY);
    let reply = twins.restart(by("month@Asia/Tokyo", 3), 1, OnDrift::Carry);
    assert_eq!((reply.reconciled, reply.remaining), (Some(Reconciled::Carried), 2));

    let fixed =
        |rate, per| Config::new(rate, per, Mode::Overall).rule(Algorithm::FixedWindow.rule(0));
    let mut twins = Twins::new(&server, "day", NEW_YEAR);
    twins.acquire(fixed(3, DAY), 3);
    assert_eq!(twins.charge(fixed(3, DAY), 9), 9);
    // Two windows have paid, and the third one does.
    twins.go_to(NEW_YEAR + 3 * DAY + HOUR);
    let reply = twins.restart(fixed(5, 2 * DAY), 1, OnDrift::Carry);
    assert_eq!((reply.reconciled, reply.remaining), (Some(Reconciled::Carried), 1));
}
