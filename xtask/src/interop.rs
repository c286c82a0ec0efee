//! `cargo xtask interop`: the tests against Redisson itself.
//!
//! Their Java side is compiled once for each tested version of Redisson, into
//! `target/interop/<version>`.

use std::path::{Path, PathBuf};

use crate::{
    Failed, Outcome, java,
    shell::{say, target_dir},
};

/// The variable with the folder of the compiled project.
const FOLDER: &str = "RATELIMIT_INTEROP";
/// The variable with the reason why there is none, on a machine without the tools.
const ABSENT: &str = "RATELIMIT_INTEROP_ABSENT";

const PROJECT: &str = "tests/interop/java";

/// Returns the arguments of `cargo test` for the tests against Redisson, or for the chosen ones.
pub(crate) fn arguments(chosen: &[String]) -> Result<Vec<String>, Failed> {
    if let Some(problem) = missing() {
        eprintln!("{problem}");
        return Err(Failed);
    }
    let mut all: Vec<String> =
        ["--package", "tests", "--test", "interop"].map(String::from).to_vec();
    if !chosen.is_empty() {
        all.push("--".to_owned());
        all.extend_from_slice(chosen);
    }
    Ok(all)
}

/// Returns the environment in which `cargo test` finds Redisson, if its arguments select these tests.
pub(crate) fn environment(arguments: &[String]) -> Vec<(&'static str, PathBuf)> {
    if !concerned(arguments) {
        return Vec::new();
    }
    if let Some(problem) = missing() {
        say(&format!("THE TESTS AGAINST REDISSON DO NOT RUN: {problem}"));
        return vec![(ABSENT, problem.into())];
    }
    let folder = target_dir().join("interop");
    if prepare(&folder).is_err() {
        // If the tools are present, the tests must run: in CI they fail without the folder.
        say("THE TESTS AGAINST REDISSON DO NOT RUN: the Java side was not compiled");
        return Vec::new();
    }
    vec![(FOLDER, folder)]
}

/// Returns whether these arguments of `cargo test` select the tests against Redisson.
fn concerned(arguments: &[String]) -> bool {
    let chosen = |options: &[&str], wanted| {
        let values = || {
            let pairs = arguments.windows(2).filter(|pair| options.contains(&pair[0].as_str()));
            pairs.map(|pair| pair[1].as_str())
        };
        values().count() == 0 || values().any(|value| value == wanted)
    };
    chosen(&["-p", "--package"], "tests") && chosen(&["--test"], "interop")
}

fn missing() -> Option<String> {
    java::missing().map(|problem| format!("{problem} to test against Redisson"))
}

fn prepare(folder: &Path) -> Outcome {
    for version in java::versions()? {
        java::compile(PROJECT, &version, folder)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::concerned;

    #[test]
    fn only_a_choice_of_other_tests_leaves_redisson_out() {
        let chosen =
            |text: &str| concerned(&text.split_whitespace().map(String::from).collect::<Vec<_>>());
        for text in
            ["", "-p tests", "-p tests --test interop -- golden", "--test tidy --test interop"]
        {
            assert!(chosen(text), "{text}");
        }
        for text in ["-p xtask", "-p tests --test tidy", "--package ratelimit-runtime"] {
            assert!(!chosen(text), "{text}");
        }
    }
}
