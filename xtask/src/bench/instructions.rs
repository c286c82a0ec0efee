//! `cargo xtask bench instructions`: instructions of a decision, compared with the committed
//! baseline.

use std::{env, fs, path::PathBuf, process::Stdio};

use super::{Row, results, write_results};
use crate::{
    Failed, Outcome,
    packages::{self, Package},
    shell::{cargo, is_bless, on_path, output, root, run, say, write_file},
};

/// The runner must have the same version as the library.
const RUNNER: &str = "gungraun-runner";
const VERSION: &str = "0.20.0";

const BASELINE: &str = "benches/instructions.txt";
/// The tolerated rise of counts, in percent: a different memory layout is no regression.
const TOLERANCE: u64 = 5;
/// How often all are counted at most; the least count is compared.
const ATTEMPTS: u32 = 4;
/// Calls of each benchmark.
const CALLS: u64 = 100;

const HEAD: &str = "\
# Instructions of a decision within the process, by callgrind; a compiler or a processor
# of another kind counts otherwise.
# Written by `cargo xtask bench instructions --bless`.
";

const VALGRIND: Package = Package { apt: "valgrind", apk: "valgrind", dnf: "valgrind" };
const NO_VALGRIND: &str = "no `valgrind` found or installed; install it to count instructions";

/// Counts as part of CI. Outside of CI, a machine without valgrind is no failure.
pub(crate) fn check() -> Outcome {
    if env::var_os("CI").is_none() && !has_valgrind() {
        say(&format!("INSTRUCTIONS ARE NOT COUNTED: {NO_VALGRIND}"));
        return Ok(());
    }
    count(&[])
}

fn has_valgrind() -> bool {
    on_path("valgrind").is_some() || (packages::install(&VALGRIND) && on_path("valgrind").is_some())
}

/// Counts, and fails if a count rose; `--bless` makes the counts the new baseline.
pub(super) fn count(arguments: &[String]) -> Outcome {
    let bless = is_bless(arguments)?;
    if !has_valgrind() {
        eprintln!("{NO_VALGRIND}");
        return Err(Failed);
    }
    let runner = runner()?;
    let mut counts = counted(&runner)?;
    let path = root().join(BASELINE);
    let baseline = fs::read_to_string(&path).unwrap_or_default();
    let before = |name: &str| {
        let lines = baseline.lines().filter_map(|line| line.split_once(' '));
        lines.filter(|(other, _)| *other == name).find_map(|(_, count)| count.parse().ok())
    };
    // What is renewed as time passes is a part of the calls if a busy machine made them slow: with each millisecond that
    // begins meanwhile, two of them take a lock.
    let risen = |(name, now): &(String, u64)| before(name).is_some_and(|before| rose(before, *now));
    for _ in 1..ATTEMPTS {
        if bless || !counts.iter().any(risen) {
            break;
        }
        for (least, (_, again)) in counts.iter_mut().zip(counted(&runner)?) {
            least.1 = least.1.min(again);
        }
    }
    let figures = |name: &str, now: u64| {
        let before: u64 = before(name).unwrap_or(now);
        vec![("now", now as f64), ("before", before as f64)]
    };
    let rows: Vec<_> = counts
        .iter()
        .map(|(name, now)| Row {
            what: "instructions",
            of: name.clone(),
            figures: figures(name, *now),
        })
        .collect();
    write_results("instructions", "cargo xtask bench instructions", &rows)?;
    if bless {
        let lines = counts.iter().map(|(name, count)| format!("{name} {count}\n"));
        let text = HEAD.to_owned() + &lines.collect::<String>();
        return write_file(&path, &text);
    }
    compare(&counts, before)
}

fn compare(counts: &[(String, u64)], before: impl Fn(&str) -> Option<u64>) -> Outcome {
    let mut outcome = Ok(());
    for (name, now) in counts {
        let Some(before) = before(name) else {
            eprintln!("{name}: {now} instructions; add it to {BASELINE} with `--bless`");
            outcome = Err(Failed);
            continue;
        };
        println!("{name}: {now} instructions, {before} before");
        if rose(before, *now) {
            let percent = (*now as f64 / before as f64 - 1.0) * 100.0;
            eprintln!(
                "{name} rose by {percent:.1} %, from {before} to {now} instructions, and {TOLERANCE} % \
                 is allowed; make it cheaper, or accept it with `cargo xtask bench instructions --bless`"
            );
            outcome = Err(Failed);
        }
    }
    outcome
}

fn rose(before: u64, now: u64) -> bool {
    now * 100 > before * (100 + TOLERANCE)
}

/// Runs the benchmarks, and returns the instructions of a call by name.
fn counted(runner: &PathBuf) -> Result<Vec<(String, u64)>, Failed> {
    let mut command = cargo(&["bench", "--locked", "--package", "benches"]);
    command.args(["--bench", "instructions"]);
    command.env("GUNGRAUN_RUNNER", runner).env("GUNGRAUN_COLOR", "never");
    // Containers do not let a program disable address randomization.
    command.env("GUNGRAUN_ALLOW_ASLR", "yes");
    say("cargo bench --package benches --bench instructions");
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| {
        eprintln!("cannot run cargo: {error}");
        Failed
    })?;
    let text = String::from_utf8_lossy(&output.stdout);
    let counts = read(&text);
    if !output.status.success() || counts.is_empty() {
        eprintln!("{text}\nno instructions were counted: {}", output.status);
        return Err(Failed);
    }
    if let Some((name, _)) = counts.iter().find(|(_, count)| *count == 0) {
        eprintln!(
            "{name}: no instructions were counted; build with symbols, `CARGO_PROFILE_BENCH_STRIP=none`"
        );
        return Err(Failed);
    }
    Ok(counts)
}

/// Reads names and counts from the output of gungraun: `file::group::function id:(..)`, then
/// `Instructions: now|before`.
fn read(text: &str) -> Vec<(String, u64)> {
    let mut counts = Vec::new();
    let mut name = None;
    for line in text.lines() {
        if let Some(path) = line.strip_prefix("instructions::") {
            let words = path.split([':', ' ', '(']).filter(|word| !word.is_empty());
            name = Some(words.skip(1).take(2).collect::<Vec<_>>().join("::"));
        } else if let Some(count) = line.trim_start().strip_prefix("Instructions:") {
            let count = count.trim_start().split('|').next();
            let count = count.and_then(|count| count.parse::<u64>().ok());
            counts.extend(name.take().zip(count.map(|count| count / CALLS)));
        }
    }
    counts
}

/// Returns the runner, and installs it into the target directory if it is missing.
fn runner() -> Result<PathBuf, Failed> {
    let folder = results().join("tools");
    let runner = folder.join("bin").join(RUNNER);
    let said = output(&runner, &["--version"]);
    if said.is_none_or(|version| !version.ends_with(VERSION)) {
        // An unoptimized build is much faster and sufficient: the runner starts valgrind and reads files.
        let mut install = cargo(&["install", RUNNER, "--version", VERSION, "--locked", "--debug"]);
        install.arg("--root");
        run(install.arg(&folder).arg("--target-dir").arg(folder.join("build")))?;
        let _ = fs::remove_dir_all(folder.join("build"));
    }
    Ok(runner)
}

#[cfg(test)]
mod tests {
    use super::{read, rose};

    #[test]
    fn counts_are_those_of_a_call() {
        let text = "\
instructions::decisions::embedded grant:(granting())
  Instructions:             254861|254861          (No change)
  L1 Hits:                  382608|382608          (No change)
instructions::decisions::call_site fixed:(called())
  Instructions:             299678|N/A             (*********)
";
        let counts = [("embedded::grant".to_owned(), 2548), ("call_site::fixed".to_owned(), 2996)];
        assert_eq!(read(text), counts);
    }

    #[test]
    fn a_rise_of_a_twentieth_is_none() {
        assert!(!rose(1000, 1050));
        assert!(rose(1000, 1051));
    }
}
