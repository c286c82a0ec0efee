//! Every compile error, word for word: `ui/<kind>/<mistake>.rs`, and beside it what rustc says. What compiles is
//! in `passing` and `loose`, and checked as the programs of a package: to run it, all dependencies would
//! have to be built.
//!
//! `TRYBUILD=overwrite cargo test -p tests-compile` writes the `.stderr` files anew. They hold the
//! words of the pinned toolchain; another one may print its own part differently.

#[path = "ui/editions.rs"]
mod editions;
#[path = "ui/features.rs"]
mod features;
#[path = "ui/packages.rs"]
mod packages;
#[path = "ui/shop.rs"]
mod shop;

use std::env;
use std::path::Path;
use std::process::Command;

/// The cases of one run of the compiler.
const CASES: &str = "RATELIMIT_UI_CASES";

const LIMITS: &str = "RATELIMIT_LIMITS";

/// Which cases see which limits file.
const RUNS: [(&str, Option<&str>); 8] = [
    ("ui/signature/*.rs", None),
    ("ui/arguments/*.rs", None),
    ("ui/values/*.rs", None),
    ("ui/limits/*.rs", None),
    ("ui/types/*.rs", None),
    ("ui/limits_file/strict/*.rs", Some("ui/limits_file/strict/ratelimit.yaml")),
    ("ui/limits_file/broken/*.rs", Some("ui/limits_file/broken/ratelimit.yaml")),
    ("ui/limits_file/missing/*.rs", Some("ui/limits_file/missing/ratelimit.yaml")),
];

#[test]
fn every_mistake_is_told_word_for_word() {
    let here = env::current_exe().expect("the path of this test");
    for (cases, limits) in RUNS {
        let mut run = Command::new(&here);
        run.args(["--exact", "cases", "--ignored", "--nocapture"])
            .env(CASES, cases)
            // They are never debugged.
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env_remove(LIMITS);
        if let Some(limits) = limits {
            run.env(LIMITS, Path::new(env!("CARGO_MANIFEST_DIR")).join(limits));
        }
        let output = run.output().expect("this test can be run again");
        let told =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{cases}:\n{told}");
    }
}

#[test]
#[ignore = "run by the test above, once for each limits file: a process has one environment"]
fn cases() {
    let Ok(cases) = env::var(CASES) else {
        println!("nothing to compile: `{CASES}` is not set");
        return;
    };
    trybuild::TestCases::new().compile_fail(cases);
}
