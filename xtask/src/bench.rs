//! `cargo xtask bench`: the cost of a decision, compared with our peers.
//!
//! Each part writes its figures to `target/bench`; a full run of the load writes docs/benchmarks.md
//! from all of them.

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

/// Runs the part that the first argument names, otherwise the one over Redis.
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
    // The rest is measured even if a count rose.
    let counted = instructions::count(&[]);
    load(&[])?;
    counted
}

/// Measures load on one Redis, by us and by our peers.
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

/// Measures decisions within the process, with criterion.
fn in_process(arguments: &[String]) -> Outcome {
    let server = redis::find_or_install()?;
    let mut command = cargo(&["bench", "--locked", "--package", "benches"]);
    command.args(["--bench", "in_process", "--"]).args(arguments);
    command.env("REDIS_SERVER_BIN", &server.binary);
    run(command.env("CRITERION_HOME", results().join("criterion")))?;
    run(&mut harness("in-process"))
}

/// Measures the cost of a decision of each rule within Redis.
fn scripts(arguments: &[String]) -> Outcome {
    none(arguments)?;
    let server = redis::find_or_install()?;
    run(harness("scripts").env("REDIS_SERVER_BIN", &server.binary))
}

/// Measures the memory of limiters: on the embedded store, and in Redis.
fn memory(arguments: &[String]) -> Outcome {
    none(arguments)?;
    let server = redis::find_or_install()?;
    run(harness("memory").env("REDIS_SERVER_BIN", &server.binary))
}

/// Measures the memory of many keys; each store has its own process, so that none reuses memory freed by the other.
fn growth(arguments: &[String]) -> Outcome {
    let server = redis::find_or_install()?;
    for store in ["embedded", "redis"] {
        let mut command = cargo(&["run", "--locked", "--release", "--package", "benches"]);
        command.args(["--bin", "growth", "--"]).arg(results()).arg(store).args(arguments);
        run(command.env("REDIS_SERVER_BIN", &server.binary))?;
    }
    Ok(())
}

/// Rewrites docs/benchmarks.md.
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

/// Returns the folder with the figures of every part.
fn results() -> PathBuf {
    target_dir().join("bench")
}

/// The figures of one peer, by name.
struct Row {
    what: &'static str,
    of: String,
    figures: Vec<(&'static str, f64)>,
}

/// Writes figures in the format that `benches` reads.
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
