//! `cargo xtask ci`: what has to hold before a change is merged, the quick checks first.

use std::time::Instant;

use crate::{
    Failed, Outcome, features,
    shell::{cargo, root, run, say, seconds},
    test,
};

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
    say(&format!("checks passed in {}", seconds(start.elapsed())));
    test::run_tests(&[])
}

fn clippy(what: &[&str]) -> Outcome {
    run(cargo(&["clippy", "--locked"]).args(what).args(["--", "-D", "warnings"]))
}

fn docs() -> Outcome {
    let what = ["doc", "--locked", "--workspace", "--no-deps", "--all-features"];
    run(cargo(&what).env("RUSTDOCFLAGS", "-D warnings"))
}

/// Checks the runtime without features and with each of them alone, since together they hide what
/// one of them lacks.
fn each_feature() -> Outcome {
    let manifest = root().join("ratelimit-runtime/Cargo.toml");
    let text = std::fs::read_to_string(&manifest).map_err(|error| {
        eprintln!("cannot read {}: {error}", manifest.display());
        Failed
    })?;
    let alone = ["--package", "ratelimit-runtime", "--no-default-features"];
    clippy(&alone)?;
    for feature in features::of(&text) {
        clippy(&[&alone[..], &["--features", feature]].concat())?;
    }
    Ok(())
}
