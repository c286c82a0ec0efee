//! `cargo xtask ci`: the checks that a change must pass before it is merged, the fast ones first.

use std::time::Instant;

use crate::{
    Failed, Outcome, api,
    bench::instructions,
    features, oldest, redis,
    shell::{cargo, read_file, root, run, say, seconds},
    test,
};

/// The tests that run on every server: the state that scripts keep, and calls without a server.
const ON_EVERY_SERVER: &[&str] = &["state", "joint", "outage"];

pub(crate) fn run_all(arguments: &[String]) -> Outcome {
    if let Some(argument) = arguments.first() {
        eprintln!("unknown argument `{argument}`; `cargo xtask ci` takes none");
        return Err(Failed);
    }
    let start = Instant::now();
    run(&mut cargo(&["fmt", "--all", "--", "--check"]))?;
    clippy(&["--workspace", "--all-targets", "--all-features"])?;
    docs()?;
    each_feature()?;
    oldest::check()?;
    api::compare(&[])?;
    say(&format!("checks passed in {}", seconds(start.elapsed())));
    test::run_tests(&[])?;
    on_every_server()?;
    instructions::check()
}

/// Runs some of the tests on the servers other than the one that ran them all.
fn on_every_server() -> Outcome {
    let names = ON_EVERY_SERVER.iter().flat_map(|name| ["--test", name]);
    let arguments = ["--workspace", "--all-features"].into_iter().chain(names);
    let arguments: Vec<String> = arguments.map(str::to_owned).collect();
    let tested = redis::find_or_install()?;
    let mut missing = Vec::new();
    for name in redis::names() {
        match redis::named(name) {
            Ok(server) if server.version == tested.version => {}
            Ok(server) => test::run_on(&server, &arguments)?,
            Err(Failed) => missing.push(name),
        }
    }
    if !missing.is_empty() {
        say(&format!("not run, since there is no such server here: {}", missing.join(", ")));
    }
    Ok(())
}

fn clippy(what: &[&str]) -> Outcome {
    run(cargo(&["clippy", "--locked"]).args(what).args(["--", "-D", "warnings"]))
}

fn docs() -> Outcome {
    let what = ["doc", "--locked", "--workspace", "--no-deps", "--all-features"];
    run(cargo(&what).env("RUSTDOCFLAGS", "-D warnings"))
}

/// Checks the runtime with the default features, without any, and with each alone, because together they hide what
/// one of them lacks.
fn each_feature() -> Outcome {
    let text = read_file(&root().join("ratelimit-runtime/Cargo.toml"))?;
    let runtime = ["--package", "ratelimit-runtime"];
    let alone = [&runtime[..], &["--no-default-features"]].concat();
    // With its unit tests.
    clippy(&[&runtime[..], &["--all-targets"]].concat())?;
    clippy(&[&alone[..], &["--all-targets"]].concat())?;
    for feature in features::of(&text) {
        clippy(&[&alone[..], &["--features", feature]].concat())?;
    }
    // With the features in their first lines; the tests run them with all features.
    clippy(&["--package", "examples", "--examples"])
}
