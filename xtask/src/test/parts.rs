//! Runs all tests, a few files at once: most wait for time to pass rather than for a processor.

use std::{
    collections::VecDeque,
    io::Write,
    process::{Command, Output},
    sync::{Mutex, PoisonError},
    thread,
    time::Instant,
};

use crate::{
    Failed, Outcome,
    shell::{cargo, output, run, say, seconds},
};

const EVERYTHING: &[&str] = &["test", "--locked", "--workspace", "--all-features"];
/// The number of files run at once. With three, waits with a deadline ended late on two cores.
const AT_ONCE: usize = 2;
/// The files that take longest, so that they begin first.
const LONGEST: &[&str] = &["interop", "ui", "examples", "scripts"];
/// The files that sleep for most of their time, the longest first. One of them runs beside the others.
const SLEEPING: &[&str] = &[
    "reconcile",
    "grants",
    "store",
    "several",
    "runtimes",
    "fairness",
    "events",
    "probes",
    "outage",
    "kept",
    "waiting",
];
/// The number of tests of such a file that run at once; of the others, as many as there are cores. With six, windows
/// were measured late, and with clusters of three nodes each, calls missed their deadline.
const SLEEPERS: &str = "4";

/// Runs all tests; `prepare` adds to the command of each.
pub(super) fn run_all(prepare: impl Fn(&mut Command) + Sync) -> (Vec<String>, Outcome) {
    if let Err(failed) = run(cargo(EVERYTHING).arg("--no-run")) {
        return (Vec::new(), Err(failed));
    }
    let Ok(files) = files() else { return (Vec::new(), Err(Failed)) };
    let (sleeping, busy): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|name| SLEEPING.contains(&name.as_str()));
    let part = |name| vec!["--test".to_owned(), name];
    let rest = [vec!["--lib".to_owned(), "--bins".to_owned()], vec!["--doc".to_owned()]];
    let busy = Mutex::new(busy.into_iter().map(part).chain(rest).collect::<VecDeque<_>>());
    let sleeping = Mutex::new(sleeping.into_iter().map(part).collect::<VecDeque<_>>());
    let (summary, failed) = (Mutex::default(), Mutex::<Vec<_>>::default());
    let run_one = |part: &[String]| {
        let mut command = cargo(EVERYTHING);
        command.arg("--no-fail-fast").args(part);
        if part.iter().any(|name| SLEEPING.contains(&name.as_str())) {
            command.env("RUST_TEST_THREADS", SLEEPERS);
        }
        prepare(&mut command);
        let start = Instant::now();
        let output = command.output();
        locked(&summary, |summary| {
            say(&format!("{}: {}", part.join(" "), seconds(start.elapsed())));
            print(output, summary)
        })
    };
    let work = |parts: &Mutex<VecDeque<Vec<String>>>| {
        while let Some(part) = locked(parts, VecDeque::pop_front) {
            if run_one(&part).is_err() {
                locked(&failed, |failed| failed.push(part));
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| work(&sleeping));
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                work(&busy);
                work(&sleeping);
            });
        }
    });
    // Tests that only the other files made late pass now; their first failure stays visible.
    let mut outcome = Ok(());
    for part in locked(&failed, std::mem::take) {
        say(&format!("{} failed beside others; once more, alone", part.join(" ")));
        outcome = run_one(&part).and(outcome);
    }
    (locked(&summary, std::mem::take), outcome)
}

/// Returns the names of all test files, the slowest first.
///
/// Cargo writes them as `"kind":["test"],"crate_types":["bin"],"name":"state"`, which does not justify a JSON
/// parser.
fn files() -> Result<Vec<String>, Failed> {
    let program = cargo(&[]).get_program().to_owned();
    let metadata = output(program, &["metadata", "--locked", "--no-deps", "--format-version", "1"]);
    let metadata = metadata.unwrap_or_default();
    let after = metadata.split(r#""kind":["test"]"#).skip(1);
    let named = after.filter_map(|text| text.split_once(r#""name":""#)?.1.split('"').next());
    let mut names: Vec<_> = named.map(str::to_owned).collect();
    if names.is_empty() {
        eprintln!("`cargo metadata` names no tests");
        return Err(Failed);
    }
    let first = LONGEST.iter().chain(SLEEPING);
    names.sort_by_key(|name| first.clone().position(|other| other == name).unwrap_or(usize::MAX));
    Ok(names)
}

/// Passes on what a part of the tests printed, and keeps its summary lines.
fn print(output: std::io::Result<Output>, summary: &mut Vec<String>) -> Outcome {
    let output = output.map_err(|error| {
        eprintln!("cannot run `cargo test`: {error}");
        Failed
    })?;
    // Closed streams have no reader.
    let _ = std::io::stdout().write_all(&output.stdout);
    let _ = std::io::stderr().write_all(&output.stderr);
    let lines = String::from_utf8_lossy(&output.stdout);
    let results = lines.lines().filter(|line| line.starts_with("test result:"));
    summary.extend(results.map(str::to_owned));
    if output.status.success() { Ok(()) } else { Err(Failed) }
}

fn locked<T, R>(shared: &Mutex<T>, with: impl FnOnce(&mut T) -> R) -> R {
    with(&mut shared.lock().unwrap_or_else(PoisonError::into_inner))
}
