//! `cargo xtask test`: all tests, against a real Redis.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::Stdio,
    time::Instant,
};

use crate::{
    Failed, Outcome, interop,
    redis::{self, Server},
    shell::{cargo, say, seconds, target_dir},
};

/// Runs everything, or what the arguments of `cargo test` choose, on the server that `--server` names.
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

/// Runs everything, or what the arguments of `cargo test` choose, on this server.
pub(crate) fn run_on(server: &Server, arguments: &[String]) -> Outcome {
    say(&format!("{}: {}", server.binary.display(), server.version));
    let notes = target_dir().join(format!("test-notes-{}", std::process::id()));
    let _ = fs::remove_file(&notes);

    let interop = interop::environment(arguments);

    let mut command = cargo(&["test", "--locked", "--no-fail-fast"]);
    if arguments.is_empty() {
        command.args(["--workspace", "--all-features"]);
    }
    command
        .args(arguments)
        .env("REDIS_SERVER_BIN", &server.binary)
        .env("RATELIMIT_TEST_NOTES", &notes)
        // What cannot run is listed at the end.
        .env("RATELIMIT_SKIP_MISSING", "1")
        .envs(interop)
        .stdout(Stdio::piped());

    let start = Instant::now();
    let ended = stream(command);
    say(&format!("tests took {}", seconds(start.elapsed())));
    list_notes(&fs::read_to_string(&notes).unwrap_or_default());
    let _ = fs::remove_file(&notes);
    let (summary, outcome) = ended?;
    for line in summary {
        println!("{line}");
    }
    outcome
}

/// Runs the tests against Redisson, or those of them that the arguments choose.
pub(crate) fn run_interop(arguments: &[String]) -> Outcome {
    run_tests(&interop::arguments(arguments)?)
}

/// Passes on what the tests print, and gives their summary lines, to be repeated where they are
/// seen.
fn stream(mut command: std::process::Command) -> Result<(Vec<String>, Outcome), Failed> {
    let cannot = |error: std::io::Error| {
        eprintln!("cannot run `cargo test`: {error}");
        Failed
    };
    let mut child = command.spawn().map_err(cannot)?;
    let output = child.stdout.take().ok_or(Failed)?;
    let mut summary = Vec::new();
    for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line).into_owned();
        println!("{line}");
        if line.starts_with("test result:") {
            summary.push(line);
        }
    }
    let status = child.wait().map_err(cannot)?;
    Ok((summary, if status.success() { Ok(()) } else { Err(Failed) }))
}

fn list_notes(notes: &str) {
    if !notes.is_empty() {
        say("these tests could not run here:");
        eprint!("{notes}");
    }
}
