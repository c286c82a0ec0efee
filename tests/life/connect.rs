//! Connections that the program opens.

use std::{
    future::pending,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use ratelimit_runtime::{Event, Limits, LimitsBuilder, Settings, StoreErrorKind};
use redis::{Client, IntoConnectionInfo, RedisResult, aio::MultiplexedConnection};
use tests::{eventually, redis_server::RedisServer};

use crate::{DEADLINE, HOUR, SECOND, quota};

async fn open(url: String) -> RedisResult<MultiplexedConnection> {
    Client::open(url)?.get_multiplexed_async_connection().await
}

fn builder() -> LimitsBuilder {
    Limits::builder().no_limits_file().deadline(DEADLINE)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_changes_is_that_of_the_next_connection() {
    let server = RedisServer::builder().user("shop", "on >monday ~* +@all").start();
    let (password, opened) = (Arc::new(Mutex::new("monday")), Arc::new(AtomicUsize::new(0)));
    let connect = {
        let (address, password, opened) = (server.url(), Arc::clone(&password), opened.clone());
        move || {
            let (address, password) = (address.clone(), *password.lock().unwrap());
            opened.fetch_add(1, Ordering::Relaxed);
            async move {
                let address = address.into_connection_info()?;
                let login = address.redis_settings().clone();
                let login = login.set_username("shop").set_password(password);
                let client = Client::open(address.set_redis_settings(login))?;
                client.get_multiplexed_async_connection().await
            }
        }
    };
    let limits = builder().redis_connect(connect).build().await.unwrap();
    let limiter = limits.limiter("x", quota(100, HOUR));
    assert_eq!(limiter.try_acquire(1).await.unwrap().remaining(), 99);
    assert!(limits.report().to_string().contains("store Redis by `redis_connect`"));
    let before = opened.load(Ordering::Relaxed);

    server.cli::<()>(&["ACL", "SETUSER", "shop", "resetpass", ">tuesday"]);
    server.cli::<i64>(&["CLIENT", "KILL", "USER", "shop"]);
    assert!(limiter.try_acquire(1).await.unwrap().is_degraded());
    let error = limits.health().store.unwrap_err().to_string();
    assert!(!error.contains("monday"), "{error}");
    *password.lock().unwrap() = "tuesday";
    eventually("the new one is used", 3 * SECOND, || limits.health().is_ok());
    assert!(!limiter.try_acquire(1).await.unwrap().is_degraded());
    assert!(opened.load(Ordering::Relaxed) > before);
}

/// Connects to the address as it is at that time.
fn connecting_to(address: &Arc<Mutex<String>>) -> LimitsBuilder {
    let address = Arc::clone(address);
    builder().redis_connect(move || open(address.lock().unwrap().clone()))
}

/// Promotes a server, and makes another one its replica.
fn follow(replica: &RedisServer, master: &RedisServer) {
    master.cli::<()>(&["REPLICAOF", "NO", "ONE"]);
    replica.cli::<()>(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
}

/// Some scripts raise the error with another code. It was taken for an outage, and the connection was kept.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_to_a_master_that_became_a_replica_is_replaced() {
    let servers = [RedisServer::start(), RedisServer::start()];
    let [first, second] = &servers;
    let address = Arc::new(Mutex::new(first.url()));
    let limits = connecting_to(&address).build().await.unwrap();
    let quota = quota(1_000_000, HOUR);
    for (name, quota) in [("window", quota), ("warm", quota.warming_bucket(SECOND).unwrap())] {
        let limiter = limits.limiter(name, quota);
        limiter.acquire(1).await.unwrap();
        for (master, replica) in [(second, first), (first, second)] {
            follow(replica, master);
            *address.lock().unwrap() = master.url();
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert!(!limiter.try_acquire(1).await.unwrap().is_degraded(), "{name}");
        }
    }
}

/// The probe had an older connection, to the former master, and opened the gate again and again.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_became_a_replica_is_not_found_on_an_older_connection_to_another_one() {
    let servers = [RedisServer::start(), RedisServer::start()];
    let [first, second] = &servers;
    let address = Arc::new(Mutex::new(first.url()));
    let found = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&found);
    let builder = connecting_to(&address).on_event(move |event| {
        seen.fetch_add(usize::from(matches!(event, Event::StoreUp { .. })), Ordering::Relaxed);
    });
    let limits = builder.build().await.unwrap();
    let limiter = limits.limiter("x", quota(1_000_000, HOUR));
    eventually("a heartbeat", 15 * SECOND, || first.cli(&["EXISTS", "ratelimit:~members"]));
    *address.lock().unwrap() = second.url();
    follow(first, second);
    assert!(!limiter.try_acquire(1).await.unwrap().is_degraded());
    // The address still leads to the second one.
    follow(second, first);
    let start = Instant::now();
    while start.elapsed() < 2 * SECOND {
        assert!(limiter.try_acquire(1).await.unwrap().is_degraded());
        tokio::time::sleep(SECOND / 50).await;
    }
    assert_eq!(found.load(Ordering::Relaxed), 0);
    *address.lock().unwrap() = first.url();
    eventually("the master is found", 3 * SECOND, || limits.health().is_ok());
    assert!(!limiter.try_acquire(1).await.unwrap().is_degraded());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_that_fails_hangs_or_panics_is_an_outage() {
    let server = RedisServer::start();
    let failures: [fn() -> RedisResult<()>; 2] =
        [|| Err(std::io::Error::other("no token").into()), || panic!("a mistake")];
    for failure in failures.into_iter().map(Some).chain([None]) {
        let works = Arc::new(AtomicBool::new(false));
        let connect = {
            let (url, works) = (server.url(), Arc::clone(&works));
            move || {
                let (url, works) = (url.clone(), works.load(Ordering::Relaxed));
                async move {
                    match failure {
                        _ if works => {}
                        Some(failure) => failure()?,
                        None => pending().await,
                    }
                    open(url).await
                }
            }
        };
        let limits = builder().redis_connect(connect).build().await.unwrap();
        let limiter = limits.limiter("x", Settings::new(quota(100, HOUR)));
        let begun = Instant::now();
        assert!(limiter.try_acquire(1).await.unwrap().is_degraded());
        assert!(begun.elapsed() < 3 * DEADLINE, "{:?}", begun.elapsed());
        let kind = limits.health().store.unwrap_err().kind();
        assert!(matches!(kind, StoreErrorKind::Unavailable | StoreErrorKind::Timeout), "{kind:?}");
        works.store(true, Ordering::Relaxed);
        eventually("it connects", 6 * SECOND, || limits.health().is_ok());
        assert!(!limiter.try_acquire(1).await.unwrap().is_degraded());
        limiter.delete().await.unwrap();
    }
}

/// The driver alone ends a call after half a second.
#[tokio::test(flavor = "multi_thread")]
async fn only_the_deadline_ends_a_call() {
    let server = RedisServer::start();
    let url = server.url();
    let limits =
        builder().deadline(Duration::from_secs(5)).redis_connect(move || open(url.clone()));
    let limits = limits.build().await.unwrap();
    let limiter = limits.limiter("x", quota(100, HOUR));
    limiter.try_acquire(1).await.unwrap();
    server.stop();
    let slow = tokio::spawn(async move { limiter.try_acquire(1).await.unwrap() });
    tokio::time::sleep(SECOND).await;
    server.cont();
    assert_eq!(slow.await.unwrap().remaining(), 98);
}

#[tokio::test]
async fn the_store_that_is_set_last_is_used() {
    let of = async |builder: LimitsBuilder| {
        let report = builder.build().await.unwrap().report().to_string();
        report.lines().next().unwrap().to_owned()
    };
    let connect = || open("redis://localhost:1".to_owned());
    let store = of(builder().redis_connect(connect).memory()).await;
    assert!(!store.contains("Redis"), "{store}");
    let store = of(builder().memory().redis_connect(connect)).await;
    assert!(store.contains("Redis by `redis_connect`"), "{store}");
    let error = builder().tls_ca("ca.pem").redis_connect(connect).build().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "`tls_ca` has no effect with `redis_connect`; trust the certificates in its function"
    );
}
