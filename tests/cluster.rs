//! A cluster of which a node hangs or dies: the limiters of the others go on.
#![allow(clippy::disallowed_methods, reason = "real servers live in real time")]

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use ratelimit_runtime::{Event, Limiter, Limits, OnDrift, OnStoreError, Quota, Reason, Settings};
use tests::{
    eventually, note, redis_cluster::RedisCluster, redis_server::RedisServer, server_version, soon,
};

const SECOND: Duration = Duration::from_secs(1);
/// Long enough for a busy machine, and shorter than any look for a node that does not answer.
const DEADLINE: Duration = Duration::from_millis(500);

/// Three masters that serve their slots without the others too.
fn cluster() -> RedisCluster {
    RedisCluster::builder().config("cluster-require-full-coverage", "no").start()
}

async fn limits(cluster: &RedisCluster) -> Limits {
    let builder = Limits::builder().redis(cluster.url()).no_limits_file().deadline(DEADLINE);
    builder.build().await.unwrap()
}

/// Twenty limiters whose keys are on this node, or on the other ones.
fn limiters(
    cluster: &RedisCluster,
    limits: &Limits,
    on_node: impl Fn(usize) -> bool,
) -> Vec<Limiter> {
    let names = (0..).map(|n| format!("key:{n}"));
    let names = names.filter(|name| on_node(cluster.master_of_key(name)));
    let quota = Quota::new(1_000_000, 60 * SECOND).unwrap();
    names.take(20).map(|name| limits.limiter(&name, quota)).collect()
}

/// The name of a limiter of the same node, and of a slot near this one.
fn near(cluster: &RedisCluster, slot: u16) -> String {
    let is_near = |name: &String| {
        let other = cluster.slot_of(name);
        other != slot
            && other / 256 == slot / 256
            && cluster.master_of(other) == cluster.master_of(slot)
    };
    (0..).map(|n| format!("near:{n}")).find(is_near).unwrap()
}

/// How many calls there were, and how many of them the store did not decide.
async fn calls(limiters: &[Limiter], during: Duration) -> (u32, u32) {
    let (start, mut all, mut degraded) = (Instant::now(), 0, 0);
    while start.elapsed() < during {
        for limiter in limiters {
            all += 1;
            degraded += u32::from(limiter.try_acquire(1).await.unwrap().is_degraded());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    (all, degraded)
}

/// Calls to all nodes for five seconds after something became of one: none of the other nodes' calls
/// may be degraded.
async fn others_go_on(cluster: &RedisCluster, becomes: impl Fn(usize)) {
    let limits = limits(cluster).await;
    let [lost, others] =
        [true, false].map(|is_lost| limiters(cluster, &limits, |node| (node == 1) == is_lost));
    assert_eq!(calls(&[&lost[..], &others[..]].concat(), SECOND / 2).await.1, 0);
    becomes(1);
    let of_lost = tokio::spawn(async move { calls(&lost, 5 * SECOND).await });
    let (all, degraded) = calls(&others, 5 * SECOND).await;
    assert_eq!(degraded, 0, "of {all} calls to nodes that are well");
    let (all, degraded) = of_lost.await.unwrap();
    assert_eq!(degraded, all, "no other node serves these slots");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_hangs_costs_the_others_nothing() {
    let cluster = cluster();
    others_go_on(&cluster, |node| cluster.node(node).stop()).await;
    cluster.node(1).cont();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_dies_costs_the_others_nothing() {
    let cluster = cluster();
    others_go_on(&cluster, |node| cluster.node(node).kill_hard()).await;
}

/// Such nodes have the host `?`, in redirections too.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_announce_no_host_name_are_reached_by_their_addresses() {
    if server_version() < (7, 0, 0) {
        return note("this server has no host names in clusters");
    }
    let builder = RedisCluster::builder();
    let cluster = builder.config("cluster-preferred-endpoint-type", "hostname").start();
    let limits = limits(&cluster).await;
    let all = limiters(&cluster, &limits, |_| true);
    assert_eq!(calls(&all, SECOND / 2).await.1, 0);
    let limiter = limiters(&cluster, &limits, |node| node == 0).remove(0);
    let slot = cluster.slot_of(limiter.name());
    cluster.start_migration(slot, 1);
    for key in ["{}", "{{}}:value", "{{}}:permits"] {
        cluster.migrate_key(&key.replace("{}", limiter.name()), 1);
    }
    let (all, degraded) = calls(std::slice::from_ref(&limiter), SECOND / 2).await;
    assert_eq!(degraded, 0, "of {all} calls while its slot moves");
    cluster.move_rest(slot, 1);
    let (all, degraded) = calls(&[limiter], SECOND / 2).await;
    assert_eq!(degraded, 0, "of {all} calls");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_takes_over_by_agreement_is_followed_at_once() {
    let cluster = RedisCluster::builder().replicas(1).start();
    let limits = limits(&cluster).await;
    let of_the_first = limiters(&cluster, &limits, |node| node == 0);
    assert_eq!(calls(&of_the_first, SECOND / 2).await.1, 0);
    let replica = RedisCluster::MASTERS;
    let calling = tokio::spawn({
        let of_the_first = of_the_first.clone();
        async move { calls(&of_the_first, 4 * SECOND).await }
    });
    tokio::time::sleep(SECOND).await;
    tokio::task::block_in_place(|| cluster.fail_over_to(replica));
    let (all, degraded) = calling.await.unwrap();
    assert_eq!(degraded, 0, "of {all} calls");
    assert_eq!(cluster.master_of_key(of_the_first[0].name()), replica);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_takes_over_from_a_dead_master_is_found() {
    let cluster = RedisCluster::builder().replicas(1).start();
    let limits = limits(&cluster).await;
    let limiters = limiters(&cluster, &limits, |node| node == 0);
    assert_eq!(calls(&limiters, SECOND / 2).await.1, 0);
    cluster.node(0).kill_hard();
    let start = Instant::now();
    while calls(&limiters, SECOND / 4).await.1 > 0 {
        assert!(start.elapsed() < 30 * SECOND, "no replica was found");
    }
    assert_eq!(cluster.master_of_key(limiters[0].name()), RedisCluster::MASTERS);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_address_and_one_login_are_enough_for_all_nodes() {
    let cluster = cluster();
    for node in cluster.nodes() {
        node.cli::<()>(&["ACL", "SETUSER", "app", "on", ">s3cr3t", "~*", "+@all"]);
    }
    // By another name than the nodes call themselves.
    let url = format!("redis-cluster://app:s3cr3t@localhost:{}", cluster.node(0).port());
    let builder = Limits::builder().redis(url).no_limits_file().deadline(DEADLINE);
    let limits = builder.build().await.unwrap();
    for node in 0..RedisCluster::MASTERS {
        let limiters = limiters(&cluster, &limits, |on| on == node);
        assert_eq!(calls(&limiters, SECOND / 10).await.1, 0, "of node {node}");
        let clients: String = cluster.node(node).cli(&["CLIENT", "LIST"]);
        assert!(clients.contains("user=app "), "{clients}");
    }
    let url = format!("redis-cluster://app:s3cr3t@localhost:{}/3", cluster.node(0).port());
    let error = Limits::builder().redis(url).no_limits_file().build().await.unwrap_err();
    let said = error.to_string();
    assert!(said.contains("cluster mode; write no database in the store's address"), "{said}");
}

/// Of a sliding window whose keys are on two nodes, no node decides.
#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_moves_costs_the_others_of_its_node_nothing() {
    let cluster = RedisCluster::start();
    let limits = limits(&cluster).await;
    let slot = cluster.slot_of("moving");
    let to = (cluster.master_of(slot) + 1) % 3;
    let near = near(&cluster, slot);
    let quota = Quota::new(1_000_000, 60 * SECOND).unwrap();
    let [moving, near] = ["moving", &near].map(|name| vec![limits.limiter(name, quota)]);
    assert_eq!(calls(&[&moving[..], &near[..]].concat(), SECOND / 2).await.1, 0);

    cluster.start_migration(slot, to);
    cluster.migrate_key("moving", to);
    let of_moving = {
        let moving = moving.clone();
        tokio::spawn(async move { calls(&moving, 3 * SECOND).await })
    };
    let (all, degraded) = calls(&near, 3 * SECOND).await;
    assert_eq!(degraded, 0, "of {all}");
    let (all, degraded) = of_moving.await.unwrap();
    assert_eq!(degraded, all, "calls of the slot");
    assert!(limits.health().is_ok(), "{:?}", limits.health());
    cluster.move_rest(slot, to);
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(calls(&[&moving[..], &near[..]].concat(), SECOND / 2).await.1, 0, "it has moved");
}

/// The other slots of the old node counted as unavailable for as long as the new one was.
#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_moves_to_a_node_out_of_reach_costs_the_others_of_its_node_nothing() {
    let cluster = RedisCluster::builder().proxied().start();
    let down = Arc::<Mutex<Vec<_>>>::default();
    let seen = Arc::clone(&down);
    let builder = Limits::builder().redis(cluster.url()).no_limits_file().deadline(DEADLINE);
    let builder = builder.on_event(move |event| {
        if let Event::StoreDown { node, .. } = event {
            seen.lock().unwrap().push(node.clone());
        }
    });
    let limits = builder.build().await.unwrap();
    let slot = cluster.slot_of("moving");
    let to = (cluster.master_of(slot) + 1) % 3;
    let near = near(&cluster, slot);
    let bucket = Quota::new(1_000_000, 60 * SECOND).unwrap().token_bucket(1_000_000).unwrap();
    let [moving, near] = ["moving", &near].map(|name| vec![limits.limiter(name, bucket)]);
    assert_eq!(calls(&[&moving[..], &near[..]].concat(), SECOND / 2).await.1, 0);

    // The nodes reach each other without the proxies.
    cluster.proxy(to).cut();
    cluster.start_migration(slot, to);
    cluster.migrate_key("moving", to);
    for moves in [true, false] {
        let of_moving = moving.clone();
        let of_moving = tokio::spawn(async move { calls(&of_moving, 2 * SECOND).await });
        let (all, degraded) = calls(&near, 2 * SECOND).await;
        assert_eq!(degraded, 0, "of {all}; the slot moves: {moves}");
        let (all, degraded) = of_moving.await.unwrap();
        assert_eq!(degraded, all, "calls of the slot; it moves: {moves}");
        if moves {
            cluster.move_rest(slot, to);
        }
    }
    cluster.proxy(to).restore();
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(calls(&[&moving[..], &near[..]].concat(), SECOND / 2).await.1, 0, "in reach");
    let (down, out_of_reach) = (down.lock().unwrap(), cluster.proxy(to).address());
    assert!(!down.is_empty());
    assert!(down.iter().all(|node| node.as_deref() == Some(&*out_of_reach)), "{down:?}");
}

/// A bucket or a fixed window has its hash alone, which is on one node.
#[tokio::test(flavor = "multi_thread")]
async fn what_has_one_key_is_decided_while_its_slot_moves() {
    let cluster = RedisCluster::start();
    let limits = limits(&cluster).await;
    let quota = Quota::new(100, 60 * SECOND).unwrap();
    let rules = [
        ("token", quota.token_bucket(50).unwrap()),
        ("leaky", Quota::new(100, SECOND).unwrap().leaky_bucket().unwrap()),
        ("fixed", Quota::new(100, 3_600 * SECOND).unwrap().fixed_window()),
    ];
    let limiters = |state: &str| {
        rules.map(|(rule, quota)| limits.limiter(&format!("{{moving}}:{rule}:{state}"), quota))
    };
    let take = async |when: &str, of: &[Limiter], left: u64| {
        for limiter in of {
            let permit = limiter.acquire(1).await.unwrap();
            assert!(!permit.is_degraded(), "{} {when}", limiter.name());
            if limiter.name().contains("fixed") {
                assert_eq!(permit.remaining(), left, "{} {when}", limiter.name());
            }
        }
    };
    let used = limiters("used");
    take("before", &used, 99).await;
    let slot = cluster.slot_of("{moving}");
    let to = (cluster.master_of(slot) + 1) % 3;
    cluster.start_migration(slot, to);
    take("while it is at its old node", &used, 98).await;
    let new = limiters("new");
    take("while it is new", &new, 99).await;
    take("while it is at its new node", &new, 98).await;
    // More than is free: it waits for a reservation.
    let (token, wait) = (&used[0], Duration::from_secs(3));
    while token.try_acquire(1).await.is_ok() {}
    assert!(!token.acquire_timeout(1, wait).await.unwrap().is_degraded());
    for limiter in &used {
        cluster.migrate_key(limiter.name(), to);
    }
    take("after it went to its new node", &used[1..], 97).await;
    assert!(!token.acquire_timeout(1, wait).await.unwrap().is_degraded());
    cluster.finish_migration(slot, to);
    take("when the slot has moved", &used[1..], 96).await;
}

/// A bucket that replaces a sliding window needs the log too.
#[tokio::test(flavor = "multi_thread")]
async fn a_rule_that_replaces_another_one_keeps_the_usage_while_the_slot_moves() {
    let cluster = RedisCluster::start();
    let (before, after) = (limits(&cluster).await, limits(&cluster).await);
    let quota = Quota::new(10, 3_600 * SECOND).unwrap();
    before.limiter("moving", quota).acquire(4).await.unwrap();
    let slot = cluster.slot_of("moving");
    let to = (cluster.master_of(slot) + 1) % 3;
    cluster.start_migration(slot, to);
    cluster.migrate_key("moving", to);
    let bucket = Settings::new(quota.token_bucket(10).unwrap())
        .on_drift(OnDrift::Carry)
        .on_store_error(OnStoreError::Reject);
    let bucket = after.limiter("moving", bucket);
    let refused = async || {
        let rejection = bucket.try_acquire(1).await.unwrap_err();
        assert_eq!(rejection.reason(), Reason::StoreUnavailable);
        rejection.to_string()
    };
    // A call that begins late on a busy machine reaches its deadline before the store names the reason.
    let mut said = refused().await;
    for _ in 0..5 {
        if said.contains("no reply within") {
            said = refused().await;
        }
    }
    assert!(said.contains("TRYAGAIN"), "{said}");
    cluster.move_rest(slot, to);
    // A call that was sent late may be granted now, and is refunded.
    let left = async || bucket.available_permits().await.unwrap();
    soon("no call has the permit", async || left().await == 6).await;
    let permit = bucket.try_acquire(1).await.unwrap();
    assert!(!permit.is_degraded());
    soon("no other call has a permit", async || left().await == 5).await;
}

/// The reply that another key is needed came after the deadline, and the call panicked.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_reply_while_a_slot_moves_ends_the_call_like_any_other() {
    let cluster = RedisCluster::builder().proxied().start();
    let (before, after) = (limits(&cluster).await, limits(&cluster).await);
    let quota = Quota::new(10, 3_600 * SECOND).unwrap();
    before.limiter("moving", quota).acquire(4).await.unwrap();
    let bucket = Settings::new(quota.token_bucket(10).unwrap()).on_drift(OnDrift::Carry);
    let bucket = after.limiter("moving", bucket.on_store_error(OnStoreError::Reject));
    // The connection that the call uses is open.
    let other = after.limiter("{moving}:other", quota);
    assert!(!other.try_acquire(1).await.unwrap().is_degraded());

    let panics = Arc::<AtomicUsize>::default();
    let (counted, usual) = (Arc::clone(&panics), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |panic| {
        let at = panic.location().map_or("", |location| location.file());
        counted.fetch_add(usize::from(at.contains("ratelimit-runtime")), Ordering::Relaxed);
        usual(panic);
    }));
    let slot = cluster.slot_of("moving");
    let (from, to) = (cluster.master_of(slot), (cluster.master_of(slot) + 1) % 3);
    cluster.start_migration(slot, to);
    cluster.migrate_key("{moving}:value", to);
    // The second reply comes after the deadline.
    cluster.proxy(from).delay(DEADLINE * 3 / 5);
    for _ in 0..3 {
        let rejection = bucket.try_acquire(1).await.unwrap_err();
        assert_eq!(rejection.reason(), Reason::StoreUnavailable);
        tokio::time::sleep(2 * DEADLINE).await;
    }
    assert_eq!(panics.load(Ordering::Relaxed), 0);
    cluster.proxy(from).restore();
    cluster.move_rest(slot, to);
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(bucket.try_acquire(1).await.unwrap().remaining(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_starts_while_a_node_hangs_limits_on_the_others() {
    let cluster = cluster();
    cluster.node(1).stop();
    let start = Instant::now();
    let limits = limits(&cluster).await;
    let others = limiters(&cluster, &limits, |node| node != 1);
    let (all, degraded) = calls(&others, SECOND).await;
    assert_eq!(
        degraded,
        0,
        "of {all} calls to nodes that are well, {:?} after the start",
        start.elapsed()
    );
    cluster.node(1).cont();
}

/// A node that left the cluster replied first, that there are no nodes.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_the_slots_of_its_cluster_is_not_believed() {
    let left = RedisServer::builder().config("cluster-enabled", "yes").start();
    let cluster = RedisCluster::builder().proxied().start();
    for node in 0..RedisCluster::MASTERS {
        cluster.proxy(node).delay(Duration::from_millis(20));
    }
    let url = format!("redis-cluster://{},{}", left.address(), cluster.addresses().join(","));
    let outages = Arc::<Mutex<Vec<Event>>>::default();
    let seen = Arc::clone(&outages);
    let builder = Limits::builder().redis(url).no_limits_file().deadline(2 * SECOND);
    let builder = builder.on_event(move |event| {
        if matches!(event, Event::StoreDown { .. }) {
            seen.lock().unwrap().push(event.clone());
        }
    });
    let limits = builder.build().await.unwrap();
    let limiters = limiters(&cluster, &limits, |_| true);
    assert_eq!(calls(&limiters, SECOND / 2).await.1, 0);
    assert!(outages.lock().unwrap().is_empty(), "{:?}", outages.lock().unwrap());

    let url = format!("redis-cluster://{}", left.address());
    let limits = Limits::builder().redis(url).no_limits_file().deadline(DEADLINE);
    let health = limits.build().await.unwrap().health().store.unwrap_err();
    assert!(health.to_string().contains("lists no slots"), "{health}");
}

/// The heartbeat, which was not executed either, closed the gate of all slots near its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_heartbeat_whose_slot_moves_costs_the_calls_of_its_node_nothing() {
    let cluster = RedisCluster::start();
    let outages = Arc::<AtomicUsize>::default();
    let seen = Arc::clone(&outages);
    let builder = Limits::builder().redis(cluster.url()).no_limits_file().deadline(2 * SECOND);
    let builder = builder.on_event(move |event| {
        seen.fetch_add(usize::from(matches!(event, Event::StoreDown { .. })), Ordering::Relaxed);
    });
    let limits = builder.build().await.unwrap();
    let members = "ratelimit:~members";
    let slot = cluster.slot_of(members);
    let (from, to) = (cluster.master_of(slot), (cluster.master_of(slot) + 1) % 3);
    eventually("a heartbeat", 10 * SECOND, || cluster.node(from).cli(&["EXISTS", members]));
    let is_near = |name: &String| {
        let other = cluster.slot_of(name);
        other != slot && other / 256 == slot / 256 && cluster.master_of(other) == from
    };
    let near = (0..).map(|n| format!("near:{n}")).find(is_near).unwrap();
    let near = limits.limiter(&near, Quota::new(1_000_000, 60 * SECOND).unwrap());
    cluster.start_migration(slot, to);
    cluster.migrate_key(members, to);
    // Longer than the interval of the heartbeats.
    let (all, degraded) = calls(&[near], 13 * SECOND).await;
    assert_eq!((degraded, outages.load(Ordering::Relaxed)), (0, 0), "of {all} calls");
    cluster.move_rest(slot, to);
}

#[tokio::test]
async fn the_address_of_a_single_server_says_how_to_write_it() {
    let server = RedisServer::start();
    let url = server.url().replacen("redis://", "redis-cluster://", 1);
    let error = Limits::builder().redis(&url).no_limits_file().build().await.unwrap_err();
    let said = error.to_string();
    // The advice had no TLS, for a cluster address with TLS.
    let advice = "in the store's address, as for any single server, or `rediss://` with TLS";
    assert!(
        said.contains("support disabled; write `redis://`") && said.ends_with(advice),
        "{said}"
    );
}
