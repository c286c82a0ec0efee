//! What a limits file says, and what is said about one that is wrong.

use std::time::Duration;

use ratelimit_spec::limits_file::{MAX_BYTES, MAX_LIMITERS};
use ratelimit_spec::{
    Algorithm, CalendarUnit, Limit, LimitsFile, Match, Merged, Mode, OnDrift, OnStoreError,
    Penalty, Per, RefundOn, Settings, Sourced, Step, Unmatched, Wait,
};

#[path = "limits_file/penalty.rs"]
mod penalty;
#[path = "limits_file/schema.rs"]
mod schema;

fn parse(text: &str) -> LimitsFile {
    let file = LimitsFile::parse(text);
    assert!(schema::accepts(text), "the schema refuses\n{text}");
    file.unwrap_or_else(|problems| panic!("{problems:?} in\n{text}"))
}

/// The report on a file that is wrong, one line for each problem.
fn report(text: &str) -> String {
    match LimitsFile::parse(text) {
        Ok(file) => format!("no problem: {file:?}"),
        Err(problems) => problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
    }
}

const NO_COLON: &str = "no `: ` on this line; write `key: value`, with a space after the colon";

fn check_reports(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(report(text), *expected, "in\n{text}");
        let is_unknown = expected.contains("unknown field") || expected.contains("is not a field");
        assert!(!is_unknown || !schema::accepts(text), "the schema accepts\n{text}");
    }
}

#[test]
fn every_option_is_read() {
    let file = parse(include_str!("../src/limits_file/reference.yaml"));
    assert_eq!(file.store.as_deref(), Some("${REDIS_URL:-redis://127.0.0.1:6379/0}"));
    assert_eq!(file.tls_ca.as_deref(), Some("/etc/ssl/redis-ca.pem"));
    let proxies: Vec<_> = file.trusted_proxies.iter().map(ToString::to_string).collect();
    assert_eq!(proxies, ["10.0.0.0/8", "2001:db8:1::/48"]);
    let header = file.client_ip_header.as_ref().map(ratelimit_spec::HeaderName::as_str);
    assert_eq!(header, Some("x-forwarded-for"));
    assert_eq!(file.key_prefix.as_deref(), Some("shop:"));
    assert_eq!((file.revision, file.instances), (Some(7), Some(4)));
    assert_eq!(file.deadline, Some(Duration::from_millis(100)));
    assert_eq!(file.max_remembered, Some(100_000));
    assert_eq!((file.strict, file.unmatched, file.shadow), (true, Unmatched::Warn, false));
    let default = Settings {
        enabled: Some(true),
        shadow: Some(false),
        rate: Some(100),
        per: Some("1s".parse().unwrap()),
        time_zone: Some("Europe/Vienna".parse().unwrap()),
        limits: None,
        mode: Some(Mode::Overall),
        algorithm: Some(Algorithm::TokenBucket),
        burst: Some(200),
        warm_up: None,
        wait: Some(Wait::Forever),
        max_waiters: Some(10_000),
        max_debt: Some(100),
        on_store_error: Some(OnStoreError::Local),
        refund_on: Some(RefundOn::Never),
        penalty: Some(Penalty {
            after: 3,
            block: Duration::from_secs(300),
            up_to: Duration::from_secs(86_400),
        }),
        on_drift: Some(OnDrift::Reset),
        keep_alive: Some(Duration::from_secs(60)),
        ..file.default.clone()
    };
    assert_eq!(file.default, default);

    let keys: Vec<&str> = file.limiters.iter().map(|entry| entry.key.as_str()).collect();
    assert_eq!(keys, ["orders:{user_id}", "quote", "export", "search", "mails", "report"]);
    let orders = file.limiter("orders:{user_id}").unwrap();
    assert_eq!(orders.settings.rate, Some(5));
    assert_eq!(orders.overrides[0].matches, Match::Key("orders:42".to_owned()));
    assert_eq!(orders.overrides[0].settings.rate, Some(0));
    assert_eq!(orders.overrides[1].matches, Match::Prefix("orders:vip-".to_owned()));
    assert_eq!(orders.overrides[1].settings.warm_up, Some(Duration::from_secs(10)));
    let quote = file.limiter("quote").unwrap();
    assert_eq!(quote.settings.wait, Some(Wait::UpTo(Duration::from_millis(250))));
    assert_eq!(file.limiter("search").unwrap().settings.shadow, Some(true));
    let mails = &file.limiter("mails").unwrap().settings;
    let day = Per { length: Duration::from_secs(86_400), unit: Some(CalendarUnit::Day) };
    assert_eq!(mails.per, Some(day));
    assert_eq!(file.limiter("report").unwrap().settings, Settings::default());
    assert!(file.limiter("reports").is_none());
    assert_eq!(file.prefixes[0].prefix, "test:");
    let second = Per { length: Duration::from_secs(1), unit: None };
    assert_eq!(file.prefixes[0].settings.per, Some(second));
}

#[test]
fn a_file_that_says_nothing_is_the_default() {
    for text in [
        "",
        "\n\n",
        "# nothing yet\n",
        "---\n",
        "~",
        "{}",
        "limiters:\nprefixes:\ndefault:\n",
        "\u{feff}",
    ] {
        let file = parse(text);
        assert!(file.strict && !file.shadow, "{text:?}");
        assert!(file.store.is_none() && file.limiters.is_empty(), "{text:?}");
        assert_eq!(file.default, Settings::default());
    }
}

#[test]
fn other_ways_to_write_a_file_are_read_too() {
    for text in [
        "{\"limiters\": {\"a:{b}\": {\"rate\": 5, \"per\": \"1m\"}}}",
        "\u{feff}limiters:\r\n  a:{b}:\r\n    rate: 5\r\n    per: 1m\r\n",
        "--- # limits\nlimiters:\n    'a:{b}': {\n        rate: 0x5,\n        per: 60s,\n    }\n",
    ] {
        let file = parse(text);
        let settings = &file.limiter("a:{b}").expect(text).settings;
        let minute = Per { length: Duration::from_secs(60), unit: None };
        assert_eq!((settings.rate, settings.per), (Some(5), Some(minute)));
    }
}

#[test]
fn fields_that_do_not_exist_are_named_with_the_nearest_that_does() {
    let settings = format!("`{}`", Settings::NAMES[..Settings::NAMES.len() - 1].join("`, `"));
    let last = Settings::NAMES[Settings::NAMES.len() - 1];
    check_reports(&[
        ("limitters: {}\n", "1:1: unknown field `limitters`; did you mean `limiters`?"),
        (
            "limits: {}\n",
            "1:1: `limits` is not a field of the file; write it under `default` or a limiter",
        ),
        (
            "backend: redis\n",
            "1:1: unknown field `backend`; expected `store`, `tls_ca`, `key_prefix`, `revision`, \
             `strict`, `unmatched`, `shadow`, `deadline`, `instances`, `max_remembered`, \
             `trusted_proxies`, `client_ip_header`, `default`, `limiters` or `prefixes`",
        ),
        (
            "rate: 5\n",
            "1:1: `rate` is not a field of the file; write it under `default` or a limiter",
        ),
        (
            "limiters:\n  checkout:\n    per: 1s\n    raet: 5\n",
            "4:5: unknown field `raet` in limiter `checkout`; did you mean `rate`?",
        ),
        (
            "limiters:\n  checkout: { color: 5 }\n",
            &format!(
                "2:15: unknown field `color` in limiter `checkout`; expected {settings}, \
                 `{last}` or `overrides`"
            ),
        ),
        (
            "limiters:\n  a: { requests: 5, window: 1s, timeout: 1s, capacity: 5 }\n",
            "2:8: unknown field `requests` in limiter `a`; did you mean `rate`?\n\
             2:21: unknown field `window` in limiter `a`; did you mean `per`?\n\
             2:33: unknown field `timeout` in limiter `a`; did you mean `wait`?\n\
             2:46: unknown field `capacity` in limiter `a`; did you mean `burst`?",
        ),
        (
            "default: { limitForPeriod: 5, limit_refresh_period: 1s, timeout-duration: 1s }\n",
            "1:12: unknown field `limitForPeriod` in `default`; did you mean `rate`?\n\
             1:31: unknown field `limit_refresh_period` in `default`; did you mean `per`?\n\
             1:57: unknown field `timeout-duration` in `default`; did you mean `wait`?",
        ),
        (
            "limiters:\n  a: { limit: 5, unit: second }\n",
            "2:8: unknown field `limit` in limiter `a`; did you mean `rate`?\n\
             2:18: unknown field `unit` in limiter `a`; did you mean `per`?",
        ),
        (
            "limiters:\n  a: { overrides: [{ name: a, rate: 5 }] }\nredis_url: redis://localhost\n",
            "2:20: an override of limiter `a` needs `key` or `prefix`; write which names it is for\n\
             2:22: unknown field `name` in an override of limiter `a`; did you mean `key`?\n\
             3:1: unknown field `redis_url`; did you mean `store`?",
        ),
        (
            "limits: { orders: { rate: 5, per: 1s } }\n",
            "1:1: unknown field `limits`; did you mean `limiters`?",
        ),
        (
            "limiters:\n  checkout:\n    <<: { rate: 5 }\n",
            "3:5: unknown field `<<` in limiter `checkout`; merge keys are not supported, so write the fields out",
        ),
        (
            "checkout: { rate: 5, per: 1s }\n",
            "1:1: unknown field `checkout`; expected `store`, `tls_ca`, `key_prefix`, `revision`, \
             `strict`, `unmatched`, `shadow`, `deadline`, `instances`, `max_remembered`, \
             `trusted_proxies`, `client_ip_header`, `default`, `limiters` or `prefixes`; a limiter belongs under `limiters`",
        ),
        (
            "limiters:\n  a: { permits: 2, refund_if: x, actual: x, bind: x, fallback: x, skip_if: x }\n",
            "2:8: `permits` is not a field of the file; set it in the attribute\n\
             2:20: `refund_if` is not a field of the file; set it in the attribute\n\
             2:34: `actual` is not a field of the file; set it in the attribute\n\
             2:45: `bind` is not a field of the file; set it in the attribute\n\
             2:54: `fallback` is not a field of the file; set it in the attribute\n\
             2:67: `skip_if` is not a field of the file; set it in the attribute",
        ),
        ("default:\n  Rate: 5\n", "2:3: unknown field `Rate` in `default`; did you mean `rate`?"),
        (
            "default:\n  overrides: []\n",
            &format!(
                "2:3: unknown field `overrides` in `default`; expected {settings} or `{last}`"
            ),
        ),
        (
            "limiters:\n  a:\n    overrides:\n      - keyy: a\n        key: a\n",
            "4:9: unknown field `keyy` in an override of limiter `a`; did you mean `key`?",
        ),
        (
            "limiters:\n  a: { rate: 5, per:1s }\n",
            "2:17: unknown field `per:1s` in limiter `a`; write a space after the `:`",
        ),
        (
            "limiters:\n  a: { rat:5, per: 1s }\n",
            "2:8: unknown field `rat:5` in limiter `a`; write a space after the `:`",
        ),
        (
            "limiters:\n  a: { rate=5, per => 1s }\n",
            "2:8: unknown field `rate=5` in limiter `a`; write `: ` instead of `=`\n\
             2:16: unknown field `per => 1s` in limiter `a`; write `: ` instead of `=`",
        ),
        (
            "limiters:\n  a: { rate = 10/s }\n  b:\n    rate: 10/s\n  c:\n    rate=10/min\n",
            "2:8: unknown field `rate = 10/s` in limiter `a`; write `rate: 10` and `per: 1s`\n\
             4:11: `rate` cannot be the text `10/s`; write `rate: 10` and `per: 1s`\n\
             6:5: `c` cannot be the text `rate=10/min`; write `rate: 10` and `per: 1m`",
        ),
        (
            "limiters:\n  a: { rate: 1,000, per: 1s }\n  b: { rate: 1,234, per: 1s }\n",
            "2:16: unknown field `000` in limiter `a`; write numbers without commas\n\
             3:16: expected a string as key, found `234`; quote it, or write numbers without commas",
        ),
        (
            "limiters:\nstore:x: { rate: 5 }\n",
            "2:1: unknown field `store:x`; did you mean `store`?",
        ),
        (
            "limiters:\n  \"a:{b}\":\n    overrides:\n      - { key: a:b, color: 5, max_key: 5 }\n",
            &format!(
                "4:21: unknown field `color` in an override of limiter `a:{{b}}`; expected `key`, `prefix`, {} or `{last}`\n\
                 4:31: unknown field `max_key` in an override of limiter `a:{{b}}`; expected `key`, `prefix`, {} or `{last}`",
                settings.replace(", `max_keys`", ""),
                settings.replace(", `max_keys`", ""),
            ),
        ),
        (
            "prefixes:\n  - prefix: a\n    modes: overall\n",
            "3:5: unknown field `modes` in an entry of `prefixes`; did you mean `mode`?",
        ),
    ]);
}

#[test]
fn what_is_there_twice_is_refused_at_the_second() {
    check_reports(&[
        (
            "limiters:\n  a: { rate: 1 }\n  b: { rate: 1 }\n  \"a\": { rate: 1000000 }\n",
            "4:3: duplicate limiter `a`, first set on line 2; remove one",
        ),
        (
            "limiters:\n  a:\n    rate: 1\n    per: 1s\n    rate: 1000000\n",
            "5:5: duplicate field `rate` in limiter `a`, first set on line 3; remove one",
        ),
        (
            "strict: true\nlimiters: {}\nstrict: false\n",
            "3:1: duplicate field `strict`, first set on line 1; remove one",
        ),
        (
            "default: { rate: 1, rate: 2 }\n",
            "1:21: duplicate field `rate` in `default`, first set on line 1; remove one",
        ),
        (
            "prefixes:\n  - { prefix: a, prefix: b }\n",
            "2:18: duplicate field `prefix` in an entry of `prefixes`, first set on line 2; remove one",
        ),
        (
            "prefixes:\n  - prefix: a\n  - prefix: b\n  - prefix: a\n",
            "4:13: duplicate entry `a`, first set on line 2; remove one",
        ),
    ]);
}

#[test]
fn numbers_and_durations_are_what_they_seem() {
    let a_rate = "write a whole number from 0 (rejects every call) to 2147483647";
    let no_variable = "; only `store`, `tls_ca` and `key_prefix` can contain variables";
    let in_limiter = |field: &str| format!("limiters:\n  a:\n    {field}\n");
    for (field, message) in [
        ("rate: -1", format!("3:11: `rate` cannot be `-1`; {a_rate}")),
        ("rate: 2147483648", format!("3:11: `rate` cannot be `2147483648`; {a_rate}")),
        ("rate: 1e30", format!("3:11: `rate` cannot be `1e30`; {a_rate}")),
        (
            "rate: 999999999999999999999999999999",
            format!("3:11: `rate` cannot be `999999999999999999999999999999`; {a_rate}"),
        ),
        (
            "rate: 340282366920938463463374607431768211455",
            format!("3:11: `rate` cannot be `3.402823669209385e38`; {a_rate}"),
        ),
        ("rate: \"5\"", format!("3:11: `rate` cannot be the text `5`; {a_rate}, without quotes")),
        ("rate: '-5'", format!("3:11: `rate` cannot be the text `-5`; {a_rate}, without quotes")),
        ("rate: 007", format!("3:11: `rate` cannot be the text `007`; {a_rate}")),
        (
            "rate: ${RATE}",
            format!("3:11: `rate` cannot be the text `${{RATE}}`; {a_rate}{no_variable}"),
        ),
        (
            "per: ${PER:-1s}",
            format!(
                "3:10: unexpected `$` in `${{PER:-1s}}`; write a duration such as `500ms`, `1s` or `1h30m`{no_variable}"
            ),
        ),
        (
            "rate: 10/s",
            "3:11: `rate` cannot be the text `10/s`; write `rate: 10` and `per: 1s`".into(),
        ),
        (
            "rate: 3000000000/s",
            format!(
                "3:11: `rate` cannot be the text `3000000000/s`; {a_rate}, and the window as `per`"
            ),
        ),
        ("rate: 1_000", "3:11: `rate` cannot be the text `1_000`; write `1000`".into()),
        ("rate: 1,000", "3:11: `rate` cannot be the text `1,000`; write `1000`".into()),
        (
            "rate: 2,147,483,648",
            format!("3:11: `rate` cannot be the text `2,147,483,648`; {a_rate}"),
        ),
        (
            "rate: 5 per minute",
            "3:11: `rate` cannot be the text `5 per minute`; write `rate: 5` and `per: 1m`".into(),
        ),
        (
            "rate: 0.5",
            "3:11: `rate` cannot be `0.5`; write `1` and a `per` that is 2 times as long".into(),
        ),
        (
            "rate: 1.1",
            "3:11: `rate` cannot be `1.1`; write `11` and a `per` that is 10 times as long".into(),
        ),
        ("rate: 0.00001", format!("3:11: `rate` cannot be `1e-5`; {a_rate}")),
        ("rate: -0.5", format!("3:11: `rate` cannot be `-0.5`; {a_rate}")),
        ("rate: 5.0", "3:11: `rate` has a decimal point or an exponent; write `5`".into()),
        ("rate: 1e3", "3:11: `rate` has a decimal point or an exponent; write `1000`".into()),
        ("rate: 1e10", format!("3:11: `rate` cannot be `10000000000.0`; {a_rate}")),
        ("rate: -1e3", format!("3:11: `rate` cannot be `-1000.0`; {a_rate}")),
        ("rate: .inf", format!("3:11: `rate` cannot be `inf`; {a_rate}")),
        ("rate: .nan", format!("3:11: `rate` cannot be `NaN`; {a_rate}")),
        ("rate: true", format!("3:11: `rate` cannot be `true`; {a_rate}")),
        ("rate: [5]", format!("3:5: `rate` cannot be a list; {a_rate}")),
        ("rate: { per: 5 }", format!("3:5: `rate` cannot be a map; {a_rate}")),
        ("rate:", format!("3:5: `rate` has no value; {a_rate}, or remove it")),
        ("rate: ~", format!("3:11: `rate` has no value; {a_rate}, or remove it")),
        (
            "per: 60",
            "3:10: missing unit in `60`; write `60ms`, `60s`, `60m`, `60h` or `60d`".into(),
        ),
        ("per: 0", "3:10: `0` is too short; write at least `1ms`".into()),
        (
            "per: 1.5",
            "3:10: `1.5` has a fraction; write whole numbers, such as `1s500ms` or `1h30m`".into(),
        ),
        ("per: 5sec", "3:10: unknown unit `sec` in `5sec`; did you mean `s`?".into()),
        (
            "per: 1:30",
            "3:10: unexpected `:` in `1:30`; write a duration such as `500ms`, `1s` or `1h30m`"
                .into(),
        ),
        ("per: 0s", "3:10: `0s` is too short; write at least `1ms`".into()),
        ("per: 2000d", "3:10: `2000d` is too long; write at most `366d`".into()),
        (
            "per: null",
            "3:10: `per` has no value; write a duration such as `500ms`, `1s` or `1h30m`, or \
             remove it"
                .into(),
        ),
    ] {
        assert_eq!(report(&in_limiter(field)), message, "{field}");
    }
    check_reports(&[
        (
            "revision: -1\n",
            "1:11: `revision` cannot be `-1`; write a whole number from 0 to 9007199254740991",
        ),
        (
            "instances: 0\n",
            "1:12: `instances` cannot be `0`; write a whole number from 1 to 4294967295",
        ),
        (
            "limiters:\n  a: { max_debt: -1 }\n",
            "2:18: `max_debt` cannot be `-1`; write a whole number from 0 (no debt) to 4294967295",
        ),
        (
            "limiters:\n  a: { max_waiters: -1 }\n",
            "2:21: `max_waiters` cannot be `-1`; write a whole number from 0 (no call waits) to 4294967295",
        ),
        (
            "prefixes:\n  - prefix: a\n    max_waiters: many\n",
            "3:18: `max_waiters` cannot be the text `many`; write a whole number from 0 (no call waits) to \
             4294967295",
        ),
        (
            "limiters:\n  a: { shards: 0 }\n",
            "2:16: `shards` cannot be `0`; write a whole number from 1 to 256",
        ),
        (
            "limiters:\n  a: { rate: 5, per: 1s, shards: 6 }\n",
            "2:34: `shards: 6` leaves a shard without permits; write at most 5, which is the `rate`",
        ),
        (
            "limiters:\n  a:\n    shards: 6\n    overrides:\n      - { key: a, rate: 5 }\n",
            "5:25: `shards: 6` leaves a shard without permits; write at most 5, which is the `rate`",
        ),
        (
            "default: { shards: 2, algorithm: leaky_bucket }\n",
            "1:20: `shards` cannot be combined with `leaky_bucket`, which spaces permits evenly; remove \
             `shards`, or write another algorithm",
        ),
        (
            "prefixes:\n  - { prefix: a, shards: 2, mode: per_client }\n",
            "2:26: `shards` cannot be combined with mode `per_client`, which counts in each process; remove \
             `shards`",
        ),
        (
            "default: { max_waiters: 4294967296, max_waiter: 1 }\n",
            "1:25: `max_waiters` cannot be `4294967296`; write a whole number from 0 (no call waits) to \
             4294967295\n\
             1:37: unknown field `max_waiter` in `default`; did you mean `max_waiters`?",
        ),
        (
            "deadline: 100\n",
            "1:11: missing unit in `100`; write a duration from `1ms` to `1m`, such as `100ms`",
        ),
        (
            "revision: 9007199254740992\n",
            "1:11: `revision` cannot be `9007199254740992`; write a whole number from 0 to 9007199254740991",
        ),
        (
            "max_remembered: 0\n",
            "1:17: `max_remembered` cannot be `0`; write a whole number from 1 to 100000000",
        ),
        (
            "limiters:\n  quote: { max_keys: 5 }\n",
            "2:22: `max_keys` is for keys with placeholders, and `quote` has none; remove it",
        ),
        (
            "limiters:\n  \"a:{b}\": { overrides: [{ key: \"a:1\", max_keys: 5 }] }\n",
            "2:50: `max_keys` is for all keys of a limiter; write it outside of `overrides`",
        ),
        (
            "prefixes: [{ prefix: \"a:\", rate: 5, per: 1s, refund_on: ok }]\n",
            "1:57: `refund_on` is for annotated functions, and a prefix for names that are built at run time; remove it",
        ),
        (
            "default: { max_keys: 0 }\n",
            "1:22: `max_keys` cannot be `0`; write a whole number from 1 to 100000000",
        ),
        (
            "deadline: 0s\n",
            "1:11: `deadline` cannot be `0s`; write a duration from `1ms` to `1m`, such as `100ms`",
        ),
        (
            "deadline: 1d\n",
            "1:11: `deadline` cannot be `1d`; write a duration from `1ms` to `1m`, such as `100ms`",
        ),
        (
            "default: { per: 1m, keep_alive: 30s }\n",
            "1:33: `keep_alive` of `30s` is shorter than `per`; write at least `1m`",
        ),
        (
            "limiters:\n  \"a:{b}\":\n    per: 1m\n    overrides:\n      - { key: \"a:1\", keep_alive: 30s }\n",
            "5:35: `keep_alive` of `30s` is shorter than `per`; write at least `1m`",
        ),
    ]);
    // A longer window further down keeps its limiter for longer.
    parse("limiters: { \"a:{b}\": { keep_alive: 30s, overrides: [{ key: \"a:1\", per: 1h }] } }\n");
}

#[test]
fn several_limits_are_read_as_they_stand() {
    let file = parse(
        "limiters:\n  a:\n    limits:\n      - { rate: 10, per: 1s }\n      - rate: 1000\n        per: 1h\n\
         \x20       algorithm: fixed_window\n      - { rate: 5, per: 1s, algorithm: token_bucket, burst: 20 }\n\
         \x20   overrides:\n      - { key: a, rate: 0 }\n",
    );
    let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3600));
    let entry = file.limiter("a").unwrap();
    assert_eq!(
        entry.settings.limits.as_deref().unwrap(),
        [
            Limit::new(10, second),
            Limit { algorithm: Some(Algorithm::FixedWindow), ..Limit::new(1000, hour) },
            Limit {
                algorithm: Some(Algorithm::TokenBucket),
                burst: Some(20),
                ..Limit::new(5, second)
            },
        ]
    );
    // Nobody is nobody, whatever the limits around it are.
    assert_eq!(entry.overrides[0].settings.rate, Some(0));
    let layers = [(0, &entry.overrides[0].settings), (1, &entry.settings)];
    let set = Merged::of(&layers).in_force();
    assert_eq!((set.rate.map(|rate| rate.value), set.limits), (Some(0), None));
}

#[test]
fn several_limits_are_refused_where_one_is_of_no_use() {
    let limiter = |fields: &str| format!("limiters:\n  a:\n    {fields}\n");
    for (fields, expected) in [
        (
            "limits: 5",
            "3:13: `limits` cannot be `5`; write a list such as `[{ rate: 10, per: 1s }, { rate: 1000, per: 1h }]`",
        ),
        ("limits: []", "3:5: `limits` has 0 entries; write 1 to 8"),
        (
            "limits: [5]",
            "3:14: a limit cannot be `5`; write fields such as `{ rate: 10, per: 1s }`",
        ),
        ("limits: [{ rate: 5 }]", "3:14: a limit needs `per`; write `{ rate: 10, per: 1s }`"),
        (
            "limits: [{ rate: 0, per: 1s }]",
            "3:22: `rate` cannot be `0`; write a whole number from 1 to 2147483647",
        ),
        (
            "limits: [{ rate: 5, per: 1s, brust: 9 }]",
            "3:34: unknown field `brust` in a limit; did you mean `burst`?",
        ),
        (
            "limits: [{ rate: 5, per: 1s, burst: 9 }]",
            "3:14: `burst` requires `token_bucket`, but the algorithm is `sliding_window`; set `algorithm` to `token_bucket`, or remove `burst`",
        ),
        (
            "limits: [{ rate: 10, per: 1s }, { rate: 100000, per: 1h }]",
            "3:37: limit `100000 per 1h` is unreachable, because `10 per 1s` never admits more; write at most 35999, or remove it",
        ),
        (
            "limits:\n      - { rate: 10, per: 1s }\n      - { rate: 5, per: 1s }",
            "5:9: duplicate `sliding_window` with window `1s`, also used by `10 per 1s`; remove one, or write another window",
        ),
        (
            "limits: [{ rate: 1, per: 1s }, { rate: 2, per: 1m }]\n    rate: 5",
            "4:11: `rate` cannot be combined with `limits`; remove one of them",
        ),
        (
            "limits: [{ rate: 2, per: 1s }, { rate: 9, per: day }]",
            "3:52: calendar window `day` cannot be used in `limits`; write a length such as `1d`",
        ),
        (
            "limits: [{ rate: 1, per: 1s }, { rate: 2, per: 1m }]\n    overrides:\n      - { key: a, rate: 5 }",
            "5:25: `rate` alone cannot replace `limits`; write `per` too, or write `limits`",
        ),
        (
            "limits: [{ rate: 1, per: 1s }, { rate: 2, per: 1m }]\n    keep_alive: 30s",
            "4:17: `keep_alive` of `30s` is shorter than `per`; write at least `1m`",
        ),
        (
            "limits: [{ rate: 1, per: 1s }, { rate: 2, per: 1m }]\n    time_zone: Europe/Vienna",
            "4:16: `time_zone` cannot be combined with `limits`; remove one of them",
        ),
    ] {
        assert_eq!(report(&limiter(fields)), expected, "{fields}");
    }
    // That of all limiters is for those with a calendar window.
    parse("default: { time_zone: UTC, limits: [{ rate: 1, per: 1s }, { rate: 2, per: 1m }] }\n");
}

#[test]
fn a_burst_belongs_to_a_token_bucket() {
    check_reports(&[
        (
            "default: { burst: 0 }\n",
            "1:19: `burst` cannot be `0`; write a whole number from 1 to 2147483647",
        ),
        (
            "default: { algorithm: leaky_bucket, burst: 5 }\n",
            "1:44: `burst` requires `token_bucket`, but the algorithm is `leaky_bucket`; set `algorithm` to \
             `token_bucket`, or remove `burst`",
        ),
        (
            "limiters:\n  \"a:{b}\":\n    algorithm: fixed_window\n    overrides:\n      - { key: \"a:1\", burst: 9 }\n",
            "5:30: `burst` requires `token_bucket`, but the algorithm is `fixed_window`; set `algorithm` to \
             `token_bucket`, or remove `burst`",
        ),
        (
            "default: { algorithm: leaky_bucket, rate: 2000000000, per: 1h }\n",
            "1:43: a `rate` of 2000000000 in `1h` is too large to be counted exactly; write at \
             most 1250999896, or a shorter `per`",
        ),
    ]);
    // The annotation may be what makes it a token bucket, and an override may make it another.
    parse("limiters: { a: { burst: 5 } }\n");
    parse(
        "limiters:\n  a:\n    algorithm: token_bucket\n    burst: 5\n    overrides:\n      - { key: a, algorithm: fixed_window }\n",
    );
}

#[test]
fn a_warm_up_belongs_to_a_token_bucket_without_a_burst() {
    check_reports(&[
        (
            "default: { algorithm: leaky_bucket, warm_up: 5s }\n",
            "1:46: `warm_up` requires `token_bucket`, but the algorithm is `leaky_bucket`; set `algorithm` to \
             `token_bucket`, or remove `warm_up`",
        ),
        (
            "default: { limits: [{ rate: 2, per: 1s }], warm_up: 5s }\n",
            "1:53: `warm_up` cannot be combined with `limits`; remove one of them",
        ),
        (
            "default: { algorithm: token_bucket, burst: 5, warm_up: 5s }\n",
            "1:56: `warm_up` cannot be combined with `burst`; remove one of them",
        ),
        (
            "default: { algorithm: token_bucket, rate: 2000000000, warm_up: 1s }\n",
            "1:64: a `warm_up` of 1s at a `rate` of 2000000000 is too long to be counted exactly; \
             write at most `549ms`, or a smaller `rate`",
        ),
    ]);
    // In different places, the nearer one counts.
    parse("default: { algorithm: token_bucket, burst: 5 }\nlimiters: { a: { warm_up: 5s } }\n");
}

#[test]
fn words_are_the_known_ones() {
    check_reports(&[
        (
            "default: { mode: overal }\n",
            "1:18: unknown `mode` value `overal`; did you mean `overall`?",
        ),
        (
            "default: { mode: 1 }\n",
            "1:18: unknown `mode` value `1`; expected `overall` or `per_client`",
        ),
        (
            "default: { wait: sometimes }\n",
            "1:18: unknown `wait` value `sometimes`; expected `forever`, `none` or a duration such as `250ms`",
        ),
        (
            "default: { wait: 250 }\n",
            "1:18: missing unit in `250`; write `250ms`, `250s`, `250m`, `250h` or `250d`",
        ),
        ("default: { wait: 0 }\n", "1:18: `0` is too short; write at least `1ms`, or `none`"),
        ("default: { wait: 0s }\n", "1:18: `0s` is too short; write at least `1ms`, or `none`"),
        (
            "default: { wait: true }\n",
            "1:18: `wait` cannot be `true`; write `forever`, `none` or a duration such as `250ms`",
        ),
        (
            "default: { wait: }\n",
            "1:12: `wait` has no value; write `forever`, `none` or a duration such as `250ms`, or \
             remove it",
        ),
        (
            "default: { on_store_error: open }\n",
            "1:28: unknown `on_store_error` value `open`; expected `local`, `allow` or `reject`",
        ),
        (
            "default: { algorithm: fixed }\n",
            "1:23: unknown `algorithm` value `fixed`; expected `sliding_window`, `token_bucket`, \
             `fixed_window` or `leaky_bucket`",
        ),
        (
            "default: { on_drift: Carry }\n",
            "1:22: unknown `on_drift` value `Carry`; did you mean `carry`?",
        ),
        (
            "default: { enabled: yes }\n",
            "1:21: `enabled` cannot be the text `yes`; write `true` or `false`",
        ),
        (
            "shadow: \"true\"\n",
            "1:9: `shadow` cannot be the text `true`; write `true` or `false`, without quotes",
        ),
        ("shadow: maybe\n", "1:9: `shadow` cannot be the text `maybe`; write `true` or `false`"),
        (
            "shadow:\nlimiters:\n  a:\n    shadow: 1\n    overrides: [{ key: a, shadow: off }]\n",
            "1:1: `shadow` has no value; write `true` or `false`, or remove it\n\
             4:13: `shadow` cannot be `1`; write `true` or `false`\n\
             5:35: `shadow` cannot be the text `off`; write `true` or `false`",
        ),
        (
            "shadw: true\nprefixes:\n  - { prefix: a, shadov: true }\n",
            "1:1: unknown field `shadw`; did you mean `shadow`?\n\
             3:18: unknown field `shadov` in an entry of `prefixes`; did you mean `shadow`?",
        ),
        ("strict: 1\n", "1:9: `strict` cannot be `1`; write `true` or `false`"),
        (
            "unmatched: quiet\n",
            "1:12: unknown `unmatched` value `quiet`; expected `warn`, `error` or `ignore`",
        ),
    ]);
}

#[test]
fn a_value_of_the_wrong_kind_is_refused() {
    check_reports(&[
        ("- a\n", "1:1: a limits file cannot be a list; write fields such as `limiters:`"),
        (
            "limiters\n",
            "1:1: a limits file cannot be a single value; write fields such as `limiters:`",
        ),
        (
            "limiters:\n  - a\n",
            "1:1: `limiters` cannot be a list; write a map such as `checkout: { rate: 5, per: 1s }`",
        ),
        (
            "limiters:\n  checkout: 5\n",
            "2:13: `checkout` cannot be `5`; write fields such as `{ rate: 5, per: 1s }`",
        ),
        (
            "limiters:\n  checkout:\n    per:1s\n",
            "3:5: `checkout` cannot be the text `per:1s`; write a space after the `:`",
        ),
        (
            "limiters:\n  checkout: rate=5\n",
            "2:13: `checkout` cannot be the text `rate=5`; write `: ` instead of `=`",
        ),
        (
            "limiters:\n  checkout:\n  rate: 5\n  limits: []\n",
            "3:9: `rate` is a field of a limiter; indent it below the key\n\
             4:3: `limits` is a field of a limiter; indent it below the key",
        ),
        (
            "limiters:\n  checkout: { rate: 5, per: 1s }\n  store: redis://localhost\n  instances: 4\n",
            "3:10: `store` is a field of the file; write it at the start of a line\n\
             4:14: `instances` is a field of the file; write it at the start of a line",
        ),
        (
            "limiters:\n  checkout:\n    - { rate: 5, per: 1s }\n    - { rate: 9, per: 1m }\ndefault: [5]\n",
            "2:3: `checkout` cannot be a list; write several limits as \
             `limits: [{ rate: 10, per: 1s }, { rate: 1000, per: 1h }]`\n\
             5:1: `default` cannot be a list; write several limits as \
             `limits: [{ rate: 10, per: 1s }, { rate: 1000, per: 1h }]`",
        ),
        (
            "default: 5/1s\n",
            "1:10: `default` cannot be the text `5/1s`; write fields such as `{ rate: 5, per: 1s }`",
        ),
        (
            "prefixes: { a: 5 }\n",
            "1:1: `prefixes` cannot be a map; write a list of entries such as \
             `- { prefix: \"test:\", rate: 2, per: 1s }`",
        ),
        (
            "limiters:\n  a:\n    overrides: { key: a }\n",
            "3:5: `overrides` cannot be a map; write a list of entries such as \
             `- { key: \"orders:42\", rate: 0 }`",
        ),
        (
            "prefixes:\n  - a\n  - [a]\n  -\n",
            "2:5: an entry of `prefixes` cannot be the text `a`; write fields such as \
             `{ prefix: \"vip-\", rate: 50 }`\n\
             3:5: an entry of `prefixes` cannot be a list; write fields such as \
             `{ prefix: \"vip-\", rate: 50 }`\n\
             4:4: an entry of `prefixes` needs `prefix`; write which names it is for",
        ),
        (
            "trusted_proxies:\n  - 10.0.0.0/8\n  -\n  - ~\nlimiters:\n  a:\n    limits:\n    - { rate: 5, per: 1s }\n    -\n",
            "3:4: an entry of `trusted_proxies` cannot be empty; write an address range such as `10.0.0.0/8`\n\
             4:5: an entry of `trusted_proxies` cannot be empty; write an address range such as `10.0.0.0/8`\n\
             9:6: a limit needs `rate`; write `{ rate: 10, per: 1s }`\n\
             9:6: a limit needs `per`; write `{ rate: 10, per: 1s }`",
        ),
        (
            "store: 5\n",
            "1:8: `store` cannot be `5`; write `memory` or a URL such as `redis://127.0.0.1:6379/0`",
        ),
        (
            "client_ip_header: X-Real-IP, X-Forwarded-For\n",
            "1:19: `X-Real-IP, X-Forwarded-For` is not the name of a header; write one such as \
             `x-forwarded-for`",
        ),
        (
            "trusted_proxies: 10.0.0.0/8\n",
            "1:18: `trusted_proxies` cannot be the text `10.0.0.0/8`; write a list of address ranges such as \
             `[10.0.0.0/8]`",
        ),
        (
            "trusted_proxies: [10.0.0.0/8, 7, local]\n",
            "1:31: an entry of `trusted_proxies` cannot be `7`; write an address range such as `10.0.0.0/8`\n\
             1:34: `local` is not a range of IP addresses; write one such as `10.0.0.0/8`",
        ),
        (
            "trusted_proxies: [10.0.0.0/8, ::1]\n",
            "1:31: missing key before `:`; write `key: value`, or quote text that starts with `:`",
        ),
        ("tls_ca: \"\"\n", "1:9: `tls_ca` is empty; write the path of a file, or remove it"),
        ("key_prefix: 5\n", "1:13: `key_prefix` cannot be `5`; write a text such as `\"shop:\"`"),
        ("key_prefix: \"{a}:\"\n", "1:13: the key prefix contains a brace; remove it"),
        ("key_prefix: \"${A}{a}:\"\n", "1:13: the key prefix contains a brace; remove it"),
        ("key_prefix: \"${A:\"\n", "1:13: unclosed `${`; write `${NAME}`, or `$$` for a `$`"),
        (
            "limiters:\n  42: {}\n  true: {}\n  {user}: {}\n  : {}\n",
            "5:3: missing key before `:`; write `key: value`, or quote text that starts with `:`",
        ),
        (
            "limiters:\n  42: {}\n  true: {}\n  {user}: {}\n  ~: {}\n",
            "2:3: expected a string as key, found `42`; quote it\n\
             3:3: expected a string as key, found `true`; quote it\n\
             4:3: expected a string as key, found a map; quote it\n\
             5:3: empty key; write a name before `:`",
        ),
    ]);
}

#[test]
fn keys_and_prefixes_must_match_something() {
    check_reports(&[
        (
            "limiters:\n  \"orders:{user id}\": {}\n  \"{a}{b}\": {}\n  \"\": {}\n",
            "2:3: in the key `orders:{user id}`: `{user id}` contains whitespace; write `{user_id}`\n\
             3:3: in the key `{a}{b}`: ambiguous key, values of `{a}` and `{b}` run together; put a separator such as \
             `:` between them\n\
             4:3: in the key ``: empty key; write a name such as `checkout` or `orders:{user_id}`",
        ),
        (
            "limiters:\n  \"orders:{id}\":\n    overrides:\n      - { key: \"order:42\", rate: 0 }\n      \
             - { prefix: \"order-\", rate: 0 }\n      - { key: \"orders:a b\" }\n      \
             - { prefix: \"orders:vip-*\" }\n",
            "4:16: `order:42` is never a name of limiter `orders:{id}`; write one such as `orders:42`\n\
             5:19: no name of limiter `orders:{id}` starts with `order-`; they start with `orders:`\n\
             6:16: `orders:a b` is never a name of limiter `orders:{id}`; write one such as `orders:42`, and escape \
             characters of values other than letters, digits, `_`, `.` and `-`, such as `@` by `%40`\n\
             7:19: no name of limiter `orders:{id}` starts with `orders:vip-*`; write no wildcard, as in \
             `prefix: \"orders:vip-\"`",
        ),
        (
            "limiters:\n  \"orders:{id}\":\n    overrides:\n      - { key: \"orders:vip-*\" }\n      \
             - { key: \"orders:*\" }\n      - { key: \"*\" }\n      - { prefix: \"orders:v p\" }\n",
            "4:16: `orders:vip-*` is never a name of limiter `orders:{id}`; write no wildcard, as in \
             `prefix: \"orders:vip-\"`\n\
             5:16: `orders:*` is never a name of limiter `orders:{id}`; write no wildcard, as in \
             `prefix: \"orders:\"`\n\
             6:16: `*` is never a name of limiter `orders:{id}`; write one such as `orders:42`\n\
             7:19: no name of limiter `orders:{id}` starts with `orders:v p`; escape characters of values other \
             than letters, digits, `_`, `.` and `-`, such as `@` by `%40`",
        ),
        (
            "limiters:\n  \"a:{id}\":\n    overrides:\n      - { key: \"a:1\", prefix: \"a:\" }\n      \
             - { rate: 5 }\n",
            "4:23: an override of limiter `a:{id}` has either `key` or `prefix`; remove one of them\n\
             5:9: an override of limiter `a:{id}` needs `key` or `prefix`; write which names it is for",
        ),
        (
            "prefixes:\n  - { prefix: a, rate: 1 }\n  - { prefix: ab, rate: 2 }\n",
            "3:15: `ab` is never reached, because `a` on line 2 matches first; move it before that entry",
        ),
        (
            "prefixes:\n  - prefix: \"\"\n",
            "2:13: `prefix` is empty; write what names start with, such as `prefix: \"orders:vip-\"`, \
             or remove it",
        ),
    ]);
    let long = format!("prefixes:\n  - prefix: {}\n", "a".repeat(481));
    assert_eq!(report(&long), "2:13: `prefix` is 481 bytes long; write at most 480");
    let long = "a".repeat(100_000);
    let limiter = "limiters:\n  \"orders:{id}\":\n    overrides:\n";
    assert_eq!(
        report(&format!("{limiter}      - key: orders:{long}*\n      - prefix: x{long}\n")),
        "4:14: `key` is 100008 bytes long; write at most 480\n5:17: `prefix` is 100001 bytes long; write at most 480"
    );
}

#[test]
fn yaml_that_limits_do_without_is_refused() {
    check_reports(&[
        (
            "a: &b 1\n",
            "1:4: anchors (`&`) are not supported; write the value out, or put text in quotes",
        ),
        (
            "a: 1\nb: *a\n",
            "2:4: aliases (`*`) are not supported; write the value out, or put text in quotes",
        ),
        (
            "a: !!str 1\n",
            "1:4: tags (`!`) are not supported; write the value without one, or put text in quotes",
        ),
        (
            "a: |\n  b\n",
            "1:4: block text (`|`, `>`) is not supported; write it on one line, in quotes",
        ),
        ("a: 1\n---\nb: 2\n", "2:1: unexpected second document; write only one"),
        ("---\n---\n", "2:1: unexpected second document; write only one"),
        ("a: 1\n...\n", "2:1: `...` is not supported; remove it"),
        ("%YAML 1.2\n", "1:1: directives (`%`) are not supported; remove the line"),
        ("? a\n: b\n", "1:1: explicit keys (`?`) are not supported; write `key: value`"),
        ("a:\n\tb: 1\n", "2:1: tab in the indentation; write spaces"),
        ("a:\n  \tb: 1\n", "2:3: tab in the indentation; write spaces"),
        ("a: \u{0}\n", "1:4: character U+0000 cannot be used; remove it"),
        ("a: 1\u{2028}b: 2\n", "1:5: character U+2028 cannot be used; remove it"),
        ("a: 1\rb: 2\n", "1:5: character U+000D cannot be used; remove it"),
        // Pasted from a web page or a chat: it looks like a space.
        (
            "limiters:\n\u{a0} a: { rate: 5 }\n",
            "2:1: text cannot start with a special space; write a plain one, or quote it",
        ),
        (
            "limiters:\n  a: { rate: 5 }\u{a0}\n",
            "2:17: text cannot start with a special space; write a plain one, or quote it",
        ),
        ("a: `b`\n", "1:4: text cannot start with a backtick; quote it"),
        ("a: @b\n", "1:4: text cannot start with `@`; quote it"),
    ]);
}

#[test]
fn yaml_that_is_none_says_what_is_missing() {
    check_reports(&[
        ("a: [1, 2\n", "1:4: unclosed `[`; write `]` after the last entry"),
        ("a: [1}\n", "1:6: `}` does not match the `[` at 1:4; write `]`"),
        ("a: 1}\nb: }\n", "2:4: unmatched `}`; remove it, or quote the text"),
        ("a: \"b\nc: d\n", "1:4: unterminated string; write `\"` at its end, on the same line"),
        (
            "a: \"b\" c\n",
            "1:8: unexpected text after a value; quote all of it, or write `#` before a comment",
        ),
        (
            "a: b: c\n",
            "1:5: unexpected second `:` on this line; write each field on a line of its own, and quote \
             text that contains `: `",
        ),
        (
            "limiters:\n  a: { rate: 3 per: 1s }\n",
            "2:19: unexpected second `:` in an entry; separate entries with commas, and quote text that \
             contains `: `",
        ),
        (
            "a: [b: c: d]\n",
            "1:9: unexpected second `:` in an entry; separate entries with commas, and quote text that \
             contains `: `",
        ),
        (
            "a: { b: 1\n  c: 2 }\n",
            "2:3: missing comma; separate entries with commas, and quote text that contains `[`, `]`, \
             `{`, `}` or `,`",
        ),
        (
            "limiters:\n  a: {rate: ${RATE}, per: 1s}\n",
            "2:13: unquoted `${` inside `[` or `{`; quote the text, as in `\"${NAME}\"`; only `store`, `tls_ca` \
             and `key_prefix` can contain variables",
        ),
        (
            "trusted_proxies: [\n  10.0.0.0/${BITS}]\n",
            "2:12: unquoted `${` inside `[` or `{`; quote the text, as in `\"${NAME}\"`; only `store`, `tls_ca` \
             and `key_prefix` can contain variables",
        ),
        (
            "a: { key: orders:{id} }\n",
            "1:17: unexpected `:` before a bracket or comma; quote text that contains these",
        ),
        ("a: { b: 1,, c: 2 }\n", "1:11: unexpected `,`; remove it"),
        ("a: [, 1]\n", "1:5: unexpected `,`; remove it"),
        (
            "limiters:\n  a: {} // old\n",
            "2:9: unexpected text after a value; quote all of it, or write `#` before a comment",
        ),
        ("a: [\n  - b\n]\n", "2:3: unexpected `-` inside `[` or `{`; separate entries with commas"),
        (
            "limiters:\n  a: { rate: 1 }\n    per: 1s\n",
            "3:5: unexpected continuation line; write each value on one line, and align the fields of \
             a map",
        ),
        (
            "limiters:\n    a: { rate: 1 }\n  b: { rate: 1 }\n",
            "3:3: inconsistent indentation; align the line with those of the same map or list",
        ),
        // The place was the next line, or the end of the file, and the message that of the YAML parser.
        ("a: 1\nb\nc: 2\n", &format!("2:1: {NO_COLON}")),
        ("limiters:\n  a:\n    rate: 5\n    per:1s\n", &format!("4:5: {NO_COLON}")),
        ("limiters:\n  a:\n    rate: 5\n    per:1s # c\n\n  b:\n", &format!("4:5: {NO_COLON}")),
        ("limiters:\n  a:\n    rate:5\n    per: 1s\n", &format!("3:5: {NO_COLON}")),
        ("store:memory\nlimiters:\n", &format!("1:1: {NO_COLON}")),
        ("limiters:\n  a: {}\n  \"report\"\n", &format!("3:3: {NO_COLON}")),
        ("prefixes:\n  - prefix:a\n    rate: 5\n", &format!("2:5: {NO_COLON}")),
        ("a:\n  -\t1\n", "2:4: tab after `-`; write a space"),
        ("prefixes:\n  - \tprefix: a\n", "2:5: tab after `-`; write a space"),
        ("a:\n  -\t# b\n    1\n", "2:4: tab after `-`; write a space"),
        (
            "a: \"\\q\"\n",
            "1:5: not valid YAML: found unknown escape character; write text with backslashes in single quotes",
        ),
    ]);
}

/// The messages of the parser name no way out.
#[test]
fn what_only_the_parser_rejects_has_advice_too() {
    let own_key = "write a list (`- `) below a key of its own, such as `overrides:`";
    let inside = "write each field inside an entry of the list (`- `), or align it with the key above the list";
    let escapes = "write text with backslashes in single quotes";
    let long = "write the key at the start of a line, with at most 1024 characters";
    let key = "k".repeat(1025);
    for (text, position, advice) in [
        ("limiters:\n  \"a:{b}\":\n    rate: 5\n    - key: a:1\n      rate: 3\n", "4:5", own_key),
        ("limiters:\n  \"a:{b}\":\n    - key: a:1\n      rate: 3\n    rate: 5\n", "5:5", inside),
        ("prefixes:\n  - prefix: a\n    rate: 1\n  rate: 3\n", "4:3", inside),
        ("prefixes:\n  -\n  rate: 3\n", "3:3", inside),
        ("- store: memory\nlimiters:\n", "2:1", inside),
        ("prefixes: - a\n", "1:11", "begin the list on the next line"),
        ("tls_ca: \"C:\\shop\\ca.pem\"\n", "1:12", escapes),
        ("tls_ca: \"C:\\users\\ca.pem\"\n", "1:14", escapes),
        ("tls_ca: \"\\ud800\"\n", "1:12", escapes),
        ("--- a: 1\n", "1:6", long),
        (&format!("{key}: 1\n"), "1:1026", long),
        (&format!("a: 1\n\"{key}\": 1\n"), "2:1028", long),
        ("a: { b: {c}: 5 }\n", "1:12", "quote text with special characters"),
    ] {
        let report = report(text);
        let is_expected = report.starts_with(&format!("{position}: not valid YAML: "))
            && report.ends_with(&format!("; {advice}"));
        assert!(is_expected, "{text:?}: {report}");
    }
}

#[test]
fn a_file_has_bounds() {
    let deep = format!("a: {}{}\n", "[".repeat(16), "]".repeat(16));
    assert_eq!(report(&deep), "1:19: nested deeper than 16 levels; write fewer levels");
    let large = format!("# {}\n", "é".repeat(MAX_BYTES / 2));
    assert_eq!(report(&large), "the file is 262147 bytes long; write at most 262144 (256 KiB)");
    let dense = format!("a: [{}]\n", "1,".repeat(100_000));
    assert_eq!(
        report(&dense),
        "1:120002: more than 120000 keys, values and punctuation marks up to here; write fewer"
    );
    let limiters = |n: usize| {
        let entries = (0..n).map(|n| format!(" {n:04x}_: {{rate: 2}}\n"));
        format!("limiters:\n{}", entries.collect::<String>())
    };
    assert_eq!(parse(&limiters(MAX_LIMITERS)).limiters.len(), MAX_LIMITERS);
    assert_eq!(
        report(&limiters(MAX_LIMITERS + 1)),
        "10002:2: there are 10001 limiters; write at most 10000"
    );
}

#[test]
fn a_report_holds_every_problem_in_the_order_of_the_file() {
    let text = "\
limiters:
  checkout:
    rate: -1
    per: 60
    mode: overal
    color: 5
  checkout: {}
store: ''
";
    let settings = format!("`{}`", Settings::NAMES.join("`, `"));
    let expected = format!(
        "\
3:11: `rate` cannot be `-1`; write a whole number from 0 (rejects every call) to 2147483647
4:10: missing unit in `60`; write `60ms`, `60s`, `60m`, `60h` or `60d`
5:11: unknown `mode` value `overal`; did you mean `overall`?
6:5: unknown field `color` in limiter `checkout`; expected {settings} or `overrides`
7:3: duplicate limiter `checkout`, first set on line 2; remove one
8:8: `store` is empty; write `memory` or a URL such as `redis://127.0.0.1:6379/0`, or remove it"
    );
    assert_eq!(report(text), expected);

    let many: String = (0..1000).map(|n| format!("field{n}: 1\n")).collect();
    let problems = LimitsFile::parse(&many).unwrap_err();
    assert_eq!(problems.len(), 51);
    assert_eq!(problems[50].to_string(), "there are more problems than these 50");
}

#[test]
fn what_was_read_can_be_found_again() {
    let text = "\
store: memory
limiters:
  quote: { rate: 2, per: 1s }
  \"orders:{id}\":
    rate: 5
    overrides:
      - key: \"orders:1\"
        rate: 0
  report:
";
    let file = parse(text);
    let position = |path: &[Step<'_>]| {
        file.position(path).map(|position| position.to_string()).unwrap_or_default()
    };
    let orders = [Step::Key("limiters"), Step::Key("orders:{id}")];
    let in_orders = |rest: &[Step<'_>]| position(&[&orders, rest].concat());
    assert_eq!(position(&[]), "1:1");
    assert_eq!(position(&[Step::Key("store")]), "1:8");
    assert_eq!(position(&[Step::Key("limiters")]), "2:1");
    assert_eq!(position(&[Step::Key("limiters"), Step::Key("quote"), Step::Key("per")]), "3:26");
    assert_eq!(position(&[Step::Key("limiters"), Step::Key("report")]), "9:3");
    assert_eq!(in_orders(&[]), "4:3");
    assert_eq!(in_orders(&[Step::Key("rate")]), "5:11");
    assert_eq!(in_orders(&[Step::Key("overrides"), Step::Index(0)]), "7:9");
    assert_eq!(in_orders(&[Step::Key("overrides"), Step::Index(0), Step::Key("rate")]), "8:15");
    assert_eq!(in_orders(&[Step::Key("overrides"), Step::Index(1)]), "");
    assert_eq!(in_orders(&[Step::Key("per")]), "");
    assert_eq!(in_orders(&[Step::Index(0)]), "");
    assert_eq!(LimitsFile::default().position(&[Step::Key("store")]), None);
}

#[test]
fn a_secret_in_the_file_is_not_repeated() {
    let secret = "s3cr3t-CANARY";
    let url = format!("redis://user:{secret}@127.0.0.1:6379/0");
    let file = parse(&format!("store: {url}\n"));
    assert_eq!(file.store.as_deref(), Some(url.as_str()));
    assert!(!format!("{file:?}").contains(secret));
    for text in [
        format!("store: {url}\nfoo: 1\n"),
        format!("store: \"{url}${{\"\n"),
        format!("store: \"{url}${{A B}}\"\n"),
        format!("store: \"{url}\n"),
        format!("store: {url}: x\n"),
        format!("store: [{url}]\n"),
        format!("store: {url}\n  x: 1\n"),
        format!("store: {url}\nstore: {url}\n"),
        format!("store: {{ url: {url} }}\n"),
        format!("store: {url}\nb\nc: 2\n"),
        format!("store: \"{url}\\q\"\n"),
        // An address in the wrong place, or without the space before it.
        format!("limiters:\n  orders: {{ rate: 1, per: 1s }}\n  store: {url}\n"),
        format!("limiters: {{}}\ndefault:\n  wait: {url}\n"),
        format!("limiters:\n  orders: {{ rate: {url} }}\n"),
        format!("limiters:\n  orders: unix:///a.sock?pass={secret}\n"),
        format!("{{ store:{url}, limiters: {{}} }}\n"),
        format!("{{ store={url}, limiters: {{}} }}\n"),
        format!("store:{url}:\nlimiters: {{}}\n"),
        format!("{url}:\n"),
    ] {
        let report = report(&text);
        assert!(!report.starts_with("no problem") && !report.contains(secret), "{report}");
    }
}

#[test]
fn settings_fill_each_other_in() {
    let file =
        parse("default: { rate: 5, per: 1s }\nlimiters: { a: { rate: 2, enabled: false } }\n");
    let set =
        Merged::of(&[("a", &file.limiter("a").unwrap().settings), ("default", &file.default)]);
    assert_eq!(set.rate, Some(Sourced { value: 2, source: "a" }));
    assert_eq!(
        set.per.map(|per| (per.value.length, per.source)),
        Some((Duration::from_secs(1), "default"))
    );
    assert_eq!((set.enabled(), set.mode), (false, None));
}

#[test]
fn a_match_is_for_one_name_or_for_a_prefix() {
    let key = Match::Key("orders:4".to_owned());
    let prefix = Match::Prefix("orders:4".to_owned());
    assert!(key.matches("orders:4") && !key.matches("orders:42"));
    assert!(
        prefix.matches("orders:4") && prefix.matches("orders:42") && !prefix.matches("orders:")
    );
}
