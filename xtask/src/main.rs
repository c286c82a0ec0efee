//! Developer commands: `cargo xtask <command>`.
//!
//! Uses only the standard library, so that the first command of a fresh clone starts immediately.
#![allow(clippy::disallowed_methods, reason = "a command line says how long it took")]

use std::{env, process::ExitCode};

mod api;
mod bench;
mod ci;
mod features;
mod interop;
mod java;
mod oldest;
mod packages;
mod redis;
mod schema;
mod shell;
mod soak;
mod test;

/// A command failed and has printed the reason.
#[derive(Debug)]
struct Failed;

type Outcome = Result<(), Failed>;

struct Command {
    name: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Outcome,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "test",
        about: "runs all tests, or those that arguments of `cargo test` choose, on the server that --server names",
        run: test::run_tests,
    },
    Command {
        name: "interop",
        about: "compiles the Java side, then runs the tests against Redisson, or some of them",
        run: test::run_interop,
    },
    Command {
        name: "bench",
        about: "measures us beside our peers and writes docs/benchmarks.md; see benches/README.md",
        run: bench::run_part,
    },
    Command {
        name: "soak",
        about: "runs twenty processes that come and go for an hour, or for as many minutes as are given",
        run: soak::run_for,
    },
    Command {
        name: "schema",
        about: "writes docs/ratelimit.schema.json, the JSON schema of the limits file",
        run: schema::write,
    },
    Command {
        name: "api",
        about: "compares the public API with tests/api.txt, and checks that its docs have examples; --bless writes it",
        run: api::compare,
    },
    Command {
        name: "ci",
        about: "formatting, lints, docs, each feature alone, the oldest compiler, the public API, all tests, then instructions counted",
        run: ci::run_all,
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let named = arguments.first().map(String::as_str);
    let Some(command) = COMMANDS.iter().find(|command| Some(command.name) == named) else {
        if let Some(name) = named {
            eprintln!("unknown command `{name}`");
        }
        eprintln!("usage: cargo xtask <command>\n");
        for Command { name, about, .. } in COMMANDS {
            eprintln!("  {name:<7} {about}");
        }
        return ExitCode::from(2);
    };
    match (command.run)(&arguments[1..]) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failed) => ExitCode::FAILURE,
    }
}
