//! Where, with what and when it was measured.

use std::{fmt::Write, fs, process::Command, thread};

use super::Measured;

pub(super) fn describe(measured: &Measured) -> String {
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let mut lines = vec![
        ("machine", format!("{}, {cores} cores, {}", cpu(), memory())),
        ("kernel", format!("Linux {}", read("/proc/sys/kernel/osrelease").trim())),
        ("rustc", rustc()),
        ("governor", locked("governor")),
        ("redis-rs", locked("redis")),
    ];
    for (name, head) in [
        ("redis-server", "redis-server"),
        ("redisson", "redisson"),
        ("jvm", "jvm"),
        ("busy", "load average before"),
    ] {
        let mut facts = measured.0.iter().flat_map(|(_, results)| &results.facts);
        // The last run is the one that counts where they differ.
        if let Some((_, fact)) = facts.rfind(|(other, _)| other == name) {
            lines.push((head, fact.clone()));
        }
    }
    let mut text = "| | |\n|---|---|\n".to_owned();
    for (name, value) in lines {
        writeln!(text, "| {name} | {value} |").expect("a string takes what is written");
    }
    text += "\n| part | run at | by |\n|---|---|---|\n";
    for (name, results) in &measured.0 {
        let (ran, command) = (&results.ran, &results.command);
        writeln!(text, "| {name} | {ran} | `{command}` |").expect("a string takes what is written");
    }
    text
}

fn cpu() -> String {
    let info = read("/proc/cpuinfo");
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    model.map_or("unknown processor".to_owned(), |(_, model)| model.to_owned())
}

fn memory() -> String {
    let info = read("/proc/meminfo");
    let total = info.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|total| total.split_whitespace().next()?.parse::<f64>().ok());
    format!("{:.0} GiB", kib.unwrap_or(0.0) / 1024.0 / 1024.0)
}

fn rustc() -> String {
    let version = Command::new("rustc").arg("--version").output();
    let version = version.map(|version| String::from_utf8_lossy(&version.stdout).into_owned());
    version.unwrap_or_default().trim().trim_start_matches("rustc ").to_owned()
}

/// The version of a package that `Cargo.lock` names.
fn locked(package: &str) -> String {
    let lock = include_str!("../../../Cargo.lock");
    let name = format!("name = \"{package}\"\nversion = \"");
    let version = lock.split_once(&name).and_then(|(_, rest)| rest.split_once('"'));
    version.map_or("unknown".to_owned(), |(version, _)| version.to_owned())
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}
