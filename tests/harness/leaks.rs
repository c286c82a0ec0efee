//! Nothing outlives a test: neither one that panics, nor one whose process is killed.

use std::{
    env,
    io::{BufRead, BufReader},
    panic,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use rustix::process::{Pid, test_kill_process};
use tests::{eventually, redis_server::RedisServer};

#[test]
fn a_panic_takes_its_server_with_it() {
    let caught = panic::catch_unwind(|| {
        let server = RedisServer::start();
        panic::panic_any((server.pid(), server.data_dir()));
    });
    let payload = caught.expect_err("a panic");
    let (pid, dir) = payload.downcast_ref::<(u32, std::path::PathBuf)>().expect("the payload");
    assert!(!exists(*pid));
    assert!(!dir.exists());
}

#[test]
fn a_killed_test_process_takes_its_servers_with_it() {
    let mut child = Command::new(env::current_exe().expect("a test binary"))
        .args(["--exact", "leaks::starts_servers_and_waits", "--ignored", "--nocapture"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the test binary runs");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let line = lines
        .find_map(|line| line.ok()?.split_once("servers: ").map(|(_, found)| found.to_owned()))
        .expect("the servers");
    let (pids, dir) = line.split_once(' ').expect("pids and a directory");
    let pids: Vec<u32> = pids.split(',').map(|pid| pid.parse().expect("a pid")).collect();
    assert!(pids.iter().all(|pid| exists(*pid)));

    child.kill().expect("a child that runs");
    child.wait().expect("a child of ours");
    eventually("the servers are gone", Duration::from_secs(10), || {
        pids.iter().all(|pid| !exists(*pid)) && !Path::new(dir).exists()
    });
}

/// The process that is killed above. One of its servers is suspended, and so would ignore any
/// signal but one.
#[test]
#[ignore = "run by the test above"]
fn starts_servers_and_waits() {
    let (first, second) = (RedisServer::start(), RedisServer::start());
    second.stop();
    println!("servers: {},{} {}", first.pid(), second.pid(), first.data_dir().display());
    thread::sleep(Duration::from_secs(60));
}

fn exists(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process id");
    test_kill_process(pid).is_ok()
}
