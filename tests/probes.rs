//! How a process looks for a server that is slow or refuses writes, and what operators hear of it.
#![allow(clippy::disallowed_methods, reason = "real servers live in real time")]

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use ratelimit_runtime::{Event, Limits, Quota, Reason};
use tests::{
    Lateness, eventually,
    ports::Port,
    proxy::{Proxy, Then},
    redis_cluster::RedisCluster,
    redis_sentinel::RedisSentinel,
    redis_server::RedisServer,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

const SECOND: Duration = Duration::from_secs(1);

/// The outages that limits reported: `true` for the start of one.
#[derive(Clone, Default)]
struct Outages(Arc<Mutex<Vec<bool>>>);

impl Outages {
    async fn limits(&self, url: &str, deadline: Duration) -> Limits {
        let outages = self.clone();
        let limits = Limits::builder().redis(url).no_limits_file().deadline(deadline);
        let limits = limits.on_event(move |event| match event {
            Event::StoreDown { .. } => outages.0.lock().unwrap().push(true),
            Event::StoreUp { .. } => outages.0.lock().unwrap().push(false),
            _ => {}
        });
        limits.build().await.unwrap()
    }

    fn seen(&self) -> Vec<bool> {
        self.0.lock().unwrap().clone()
    }
}

/// Calls a limiter of a new key every few milliseconds. Returns how many calls were degraded.
async fn traffic(limits: &Limits, length: Duration) -> (usize, usize) {
    let start = Instant::now();
    let (mut degraded, mut all) = (0, 0);
    while start.elapsed() < length {
        let quota = Quota::new(100_000, 60 * SECOND).unwrap();
        let limiter = limits.limiter(&format!("key:{all}"), quota);
        degraded += usize::from(limiter.try_acquire(1).await.unwrap().is_degraded());
        all += 1;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    (degraded, all)
}

/// 173 events in five seconds: the probe was a command that a full server does not refuse.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_is_one_outage() {
    let server = RedisServer::start();
    let outages = Outages::default();
    let limits = outages.limits(&server.url(), SECOND).await;
    let _: String = server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let (degraded, all) = traffic(&limits, 5 * SECOND).await;
    assert_eq!(degraded, all);
    assert_eq!(outages.seen(), [true]);
    let _: String = server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    eventually("the server is found", 3 * SECOND, || outages.seen() == [true, false]);
    assert_eq!(traffic(&limits, SECOND).await.0, 0);
}

/// The gate opened three to four times a second: a probe waited for longer than a call may.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_answers_after_the_deadline_is_one_outage() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let outages = Outages::default();
    let limits = outages.limits(&proxy.url(), Duration::from_millis(150)).await;
    assert_eq!(traffic(&limits, SECOND / 2).await.0, 0);
    proxy.delay(Duration::from_millis(400));
    let (degraded, all) = traffic(&limits, 5 * SECOND).await;
    assert_eq!(degraded, all);
    assert_eq!(outages.seen(), [true]);
    proxy.restore();
    eventually("the server is found", 4 * SECOND, || outages.seen() == [true, false]);
}

/// A server that comes and goes is reported when it goes for the first time, and then rarely.
#[tokio::test(flavor = "multi_thread")]
async fn a_flapping_server_is_reported_once() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let outages = Outages::default();
    let limits = outages.limits(&proxy.url(), Duration::from_millis(150)).await;
    for _ in 0..12 {
        proxy.cut();
        traffic(&limits, SECOND / 4).await;
        proxy.restore();
        traffic(&limits, SECOND / 4).await;
    }
    assert!(outages.seen().len() <= 2, "{:?}", outages.seen());
    // It is found for all that.
    let start = Instant::now();
    while traffic(&limits, SECOND / 10).await.0 > 0 {
        assert!(start.elapsed() < 3 * SECOND);
    }
}

/// Each time, three probes had to fail on the lost connection. They were rare by the second time, and it took seconds.
#[tokio::test(flavor = "multi_thread")]
async fn connections_that_a_firewall_drops_again_and_again_are_soon_replaced() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let outages = Outages::default();
    let limits = outages.limits(&proxy.url(), SECOND / 5).await;
    for _ in 0..4 {
        proxy.forget_connections();
        let start = Instant::now();
        assert_eq!(traffic(&limits, SECOND / 100).await, (1, 1));
        while traffic(&limits, SECOND / 100).await.0 > 0 {
            assert!(start.elapsed() < 5 * SECOND / 2, "no connection was opened");
        }
    }
    assert!(outages.seen().len() <= 2, "{:?}", outages.seen());
}

/// Only when ten seconds had passed since the recovery was it reported again.
#[tokio::test(flavor = "multi_thread")]
async fn an_outage_soon_after_a_long_one_is_reported_at_once() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let outages = Outages::default();
    let limits = outages.limits(&proxy.url(), SECOND).await;
    proxy.cut();
    traffic(&limits, 11 * SECOND).await;
    proxy.restore();
    eventually("the server is found", 5 * SECOND, || outages.seen() == [true, false]);
    proxy.cut();
    let cut = Instant::now();
    while outages.seen() != [true, false, true] {
        traffic(&limits, SECOND / 10).await;
        assert!(cut.elapsed() < 5 * SECOND, "{:?}", outages.seen());
    }
    proxy.restore();
    eventually("it is found again", 5 * SECOND, || outages.seen().len() == 4);
}

/// A dead node of a cluster holds a third of the slots: one outage, not one for each gate.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_node_of_a_cluster_is_one_outage() {
    let cluster = RedisCluster::start();
    let outages = Outages::default();
    let limits = outages.limits(&cluster.url(), SECOND / 2).await;
    assert_eq!(traffic(&limits, SECOND / 2).await.0, 0);
    cluster.nodes()[1].kill_hard();
    // The cluster refuses all calls by then, heartbeats among them.
    let (degraded, all) = traffic(&limits, 10 * SECOND).await;
    assert!(degraded > 0 && degraded < all, "{degraded} of {all}");
    assert_eq!(outages.seen(), [true]);
}

/// The probe waited two seconds for a connection to the node that hangs.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_takes_over_from_a_master_that_hangs_is_found_by_the_next_probe() {
    let cluster = RedisCluster::builder().replicas(1).node_timeout(60 * SECOND).start();
    let outages = Outages::default();
    let deadline = Duration::from_millis(300);
    let limits = outages.limits(&cluster.url(), deadline).await;
    let on_first = |name: &String| cluster.master_of_key(name) == 0;
    let name = (0..).map(|n| format!("key:{n}")).find(on_first).unwrap();
    let limiter = limits.limiter(&name, Quota::new(100_000, 60 * SECOND).unwrap());
    assert!(!limiter.try_acquire(1).await.unwrap().is_degraded());
    cluster.node(0).stop();
    assert!(limiter.try_acquire(1).await.unwrap().is_degraded());
    // A probe is on its way.
    tokio::time::sleep(deadline * 2 / 3).await;
    let replica = cluster.node(RedisCluster::MASTERS);
    let _: () = replica.cli(&["CLUSTER", "FAILOVER", "TAKEOVER"]);
    let start = Instant::now();
    while limiter.try_acquire(1).await.unwrap().is_degraded() {
        assert!(start.elapsed() < SECOND, "the replica was not found");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(outages.seen(), [true, false]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_of_a_node_is_reported_with_its_address_and_slots() {
    let cluster = RedisCluster::builder().config("cluster-require-full-coverage", "no").start();
    let events = Arc::<Mutex<Vec<Event>>>::default();
    let seen = Arc::clone(&events);
    let builder = Limits::builder().redis(cluster.url()).no_limits_file().deadline(2 * SECOND);
    let on_event = move |event: &Event| seen.lock().unwrap().push(event.clone());
    let limits = builder.on_event(on_event).build().await.unwrap();
    let quota = Quota::new(100_000, 60 * SECOND).unwrap();
    let limiters: Vec<_> = (0..60).map(|n| limits.limiter(&format!("key:{n}"), quota)).collect();
    let is_dead: Vec<bool> =
        limiters.iter().map(|limiter| cluster.master_of_key(limiter.name()) == 1).collect();
    for limiter in &limiters {
        limiter.try_acquire(1).await.unwrap();
    }
    eventually("a busy machine is quick enough", 20 * SECOND, || limits.health().is_ok());
    events.lock().unwrap().clear();
    cluster.node(1).kill_hard();
    let start = Instant::now();
    while start.elapsed() < 5 * SECOND {
        for (limiter, is_dead) in limiters.iter().zip(&is_dead) {
            let is_degraded = limiter.try_acquire(1).await.unwrap().is_degraded();
            assert!(*is_dead || !is_degraded, "{limiter:?} is on another node");
        }
    }
    let of_outages = || {
        let events = events.lock().unwrap();
        let outages = events
            .iter()
            .filter(|event| matches!(event, Event::StoreDown { .. } | Event::StoreUp { .. }));
        outages.cloned().collect::<Vec<_>>()
    };
    let address = cluster.addresses()[1].clone();
    let reported = of_outages();
    let [Event::StoreDown { node: Some(node), slots: Some(slots), .. }] = &reported[..] else {
        panic!("{reported:?}");
    };
    assert_eq!((&**node, &**slots), (&*address, "5461-10921"));
    let text = reported[0].to_string();
    let expected =
        format!("rate limit store is unavailable for slots 5461-10921 ({address}): redis: ");
    assert!(text.starts_with(&expected), "{text}");

    cluster.node(1).restart();
    eventually("it is found", 15 * SECOND, || of_outages().len() > 1);
    let reported = of_outages();
    let expected = format!("rate limit store is available again for slots 5461-10921 ({address})");
    assert_eq!(reported[1..].iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
    for limiter in &limiters {
        assert!(!limiter.try_acquire(1).await.unwrap().is_degraded());
    }
}

/// The event was a refused connection to an address that no one had written, or a timeout.
#[tokio::test(flavor = "multi_thread")]
async fn an_announced_address_out_of_reach_is_reported_with_what_to_set() {
    let cluster = RedisCluster::start();
    let nowhere = Port::reserve().number().to_string();
    let announce = ["CONFIG", "SET", "cluster-announce-port", &nowhere];
    let _: () = cluster.node(0).cli(&announce);
    eventually("all nodes know it", 20 * SECOND, || {
        let knows = |node: &RedisServer| {
            node.cli::<String>(&["CLUSTER", "NODES"]).contains(&format!(":{nowhere}@"))
        };
        cluster.nodes().iter().all(knows)
    });
    cluster.node(1).stop();
    let down = Arc::<Mutex<Vec<String>>>::default();
    let seen = Arc::clone(&down);
    let builder = Limits::builder().redis(cluster.url()).no_limits_file();
    let builder = builder.on_event(move |event| seen.lock().unwrap().push(event.to_string()));
    builder.build().await.unwrap();
    cluster.node(1).cont();
    let down = down.lock().unwrap();
    let of = |port: String| down.iter().find(|text| text.contains(&format!(":{port})"))).unwrap();
    assert!(of(nowhere).contains("; if clients reach this node at another address, make it"));
    let hangs = of(cluster.node(1).port().to_string());
    assert!(!hangs.contains("announce"), "an address of the store is known to be right: {hangs}");
}

/// The probe uses keys of the call that failed. As long as the server refused those to the user, all calls were rejected.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_found_by_a_user_that_may_not_access_the_keys_of_the_call_that_failed() {
    let rules = "on >secret +@all ~ratelimit-check* ~{ratelimit-check* ~mine* ~{mine*";
    let server = RedisServer::builder().user("app", rules).start();
    for calls_another in [true, false] {
        let outages = Outages::default();
        let limits = outages.limits(&server.url_for("app", "secret"), SECOND).await;
        let quota = Quota::new(100, 60 * SECOND).unwrap();
        let limiter = |name| limits.limiter(name, quota);
        assert!(!limiter("mine").try_acquire(1).await.unwrap().is_degraded());
        server.kill_hard();
        // Otherwise the heartbeat fails first.
        if calls_another {
            assert!(limiter("another").try_acquire(1).await.unwrap().is_degraded());
        }
        eventually("it is missed", 15 * SECOND, || outages.seen() == [true]);
        server.restart();
        eventually("it is found", 3 * SECOND, || outages.seen() == [true, false]);
        assert!(!limiter("mine").try_acquire(1).await.unwrap().is_degraded());
        let rejection = limiter("another").try_acquire(1).await.unwrap_err();
        assert_eq!(rejection.reason(), Reason::StoreMisconfigured, "{rejection}");
    }
}

/// The driver's text alone was reported: a line for each byte that it did not expect.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_another_protocol_is_reported_in_one_line() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("redis://{}", listener.local_addr().unwrap());
    let web = tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            client.read_u8().await.unwrap();
            client.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        }
    });
    let limits = Outages::default().limits(&address, SECOND).await;
    let error = limits.health().store.unwrap_err().to_string();
    assert_eq!(error.lines().count(), 1, "{error}");
    let advice =
        "; this is not a reply of a Redis server, correct the host and port in the store URL";
    assert!(error.starts_with("redis: ") && error.ends_with(advice), "{error}");
    web.abort();
}

/// The driver waited a second for its reply before it asked the next one, again for each connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_sentinel_that_hangs_delays_no_connection() {
    let group = RedisSentinel::start();
    group.sentinels()[0].stop();
    let (outages, machine) = (Outages::default(), Lateness::of_threads());
    let begun = Instant::now();
    let limits = outages.limits(&group.url(), SECOND * 3 / 4).await;
    machine.assert_within(SECOND * 3 / 4, begun);
    let limiter = limits.limiter("x", Quota::new(100_000, 60 * SECOND).unwrap());
    for _ in 0..3 {
        assert!(!limiter.try_acquire(1).await.unwrap().is_degraded());
        let _: i64 = group.servers()[0].cli(&["CLIENT", "KILL", "TYPE", "normal"]);
        tokio::time::sleep(SECOND / 20).await;
    }
    assert!(outages.seen().is_empty());
}

/// Startup asks the server whether it evicts keys; a server that is away then, or does not answer that
/// question, is asked later. A question without an answer was the last one.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_may_evict_is_reported_once_even_if_it_was_away_at_the_start() {
    let server = RedisServer::builder().config("maxmemory-policy", "allkeys-lru").start();
    let proxy = Proxy::start(server.port());
    let warned = Arc::new(Mutex::new(0));
    let limits = || {
        let warned = Arc::clone(&warned);
        let limits = Limits::builder().redis(proxy.url()).no_limits_file().deadline(SECOND);
        let limits = limits.on_event(move |event| {
            *warned.lock().unwrap() += u32::from(matches!(event, Event::EvictionPossible { .. }));
        });
        limits.build()
    };
    let present = limits().await.unwrap();
    assert_eq!(*warned.lock().unwrap(), 1);
    server.stop();
    let _absent = limits().await.unwrap();
    assert_eq!(*warned.lock().unwrap(), 1, "it is away");
    server.cont();
    eventually("it is asked", 15 * SECOND, || *warned.lock().unwrap() == 2);
    proxy.swallow_replies_to("INFO", 1, Then::Cut);
    let _unanswered = limits().await.unwrap();
    assert_eq!(*warned.lock().unwrap(), 2, "the reply is lost");
    eventually("it is asked again", 15 * SECOND, || *warned.lock().unwrap() == 3);
    tokio::time::sleep(3 * SECOND).await;
    assert_eq!(*warned.lock().unwrap(), 3);
    drop(present);
}

/// Only the node of one key was asked.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_a_cluster_that_may_evict_is_reported_whichever_it_is() {
    let cluster = RedisCluster::start();
    let policy = |node: usize, policy: &str| {
        cluster.node(node).cli::<String>(&["CONFIG", "SET", "maxmemory-policy", policy])
    };
    for node in 0..RedisCluster::MASTERS {
        policy(node, "allkeys-lru");
        let reported = Arc::new(Mutex::new(Vec::new()));
        let events = Arc::clone(&reported);
        let limits = Limits::builder().redis(cluster.url()).no_limits_file();
        let limits = limits.on_event(move |event| {
            if let Event::EvictionPossible { policy, .. } = event {
                events.lock().unwrap().push(policy.clone());
            }
        });
        let _limits = limits.build().await.unwrap();
        assert_eq!(*reported.lock().unwrap(), ["allkeys-lru"], "of node {node}");
        policy(node, "noeviction");
    }
}

/// The protocol had no effect.
#[tokio::test]
async fn a_protocol_in_the_address_is_that_of_the_connections() {
    let server = RedisServer::start();
    for (query, hellos) in [("?protocol=resp2", 0), ("?protocol=resp3", 1), ("", 1)] {
        let _: () = server.cli(&["CONFIG", "RESETSTAT"]);
        let builder = Limits::builder().redis(server.url() + query).no_limits_file();
        let limits = builder.build().await.unwrap();
        let limiter = limits.limiter("x", Quota::new(100, SECOND).unwrap());
        assert!(!limiter.try_acquire(1).await.unwrap().is_degraded());
        assert_eq!(server.calls("hello").min(1), hellos, "{query}");
    }
}
