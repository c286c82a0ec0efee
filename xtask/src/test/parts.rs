//! Runs all tests, a few files at once: most wait for time to pass rather than for a processor.

use std::{
    collections::VecDeque,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::{Mutex, PoisonError},
    thread,
    time::Instant,
};

use crate::{
    Failed, Outcome,
    shell::{cargo, read, say, seconds},
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

/// Some of the tests.
enum Part {
    /// A compiled test file. Cargo would wait for the builds of other tests before it starts one.
    File(File),
    /// Those that cargo finds by these arguments.
    Of(&'static [&'static str]),
}

struct File {
    name: String,
    program: PathBuf,
    /// The folder of its package.
    folder: PathBuf,
}

/// Runs all tests; `prepare` adds to the command of each.
pub(super) fn run_all(prepare: impl Fn(&mut Command) + Sync) -> (Vec<String>, Outcome) {
    let Ok(files) = build() else { return (Vec::new(), Err(Failed)) };
    let (sleeping, busy): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|file| SLEEPING.contains(&&*file.name));
    let rest = [Part::Of(&["--lib", "--bins"]), Part::Of(&["--doc"])];
    let busy = Mutex::new(busy.into_iter().map(Part::File).chain(rest).collect::<VecDeque<_>>());
    let sleeping = Mutex::new(sleeping.into_iter().map(Part::File).collect::<VecDeque<_>>());
    let (summary, failed) = (Mutex::default(), Mutex::<Vec<_>>::default());
    let run_one = |part: &Part| {
        let mut command = part.command();
        prepare(&mut command);
        let start = Instant::now();
        let output = command.output();
        locked(&summary, |summary| {
            say(&format!("{}: {}", part.name(), seconds(start.elapsed())));
            print(output, summary)
        })
    };
    let work = |parts: &Mutex<VecDeque<Part>>| {
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
        say(&format!("{} failed beside others; once more, alone", part.name()));
        outcome = run_one(&part).and(outcome);
    }
    (locked(&summary, std::mem::take), outcome)
}

impl Part {
    fn name(&self) -> String {
        match self {
            Self::File(file) => file.name.clone(),
            Self::Of(arguments) => arguments.join(" "),
        }
    }

    fn command(&self) -> Command {
        match self {
            Self::File(file) => {
                let mut command = Command::new(&file.program);
                // As cargo starts it.
                command.current_dir(&file.folder).env("CARGO_MANIFEST_DIR", &file.folder);
                if SLEEPING.contains(&&*file.name) {
                    command.env("RUST_TEST_THREADS", SLEEPERS);
                }
                command
            }
            Self::Of(arguments) => {
                let mut command = cargo(EVERYTHING);
                command.arg("--no-fail-fast").args(*arguments);
                command
            }
        }
    }
}

/// Compiles all tests, and returns the files, those that take longest first.
fn build() -> Result<Vec<File>, Failed> {
    let mut build = cargo(EVERYTHING);
    build.args(["--no-run", "--message-format", "json-render-diagnostics"]);
    let messages = read(&mut build)?;
    let mut files: Vec<_> = messages.lines().filter_map(File::read).collect();
    if files.is_empty() {
        eprintln!("cargo compiled no test files");
        return Err(Failed);
    }
    let first = LONGEST.iter().chain(SLEEPING);
    let place = |file: &File| first.clone().position(|name| file.name == *name);
    files.sort_by_key(|file| place(file).unwrap_or(usize::MAX));
    Ok(files)
}

impl File {
    /// Reads a message of cargo, whose form does not justify a JSON parser: `"manifest_path":"..","target":{
    /// "kind":["test"],..,"name":"state",..},..,"executable":".."`.
    fn read(message: &str) -> Option<Self> {
        let text = |field: &str, message: &str| {
            let (_, rest) = message.split_once(&format!(r#""{field}":""#))?;
            Some(rest.split('"').next()?.to_owned())
        };
        let (_, target) = message.split_once(r#""kind":["test"]"#)?;
        Some(Self {
            name: text("name", target)?,
            program: text("executable", target)?.into(),
            folder: Path::new(&text("manifest_path", message)?).parent()?.to_owned(),
        })
    }
}

/// Passes on what a part of the tests printed, and keeps its summary lines.
fn print(output: std::io::Result<Output>, summary: &mut Vec<String>) -> Outcome {
    let output = output.map_err(|error| {
        eprintln!("the tests cannot be run: {error}");
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
