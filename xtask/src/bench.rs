//! `cargo xtask bench`: what a decision costs, beside our peers.
//!
//! Each part leaves its figures in `target/bench`; docs/benchmarks.md is written from all that lie
//! there.

use std::path::PathBuf;

use crate::{
    Failed, Outcome, java, redis,
    shell::{cargo, run, say, target_dir},
};

const JAVA: &str = "benches/java";

struct Part {
    name: &'static str,
    run: fn(&[String]) -> Outcome,
}

const PARTS: &[Part] = &[Part { name: "load", run: load }];

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

/// Load on one Redis, by us and by our peers.
fn load(arguments: &[String]) -> Outcome {
    let server = redis::find_or_install()?;
    let mut command = harness("load");
    command.args(arguments).env("REDIS_SERVER_BIN", &server.binary);
    match java::missing() {
        Some(problem) => say(&format!("REDISSON IS LEFT OUT: {problem}")),
        None => {
            let version = java::versions()?.pop().unwrap_or_default();
            let classes = java::compile(JAVA, &version, &target_dir().join("bench/java"))?;
            command.args(["--redisson", &version]).arg(classes);
        }
    }
    run(&mut command)
}

/// A command of the crate `benches`.
fn harness(name: &str) -> std::process::Command {
    let mut command = cargo(&["run", "--locked", "--release", "--package", "benches", "--", name]);
    command.arg("--results").arg(results());
    command
}

/// Where every part leaves its figures.
fn results() -> PathBuf {
    target_dir().join("bench")
}
