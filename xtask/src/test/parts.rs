//! Runs all tests, a few files at once: most wait for time to pass rather than for a processor. Those that measure time
//! get a processor first.

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
/// The number of files that measure time, run at once.
const TIMED_AT_ONCE: usize = 3;
/// The number of other files run beside them, with what these leave of the processors.
const OTHERS_AT_ONCE: usize = 2;
/// The others that take longest, so that they begin first.
const LONGEST: &[&str] = &["scripts", "ui", "state"];
/// The files that fail if they get a processor late, the longest first, and the number of their tests that run at once.
/// Those with four sleep for most of their time: with six, windows were measured late, and with clusters of three nodes
/// each, calls missed their deadline.
const TIMED: &[(&str, usize)] = &[
    ("reconcile", 4),
    ("interop", 2),
    ("examples", 2),
    ("grants", 4),
    ("store", 4),
    ("crowds", 2),
    ("shares", 4),
    ("events", 4),
    ("several", 4),
    ("cluster", 2),
    ("runtimes", 4),
    ("probes", 4),
    ("fairness", 4),
    ("outage", 4),
    ("reservations", 2),
    ("joint", 2),
    ("life", 4),
    ("penalties", 4),
    ("harness", 4),
    ("coalesce", 4),
    ("client", 4),
    ("kept", 4),
    ("promises", 2),
    ("web", 2),
    ("waiting", 4),
    ("shards", 4),
];

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
    let (timed, others): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|file| file.timed().is_some());
    let rest = [Part::Of(&["--lib", "--bins"]), Part::Of(&["--doc"])];
    let others =
        Mutex::new(others.into_iter().map(Part::File).chain(rest).collect::<VecDeque<_>>());
    let timed = Mutex::new(timed.into_iter().map(Part::File).collect::<VecDeque<_>>());
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
        for _ in 0..TIMED_AT_ONCE {
            scope.spawn(|| work(&timed));
        }
        for _ in 0..OTHERS_AT_ONCE {
            scope.spawn(|| work(&others));
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
            Self::File(file) => file.command(),
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
    let first = TIMED.iter().map(|(name, _)| name).chain(LONGEST);
    let place = |file: &File| first.clone().position(|name| file.name == *name);
    files.sort_by_key(|file| place(file).unwrap_or(usize::MAX));
    Ok(files)
}

impl File {
    /// Returns the number of tests that run at once, of a file that measures time.
    fn timed(&self) -> Option<usize> {
        TIMED.iter().find(|(name, _)| self.name == *name).map(|(_, tests)| *tests)
    }

    fn command(&self) -> Command {
        let mut command = match self.timed() {
            Some(tests) => {
                let mut command = Command::new(&self.program);
                command.env("RUST_TEST_THREADS", tests.to_string());
                command
            }
            None => {
                let mut command = Command::new("nice");
                command.args(["-n", "10"]).arg(&self.program);
                command
            }
        };
        // As cargo starts it.
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command
    }

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
