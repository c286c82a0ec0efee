use std::{
    sync::LazyLock,
    time::{Duration, Instant},
};

use tests::{redis_cluster::RedisCluster, server_version};

/// Starting one takes seconds; tests that harm it start their own.
static SHARED: LazyLock<RedisCluster> = LazyLock::new(|| {
    let started = Instant::now();
    let cluster = RedisCluster::start();
    eprintln!("cluster of 3: {:?}", started.elapsed());
    cluster
});

#[test]
fn slots_are_shared_and_foreign_keys_redirected() {
    let cluster = &*SHARED;
    for index in 0..RedisCluster::MASTERS {
        let key = key_of(cluster, index);
        cluster.node(index).cli::<()>(&["set", &key, "value"]);
        let other = (index + 1) % RedisCluster::MASTERS;
        let error = cluster.node(other).try_cli::<()>(&["set", &key, "value"]).expect_err("moved");
        assert_eq!(error.code(), Some("MOVED"));
        let expected = (cluster.node(index).address(), cluster.slot_of(&key));
        let (address, slot) = error.redirect_node().expect("where to");
        assert_eq!((address.to_owned(), slot), expected);
    }
}

#[test]
fn a_slot_can_be_moved_step_by_step() {
    let cluster = &*SHARED;
    let (one, two) = ("{moving}1", "{moving}2");
    let slot = cluster.slot_of(one);
    let from = cluster.master_of(slot);
    let to = (from + 1) % RedisCluster::MASTERS;
    cluster.node(from).cli::<()>(&["mset", one, "1", two, "2"]);

    cluster.start_migration(slot, to);
    cluster.migrate_key(one, to);
    let code = |keys: &[&str]| {
        let command = [&["mget"], keys].concat();
        crate::code(cluster.node(from).try_cli::<redis::Value>(&command))
    };
    assert_eq!(code(&[one]).as_deref(), Some("ASK"));
    let of_both = if server_version() >= (7, 0, 0) { "TRYAGAIN" } else { "ASK" };
    assert_eq!(code(&[one, two]).as_deref(), Some(of_both));
    cluster.migrate_key(two, to);
    cluster.finish_migration(slot, to);
    assert_eq!(cluster.master_of_key(one), to);
    assert_eq!(code(&[one]).as_deref(), Some("MOVED"));

    cluster.move_slot(slot, from);
    assert_eq!(cluster.node(from).cli::<Vec<String>>(&["mget", one, two]), ["1", "2"]);
}

#[test]
fn with_a_master_gone_the_cluster_is_down() {
    let cluster = RedisCluster::builder().node_timeout(Duration::from_millis(500)).start();
    cluster.node(0).kill_hard();
    let key = key_of(&cluster, 1);
    tests::eventually("the cluster is down", Duration::from_secs(10), || {
        let answer = cluster.node(1).try_cli::<Option<String>>(&["get", &key]);
        crate::code(answer).as_deref() == Some("CLUSTERDOWN")
    });
    // A member still: its slots are in a file beside the data.
    cluster.node(0).restart();
    cluster.wait_until_ok();
}

#[test]
fn replicas_take_over_and_proxies_are_what_clients_are_told() {
    let started = Instant::now();
    let cluster = RedisCluster::builder().replicas(1).proxied().start();
    eprintln!("cluster of 3 + 3 behind proxies: {:?}", started.elapsed());
    let key = key_of(&cluster, 2);
    let error = cluster.node(0).try_cli::<()>(&["set", &key, "1"]).expect_err("moved");
    let told = error.redirect_node().map(|(address, _)| address.to_owned());
    assert_eq!(told, Some(cluster.proxy(2).address()));

    cluster.node(2).cli::<()>(&["set", &key, "1"]);
    let replica = RedisCluster::MASTERS + 2;
    cluster.fail_over_to(replica);
    tests::eventually("the others know", Duration::from_secs(10), || {
        cluster.master_of_key(&key) == replica
    });
    assert_eq!(cluster.node(replica).cli::<String>(&["get", &key]), "1");
}

/// A key that this master serves.
fn key_of(cluster: &RedisCluster, index: usize) -> String {
    let mut keys = (0..).map(|n| format!("key{n}"));
    keys.find(|key| cluster.master_of_key(key) == index).expect("every master has slots")
}
