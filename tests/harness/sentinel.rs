use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use tests::{eventually, redis_sentinel::RedisSentinel};

/// A Sentinel that was held up for two seconds does nothing for another thirty.
const LONG: Duration = Duration::from_secs(90);

#[test]
fn a_failover_keeps_the_data_and_makes_the_old_master_follow() {
    let started = Instant::now();
    let group = RedisSentinel::start();
    eprintln!("1 + 1 + 3 sentinels: {:?}", started.elapsed());
    let old = group.master().port();
    assert_eq!(old, group.servers()[0].port());
    group.master().cli::<()>(&["set", "key", "value"]);
    let started = Instant::now();
    group.failover();
    eprintln!("failover: {:?}", started.elapsed());
    let [follower] = group.replicas()[..] else { panic!("one replica") };
    assert_eq!(follower.port(), old);
    assert_eq!(group.master().cli::<String>(&["get", "key"]), "value");
    let refused = follower.try_cli::<()>(&["set", "key", "other"]);
    assert_eq!(crate::code(refused).as_deref(), Some("READONLY"));
}

#[test]
fn a_killed_master_is_replaced() {
    let group = RedisSentinel::builder().down_after(Duration::from_millis(500)).start();
    let old = group.master();
    let started = Instant::now();
    old.kill_hard();
    group.wait_for_another_master(old.port());
    eprintln!("killed master replaced: {:?}", started.elapsed());
    group.master().cli::<()>(&["set", "key", "value"]);
}

#[test]
fn a_cut_off_master_goes_on_alone() {
    let group = RedisSentinel::builder().master_behind_proxy().start();
    let old = &group.servers()[0];
    assert_eq!(group.master().port(), old.port());
    old.cli::<()>(&["set", "key", "both"]);
    let new = &group.servers()[1];
    let copied = || new.cli::<Option<String>>(&["get", "key"]).is_some();
    eventually("the value is replicated", LONG, copied);
    group.proxy().cut();
    for sentinel in group.sentinels() {
        let master = ["sentinel", "master", RedisSentinel::MASTER_NAME];
        eventually("a sentinel loses the master", LONG, || {
            sentinel.cli::<HashMap<String, String>>(&master)["flags"].contains("disconnected")
        });
    }
    // Forced: sentinels that replace a silent master soon replace the new one of a busy machine, too.
    group.promote();
    // Two masters, and neither knows.
    old.cli::<()>(&["set", "key", "old"]);
    new.cli::<()>(&["set", "key", "new"]);
    group.proxy().restore();
    eventually("the old master follows", LONG, || old.info("role") == "slave");
}
