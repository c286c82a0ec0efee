//! The memory of limiters of the embedded store: the resident set of this process, read in a way that
//! only Linux has.

use std::fs;

use crate::{
    embedded::{USERS, install, of_user, ready},
    results::Results,
};

/// Uses many keys once each, and notes what they took: at first as many as are remembered, then
/// ten times as many others in the same second or two.
///
/// # Panics
///
/// Panics if there is no `/proc`.
pub fn measure() -> Results {
    let _limits = install();
    let mut results = Results::now("cargo xtask bench memory", &[]);
    let use_once = |id| drop(ready(of_user(id)));
    use_once(0);
    let before = resident();
    for (from, to, load) in [(1, USERS, "100_000"), (USERS, 11 * USERS, "1_100_000")] {
        (from..to).for_each(use_once);
        let bytes = resident() - before;
        results.add(load, "keys", &[("bytes", bytes), ("each", bytes / to as f64)]);
    }
    results
}

pub(crate) fn resident() -> f64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux tells of a process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().split(' ').next()?.parse::<f64>().ok());
    kib.expect("a process has a resident set") * 1024.0
}
