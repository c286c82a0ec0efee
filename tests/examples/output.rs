//! The examples that run to an end.

use std::{fs, path::Path, process::Command};

use tests::redis_server::RedisServer;

use crate::program::{run, run_on_each};

/// The number in a line, between these two texts.
fn number(line: &str, before: &str, after: &str) -> f64 {
    let found = line.split_once(before).and_then(|(_, rest)| rest.split_once(after));
    let (number, _) = found.unwrap_or_else(|| panic!("no number in `{line}`"));
    number.trim().parse().unwrap()
}

/// Holds lines against what they begin with.
#[track_caller]
fn assert_lines(lines: &[String], expected: &[&str]) {
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.starts_with(expected), "`{line}` instead of `{expected}`");
    }
}

/// The seconds at which lines like `  0.00 s: done` say something happened.
fn seconds(lines: &[String]) -> Vec<f64> {
    lines.iter().map(|line| number(line, "  ", " s: ")).collect()
}

/// A permit comes no earlier than this, and hardly later.
#[track_caller]
fn assert_time(seconds: f64, due: f64) {
    // Limits count in whole milliseconds, and examples print hundredths.
    assert!(seconds > due - 0.02, "{seconds} s is before {due} s");
    assert!(seconds < due + 0.8, "{seconds} s is long after {due} s");
}

#[test]
fn hello_keeps_its_pace() {
    run_on_each("hello", |lines| {
        let (store, calls) = lines.split_first().unwrap();
        assert!(store == "store: memory" || store.starts_with("store: redis://"), "{store}");
        assert_eq!(calls.len(), 10);
        for (n, call) in (0_u32..).zip(calls) {
            let seconds = number(call, "got through after ", " s");
            assert_time(seconds, f64::from(n / 2));
        }
    });
}

#[test]
fn users_do_not_disturb_each_other() {
    run_on_each("per_user", |lines| {
        assert_lines(
            lines,
            &[
                "orders:{user_id}",
                "  user 1, tea: done",
                "  user 1, milk: done",
                "  user 1, sugar: refused, try again in ",
                "  user 2, tea: done",
                "invoices:{order.tenant}",
                "  acme, tea: done",
                "  acme, milk: refused, try again in ",
                "  globex, tea: done",
                "searches:{user?}",
                "  a guest: done",
                "  another guest: refused, try again in ",
                "  user 1: done",
            ],
        );
    });
}

#[test]
fn calls_wait_as_long_as_they_may() {
    run_on_each("wait", |lines| {
        let (forever, others) = lines.split_at(4);
        let (none, bounded) = others.split_at(4);
        for (n, seconds) in (0_u32..).zip(seconds(&forever[1..])) {
            assert_time(seconds, n.into());
        }
        for seconds in seconds(&none[1..]) {
            assert_time(seconds, 0.0);
        }
        assert!(none[1].ends_with(": done"), "{none:#?}");
        assert!(none[2].contains("rate limit `search` exceeded, retry after "), "{none:#?}");
        assert!(none[3].contains("rate limit `search` exceeded, retry after "), "{none:#?}");

        let (done, refused): (Vec<_>, Vec<_>) =
            bounded[1..].iter().cloned().partition(|line| line.ends_with(": done"));
        assert_eq!((done.len(), refused.len()), (2, 1), "{bounded:#?}");
        assert_time(seconds(&done)[0], 0.0);
        assert_time(seconds(&done)[1], 1.0);
        assert!(
            refused[0].contains("no permit becomes free within the allowed wait"),
            "{bounded:#?}"
        );
        // At once, not when its turn or the end of its patience has come.
        assert_time(seconds(&refused)[0], 0.0);
    });
}

#[test]
fn others_answer_skip_or_cost_more() {
    run_on_each("fallback", |lines| {
        assert_lines(
            lines,
            &[
                "a plain fallback",
                "  1.0734, fresh from the exchange",
                "  1.07, as of a moment ago",
                "an asynchronous one",
                "  sent to ada@example.org",
                "  put off for ",
                "  sent to bob@example.org",
                "`skip_if`",
                "  ada: 3 hits",
                "  ada: rate limit `search:{user.name}` exceeded, retry after ",
                "  bob: 3 hits",
                "  bob: 3 hits",
                "`permits`",
                "  60 rows: 60",
                "  60 rows: rate limit `import` exceeded, retry after ",
                "  40 rows: 40",
                "  101 rows: rate limit `import` can never grant that many permits at once",
            ],
        );
    });
}

#[test]
fn a_file_changes_the_pace() {
    run_on_each("yaml", |lines| {
        let parts: Vec<&[String]> = lines.split(String::is_empty).collect();
        let [annotated, mistakes, fast, report] = parts[..] else { panic!("{lines:#?}") };
        assert_time(number(&annotated[1], "six quotes took ", " s"), 2.0);

        let problems = &mistakes[2..];
        assert!(problems[0].contains("typo.yaml:5:5: unknown field `rat`"), "{problems:#?}");
        assert!(problems[1].contains("typo.yaml:6:10: missing unit in `60`"), "{problems:#?}");
        assert_eq!(problems.len(), 2);

        assert_time(number(&fast[1], "six quotes took ", " s"), 0.0);
        assert_eq!(fast[2], "user 1: done");
        assert!(fast[3].starts_with("user 13: rate limit `exports:{user_id}` "), "{fast:#?}");

        for line in ["quote", "  rate: 20 (limits file)", "  per: 1s (annotation)"] {
            assert!(report.iter().any(|reported| reported == line), "{report:#?}");
        }
    });
}

#[test]
fn processes_keep_one_limit_together() {
    let redis = RedisServer::start();
    let lines = run("two_processes", Some(&redis), &["4", "4"]);
    let result = lines.last().unwrap();
    assert!(number(result, "at most ", " in any second") <= 50.0, "{lines:#?}");
    assert!(number(result, "second, ", " per second") >= 49.0, "{lines:#?}");

    let lines = run("two_processes", None, &[]);
    assert!(lines[0].contains("each process has a limit of its own"), "{lines:#?}");
}

/// It printed what processes admit that cannot know of each other, as what one limit admits.
#[test]
fn processes_without_their_server_count_nothing() {
    let output = Command::new(tests::example("two_processes"))
        .args(["2", "1"])
        .env("REDIS_URL", "redis://127.0.0.1:1/")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("Connection refused"), "{output:?}");
}

/// Two of them printed an error of the parser, and the other one an average of NaN.
#[test]
fn a_wrong_argument_is_answered_with_the_usage() {
    let redis = RedisServer::start();
    let interop = Path::new(env!("CARGO_TARGET_TMPDIR")).join("usage");
    fs::create_dir_all(interop.join("4.7.0")).unwrap();
    for (example, arguments) in [
        ("worker", &["abc"][..]),
        ("java_peer", &["4.7.0", "x"]),
        ("two_processes", &["2", "0"]),
        ("two_processes", &["0", "2"]),
        ("two_processes", &["2", "x"]),
    ] {
        let output = Command::new(tests::example(example))
            .args(arguments)
            .env("REDIS_URL", redis.url())
            .env("RATELIMIT_INTEROP", &interop)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        let usage = format!("usage: {example} [");
        assert!(!output.status.success() && errors.contains(&usage), "{output:?}");
    }
}

#[test]
fn the_plot_and_the_table_of_the_algorithms_are_what_they_admit() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join("algorithms");
    fs::create_dir_all(&made).unwrap();
    fs::copy(docs.join("algorithms.md"), made.join("algorithms.md")).unwrap();
    let page = fs::read_to_string(docs.join("algorithms.md")).unwrap();
    for line in run("algorithms", None, &[]) {
        assert!(page.contains(&line), "docs/algorithms.md lacks `{line}`");
    }
    run("algorithms", None, &["docs", made.to_str().unwrap()]);
    for file in ["algorithms.md", "algorithms.svg"] {
        let read = |folder: &Path| fs::read_to_string(folder.join(file)).unwrap();
        assert!(
            read(&made) == read(&docs),
            "docs/{file} is stale; run `cargo run -p examples --example algorithms -- docs docs`"
        );
    }
}
