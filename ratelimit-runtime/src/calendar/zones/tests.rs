use jiff::Timestamp;
use ratelimit_spec::{Calendar, CalendarUnit};

use super::{by_the_date, zone};
use crate::calendar::bounds;

/// Converts a time in UTC to milliseconds.
fn ms(utc: &str) -> u64 {
    let time: Timestamp = format!("{utc}Z").parse().unwrap();
    u64::try_from(time.as_millisecond()).unwrap()
}

fn hours(calendar: &str, utc: &str) -> f64 {
    let [_, start, end, _] = bounds(calendar.parse().unwrap(), ms(utc));
    let ms = u32::try_from(end - start).unwrap();
    f64::from(ms) / 3_600_000.0
}

/// Returns the window that contains a time, in UTC.
fn window(calendar: &str, utc: &str) -> (String, String) {
    let [_, start, end, _] = bounds(calendar.parse().unwrap(), ms(utc));
    let text = |ms: u64| {
        let time = Timestamp::from_millisecond(i64::try_from(ms).unwrap()).unwrap();
        time.to_string().trim_end_matches('Z').to_owned()
    };
    (text(start), text(end))
}

#[track_caller]
fn assert_window(calendar: &str, utc: &str, start: &str, end: &str) {
    assert_eq!(window(calendar, utc), (start.to_owned(), end.to_owned()), "{calendar} at {utc}");
}

#[test]
fn a_day_with_a_change_of_the_clocks_has_23_or_25_hours() {
    for (calendar, utc, length) in [
        ("day@Europe/Vienna", "2024-03-31T12:00:00", 23.0),
        ("day@Europe/Vienna", "2024-10-27T12:00:00", 25.0),
        ("day@Europe/Vienna", "2024-10-28T12:00:00", 24.0),
        ("day@America/New_York", "2024-03-10T12:00:00", 23.0),
        ("day@America/New_York", "2024-11-03T12:00:00", 25.0),
        ("day@Australia/Lord_Howe", "2024-10-05T20:00:00", 23.5),
        ("day@Australia/Lord_Howe", "2024-04-06T20:00:00", 24.5),
        ("day@Antarctica/Troll", "2024-03-31T12:00:00", 22.0),
        ("week@Europe/Vienna", "2024-03-31T12:00:00", 167.0),
        ("week@Europe/Vienna", "2024-10-27T12:00:00", 169.0),
        ("day@UTC", "2024-10-27T12:00:00", 24.0),
    ] {
        assert!((hours(calendar, utc) - length).abs() < 1e-9, "{calendar} at {utc}");
    }
    assert_window(
        "day@Europe/Vienna",
        "2024-10-27T00:30:00",
        "2024-10-26T22:00:00",
        "2024-10-27T23:00:00",
    );
}

#[test]
fn a_month_has_28_to_31_days() {
    for (month, days) in [
        ("2023-02", 28.0),
        ("2024-02", 29.0),
        ("2024-04", 30.0),
        ("2024-12", 31.0),
        ("2000-02", 29.0),
        ("2100-02", 28.0),
    ] {
        let length = hours("month@UTC", &format!("{month}-28T23:59:59"));
        assert!((length - days * 24.0).abs() < 1e-9, "{month}");
    }
    let (start, end) = ("2024-02-29T00:00:00", "2024-03-01T00:00:00");
    assert_window("day@UTC", "2024-02-29T23:59:59", start, end);
    let (start, end) = ("2024-02-28T00:00:00", "2024-02-29T00:00:00");
    assert_window("day@UTC", "2024-02-28T23:59:59", start, end);
    // March with its clock change, from midnight to midnight in Vienna.
    let (start, end) = ("2024-02-29T23:00:00", "2024-03-31T22:00:00");
    assert_window("month@Europe/Vienna", "2024-03-15T00:00:00", start, end);
}

#[test]
fn a_week_begins_on_monday_in_the_new_year_too() {
    // 2025 began on a Wednesday, 2021 on a Friday, 2024 on a Monday.
    for (utc, start, end) in [
        ("2025-01-01T12:00:00", "2024-12-30T00:00:00", "2025-01-06T00:00:00"),
        ("2021-01-03T23:59:59", "2020-12-28T00:00:00", "2021-01-04T00:00:00"),
        ("2024-01-01T00:00:00", "2024-01-01T00:00:00", "2024-01-08T00:00:00"),
        ("2023-12-31T23:59:59", "2023-12-25T00:00:00", "2024-01-01T00:00:00"),
    ] {
        assert_window("week@UTC", utc, start, end);
    }
}

#[test]
fn a_day_that_a_zone_left_out_is_no_window() {
    // Samoa moved across the date line: 30 December 2011 was skipped.
    let apia = "day@Pacific/Apia";
    let (start, end) = ("2011-12-29T10:00:00", "2011-12-30T10:00:00");
    assert_window(apia, "2011-12-30T09:59:59", start, end);
    let (start, end) = ("2011-12-30T10:00:00", "2011-12-31T10:00:00");
    assert_window(apia, "2011-12-30T10:00:00", start, end);
    assert!((hours("week@Pacific/Apia", "2011-12-30T09:59:59") - 144.0).abs() < 1e-9);
}

#[test]
fn a_day_begins_when_the_clocks_first_show_it() {
    // In Cairo the clocks were set forward from midnight to one.
    let (start, end) = ("2024-04-25T22:00:00", "2024-04-26T21:00:00");
    assert_window("day@Africa/Cairo", "2024-04-26T12:00:00", start, end);
    // In St. John's they were set back a minute after midnight, into the previous day.
    let (start, end) = ("2010-11-07T02:30:00", "2010-11-08T03:30:00");
    assert_window("day@America/St_Johns", "2010-11-07T03:00:00", start, end);
    // In Toronto they were set forward from 23:30 to 00:30.
    let (start, end) = ("1919-03-31T04:30:00", "1919-04-01T04:00:00");
    let zone = zone("America/Toronto".parse().unwrap()).unwrap();
    let at = |utc: &str| format!("{utc}Z").parse::<Timestamp>().unwrap().as_millisecond();
    let found = by_the_date(&zone, CalendarUnit::Day, at("1919-03-31T12:00:00")).unwrap().unwrap();
    assert_eq!(found[1..3], [at(start), at(end)]);
}

#[test]
fn a_minute_and_an_hour_are_those_of_the_clocks() {
    // Kathmandu is 5:45 ahead of UTC, so its hours begin at a quarter past in UTC.
    let (start, end) = ("2024-05-01T10:15:00", "2024-05-01T11:15:00");
    assert_window("hour@Asia/Kathmandu", "2024-05-01T11:14:59.999", start, end);
    let (start, end) = ("2024-05-01T11:14:00", "2024-05-01T11:15:00");
    assert_window("minute@Asia/Kathmandu", "2024-05-01T11:14:59.999", start, end);
    let (start, end) = ("2024-05-01T10:30:00", "2024-05-01T11:30:00");
    assert_window("hour@Asia/Kolkata", "2024-05-01T11:00:00", start, end);

    // An hour that occurs twice is two windows.
    let (start, end) = ("2024-10-27T00:00:00", "2024-10-27T01:00:00");
    assert_window("hour@Europe/Vienna", "2024-10-27T00:30:00", start, end);
    let (start, end) = ("2024-10-27T01:00:00", "2024-10-27T02:00:00");
    assert_window("hour@Europe/Vienna", "2024-10-27T01:30:00", start, end);
    let (start, end) = ("2024-03-31T00:00:00", "2024-03-31T01:00:00");
    assert_window("hour@Europe/Vienna", "2024-03-31T00:30:00", start, end);

    // If the clocks change by half an hour, that hour has 90 minutes, in both directions.
    let (start, end) = ("2024-04-06T14:00:00", "2024-04-06T15:30:00");
    assert_window("hour@Australia/Lord_Howe", "2024-04-06T15:15:00", start, end);
    let (start, end) = ("2024-10-05T14:30:00", "2024-10-05T16:00:00");
    assert_window("hour@Australia/Lord_Howe", "2024-10-05T15:45:00", start, end);
    let (start, end) = ("2024-04-06T15:00:00", "2024-04-06T15:01:00");
    assert_window("minute@Australia/Lord_Howe", "2024-04-06T15:00:30", start, end);
}

#[test]
fn windows_follow_each_other_without_a_gap_in_every_zone() {
    let zones = [
        "UTC",
        "Europe/Vienna",
        "America/New_York",
        "America/St_Johns",
        "America/Sao_Paulo",
        "Africa/Cairo",
        "Africa/Casablanca",
        "Antarctica/Troll",
        "Asia/Kathmandu",
        "Asia/Tehran",
        "Australia/Lord_Howe",
        "Pacific/Apia",
        "Pacific/Chatham",
        "Pacific/Kwajalein",
    ];
    let units = CalendarUnit::WORDS;
    for (unit, zone) in units.iter().flat_map(|unit| zones.map(|zone| (*unit, zone))) {
        let calendar: Calendar = format!("{unit}@{zone}").parse().unwrap();
        let shortest = u64::try_from(calendar.unit.shortest().as_millis()).unwrap();
        let nominal = u64::try_from(calendar.unit.nominal().as_millis()).unwrap();
        // Across the skipped day of Samoa, and across every change of 2024 and the days around it.
        for (mut now, until) in [
            (ms("2011-12-28T00:00:00"), ms("2012-01-02T00:00:00")),
            (ms("2024-03-30T12:00:00"), ms("2024-04-01T12:00:00")),
            (ms("2024-04-06T14:00:00"), ms("2024-04-07T00:00:00")),
            (ms("2024-10-26T12:00:00"), ms("2024-10-28T12:00:00")),
        ] {
            let mut seen = 0;
            while now < until && seen < 200 {
                seen += 1;
                let [before, start, end, after] = bounds(calendar, now);
                let told = format!("{calendar} at {now}");
                assert!(before < start && start <= now && now < end && end < after, "{told}");
                assert!(end - start >= shortest && end - start <= 2 * nominal, "{told}");
                assert_eq!(bounds(calendar, end)[..3], [start, end, after], "{told}");
                assert_eq!(bounds(calendar, end - 1)[..3], [before, start, end], "{told}");
                assert_eq!(bounds(calendar, start)[..3], [before, start, end], "{told}");
                now = end;
            }
        }
    }
}

#[test]
fn no_time_is_out_of_reach() {
    for now in [0, 1, 1 << 52, u64::MAX / 4] {
        for unit in CalendarUnit::WORDS {
            let calendar = format!("{unit}@America/New_York").parse().unwrap();
            let [before, start, end, after] = bounds(calendar, now);
            assert!(before <= start && start <= now && now < end && end < after, "{unit} at {now}");
        }
    }
}
