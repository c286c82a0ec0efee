//! What somebody sees who runs the example `java_peer`.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use tests::redis_server::RedisServer;

use crate::redisson::{Redisson, VERSIONS};

/// Runs the example, and gives the lines it printed.
fn run(redis: &str, folder: &Path, arguments: &[&str]) -> Vec<String> {
    let output = Command::new(tests::example("java_peer"))
        .args(arguments)
        .env("REDIS_URL", redis)
        .env("RATELIMIT_INTEROP", folder)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn the_example_counts_both() {
    let newest = VERSIONS.lines().last().unwrap();
    let Some(redisson) = Redisson::find(newest) else { return };
    let server = RedisServer::start();
    let lines = run(&server.url(), redisson.folder.parent().unwrap(), &[newest, "3"]);
    let said =
        [format!("Redisson {newest} sets OVERALL 50 1000"), "Rust finds 50 per 1s".to_owned()];
    assert_eq!(lines[..2], said);
    let mut taken = (0, 0);
    for (second, line) in lines[2..].iter().enumerate() {
        // `second  1: 50 = 26 by Rust + 24 by Java`; what a busy machine tells late is in the next.
        let numbers: Vec<usize> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [.., both, rust, java] = numbers[..] else { panic!("{line}") };
        assert_eq!(rust + java, both, "{line}");
        assert!((25..=75).contains(&both), "{line}");
        taken = (taken.0 + rust, taken.1 + java);
        assert!(line.starts_with(&format!("second {:>2}: ", second + 1)), "{line}");
    }
    // Over one second either may be first to all of it.
    assert!(taken.0 > 0 && taken.1 > 0, "{lines:?}");
    assert_eq!(lines.len(), 5, "{lines:?}");
}

#[test]
fn the_example_says_what_is_missing() {
    let nowhere = Path::new("/nowhere");
    let lines = run("memory", nowhere, &[]);
    assert!(lines[0].contains("meet in Redis"), "{lines:?}");
    // The Java side takes no database.
    let lines = run("redis://127.0.0.1:1/2", nowhere, &[]);
    assert!(lines[0].contains("meet in Redis"), "{lines:?}");
    let lines = run("redis://127.0.0.1:1/0", nowhere, &[]);
    assert!(lines[0].contains("`cargo xtask interop` does it"), "{lines:?}");
    let lines = run("redis://127.0.0.1:1/", nowhere, &[]);
    assert!(lines[0].contains("`cargo xtask interop` does it"), "{lines:?}");
}
