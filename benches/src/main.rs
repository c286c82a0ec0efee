//! The harness behind `cargo xtask bench`.
#![allow(clippy::print_stderr, clippy::print_stdout, reason = "a command line says what it does")]

use std::{
    io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use benches::{
    criterion, memory, report, scripts,
    workloads::{Bench, NAMES, Plan},
};

const USAGE: &str = "usage: cargo xtask bench [--quick] [--only <workload>,..]";

/// The parsed command line.
#[derive(Debug, Default)]
struct Wanted {
    results: PathBuf,
    quick: bool,
    only: Option<String>,
    redisson: Option<(String, PathBuf)>,
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let part = arguments.next().unwrap_or_default();
    let wanted = match read(arguments) {
        Ok(wanted) => wanted,
        Err(problem) => {
            eprintln!("{problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&part, wanted) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot write the results: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(part: &str, wanted: Wanted) -> io::Result<()> {
    let results = wanted.results.clone();
    if part == "memory" {
        let mut measured = memory::measure();
        scripts::add_memory(&mut measured);
        return measured.write(&results, "memory");
    }
    if part == "scripts" {
        return scripts::measure().write(&results, "scripts");
    }
    if part == "in-process" {
        return criterion::results(&results.join("criterion")).write(&results, "in_process");
    }
    // Results of a trial run are not published.
    let tried = wanted.quick || wanted.only.is_some();
    if part == "load" {
        load(wanted);
    }
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("docs");
    let folder = if tried { results.clone() } else { docs };
    println!("{}", report::write(&results, &folder)?);
    eprintln!("{} is written", folder.join("benchmarks.md").display());
    Ok(())
}

fn read(mut arguments: impl Iterator<Item = String>) -> Result<Wanted, String> {
    let mut wanted = Wanted::default();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("`{argument}` needs a value"));
        match &*argument {
            "--results" => wanted.results = value()?.into(),
            "--quick" => wanted.quick = true,
            "--only" => wanted.only = Some(value()?),
            "--redisson" => wanted.redisson = Some((value()?, value()?.into())),
            _ => return Err(format!("unknown argument `{argument}`")),
        }
    }
    for name in wanted.only.iter().flat_map(|only| only.split(',')) {
        if !NAMES.contains(&name) {
            return Err(format!("unknown workload `{name}`; there are {}", NAMES.join(", ")));
        }
    }
    Ok(wanted)
}

/// Runs the workloads on two threads, which leaves the machine one for Redis.
fn load(wanted: Wanted) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let plan = if wanted.quick { Plan::QUICK } else { Plan::FULL };
        let command = command(&wanted);
        let mut bench = Bench::start(plan, wanted.redisson, wanted.results, command).await;
        for name in NAMES {
            let only = wanted.only.as_ref();
            if only.is_none_or(|only| only.split(',').any(|chosen| chosen == *name)) {
                bench.run(name).await;
            }
        }
    });
}

/// Returns the command that reproduces these results.
fn command(wanted: &Wanted) -> String {
    let mut command = "cargo xtask bench".to_owned();
    if wanted.quick {
        command += " --quick";
    }
    if let Some(only) = &wanted.only {
        command = format!("{command} --only {only}");
    }
    command
}
