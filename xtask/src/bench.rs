//! `cargo xtask bench`: what a decision costs, beside our peers.
//!
//! Each part leaves its figures in `target/bench`; a full run of the load writes docs/benchmarks.md
//! from all that lie there.

use std::{fmt::Write, fs, path::PathBuf, process::Command};

use crate::{
    Failed, Outcome, java, redis,
    shell::{cargo, output, run, say, target_dir},
};

mod compile;
pub(crate) mod instructions;

const JAVA: &str = "benches/java";

struct Part {
    name: &'static str,
    run: fn(&[String]) -> Outcome,
}

const PARTS: &[Part] = &[
    Part { name: "load", run: load },
    Part { name: "in-process", run: in_process },
    Part { name: "scripts", run: scripts },
    Part { name: "memory", run: memory },
    Part { name: "growth", run: growth },
    Part { name: "instructions", run: instructions::count },
    Part { name: "compile", run: compile::measure },
    Part { name: "report", run: report },
    Part { name: "all", run: all },
];

/// Runs the part that is named first, else the one over Redis.
pub(crate) fn run_part(arguments: &[String]) -> Outcome {
    match arguments.split_first() {
        Some((name, rest)) if !name.starts_with('-') => {
            let Some(part) = PARTS.iter().find(|part| part.name == name) else {
                let names: Vec<_> = PARTS.iter().map(|part| part.name).collect();
                eprintln!("unknown part `{name}`; there are {}", names.join(", "));
                return Err(Failed);
            };
            (part.run)(rest)
        }
        _ => load(arguments),
    }
}

fn all(arguments: &[String]) -> Outcome {
    none(arguments)?;
    compile::measure(&[])?;
    in_process(&[])?;
    scripts(&[])?;
    memory(&[])?;
    growth(&[])?;
    // If a count rose, the rest is still measured.
    let counted = instructions::count(&[]);
    load(&[])?;
    counted
}

/// Load on one Redis, by us and by our peers.
fn load(arguments: &[String]) -> Outcome {
    let server = redis::find_or_install()?;
    let mut command = harness("load");
    command.args(arguments).env("REDIS_SERVER_BIN", &server.binary);
    match java::missing() {
        Some(problem) => say(&format!("REDISSON IS LEFT OUT: {problem}")),
        None => {
            let version = java::versions()?.pop().unwrap_or_default();
            let classes = java::compile(JAVA, &version, &results().join("java"))?;
            command.args(["--redisson", &version]).arg(classes);
        }
    }
    run(&mut command)
}

/// Decisions within the process, by criterion.
fn in_process(arguments: &[String]) -> Outcome {
    let server = redis::find_or_install()?;
    let mut command = cargo(&["bench", "--locked", "--package", "benches"]);
    command.args(["--bench", "in_process", "--"]).args(arguments);
    command.env("REDIS_SERVER_BIN", &server.binary);
    run(command.env("CRITERION_HOME", results().join("criterion")))?;
    run(&mut harness("in-process"))
}

/// What a decision of each rule takes within Redis.
fn scripts(arguments: &[String]) -> Outcome {
    none(arguments)?;
    let server = redis::find_or_install()?;
    run(harness("scripts").env("REDIS_SERVER_BIN", &server.binary))
}

/// What limiters take in memory: on the embedded store, and in Redis.
fn memory(arguments: &[String]) -> Outcome {
    none(arguments)?;
    let server = redis::find_or_install()?;
    run(harness("memory").env("REDIS_SERVER_BIN", &server.binary))
}

/// What many keys take; each store has a process of its own, so that none finds memory that the other freed.
fn growth(arguments: &[String]) -> Outcome {
    none(arguments)?;
    let server = redis::find_or_install()?;
    for part in ["growth-embedded", "growth-redis"] {
        run(harness(part).env("REDIS_SERVER_BIN", &server.binary))?;
    }
    Ok(())
}

/// Writes docs/benchmarks.md anew.
fn report(arguments: &[String]) -> Outcome {
    none(arguments)?;
    run(&mut harness("report"))
}

/// A command of the crate `benches`.
fn harness(name: &str) -> Command {
    let mut command = cargo(&["run", "--locked", "--release", "--package", "benches", "--", name]);
    command.arg("--results").arg(results());
    command
}

/// Where every part leaves its figures.
fn results() -> PathBuf {
    target_dir().join("bench")
}

/// What was measured of whom, by name.
struct Row {
    what: &'static str,
    of: String,
    figures: Vec<(&'static str, f64)>,
}

/// Writes figures down as `benches` reads them.
fn write_results(name: &str, command: &str, rows: &[Row]) -> Outcome {
    let ran = output("date", &["-u", "+%Y-%m-%d %H:%M UTC"]).unwrap_or_default();
    let mut text = format!("ran {ran}\ncommand {command}\n");
    for Row { what, of, figures } in rows {
        write!(text, "row {what} {of}").expect("a string takes what is written");
        for (name, figure) in figures {
            write!(text, " {name}={figure}").expect("a string takes what is written");
        }
        text.push('\n');
    }
    let file = results().join(name).with_extension("txt");
    let written = fs::create_dir_all(results()).and_then(|()| fs::write(&file, text));
    written.map_err(|error| {
        eprintln!("cannot write {}: {error}", file.display());
        Failed
    })
}

fn none(arguments: &[String]) -> Outcome {
    match arguments.first() {
        None => Ok(()),
        Some(argument) => {
            eprintln!("unknown argument `{argument}`; this part takes none");
            Err(Failed)
        }
    }
}
