//! `cargo xtask test`: all tests, against a real Redis.

mod parts;

use std::{fs, process::Command, time::Instant};

use crate::{
    Failed, Outcome, interop,
    redis::{self, Server},
    shell::{cargo, run, say, seconds, target_dir},
};

/// Runs all tests, or those selected by the arguments of `cargo test`, on the server named by `--server`.
pub(crate) fn run_tests(arguments: &[String]) -> Outcome {
    match arguments {
        [option, name, arguments @ ..] if option == "--server" => {
            run_on(&redis::named(name)?, arguments)
        }
        [option] if option == "--server" => {
            let names: Vec<_> = redis::names().collect();
            eprintln!("`--server` needs a name; write one of {}", names.join(", "));
            Err(Failed)
        }
        _ => run_on(&redis::find_or_install()?, arguments),
    }
}

/// Runs all tests, or those selected by the arguments of `cargo test`, on this server.
pub(crate) fn run_on(server: &Server, arguments: &[String]) -> Outcome {
    say(&format!("{}: {}", server.binary.display(), server.version));
    let notes = target_dir().join(format!("test-notes-{}", std::process::id()));
    let _ = fs::remove_file(&notes);

    let interop = interop::environment(arguments);
    let prepare = |command: &mut Command| {
        command
            .env("REDIS_SERVER_BIN", &server.binary)
            .env("RATELIMIT_TEST_NOTES", &notes)
            // Tests that cannot run are listed at the end.
            .env("RATELIMIT_SKIP_MISSING", "1")
            .envs(interop.iter().cloned());
    };

    let start = Instant::now();
    let (summary, outcome) = if arguments.is_empty() {
        parts::run_all(prepare)
    } else {
        let mut command = cargo(&["test", "--locked", "--no-fail-fast"]);
        prepare(command.args(arguments));
        (Vec::new(), run(&mut command))
    };
    say(&format!("tests took {}", seconds(start.elapsed())));
    list_notes(&fs::read_to_string(&notes).unwrap_or_default());
    let _ = fs::remove_file(&notes);
    // Repeated at the end, where they are visible.
    for line in summary {
        println!("{line}");
    }
    outcome
}

/// Runs the tests against Redisson, or those selected by the arguments.
pub(crate) fn run_interop(arguments: &[String]) -> Outcome {
    run_tests(&interop::arguments(arguments)?)
}

fn list_notes(notes: &str) {
    if !notes.is_empty() {
        say("these tests could not run here:");
        eprint!("{notes}");
    }
}
