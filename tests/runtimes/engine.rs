//! The engine: one thread, started when first needed, which limits on a shared store do at once, and
//! ended with the last clone of its limits.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use ratelimit_runtime::{Event, Limits, Reason, rate_limit};
use tests::{alone::alone, eventually, redis_server::RedisServer};
use tokio::{task::JoinSet, time::timeout};

use crate::world::{HOUR, SECOND, current_thread, limits, ms, park_on, quota};

fn engines() -> usize {
    let names = fs::read_dir("/proc/self/task").unwrap().filter_map(Result::ok);
    let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).ok();
    names.filter_map(name).filter(|name| name.trim() == "ratelimit").count()
}

/// Connections to the server, without the one that asks.
fn connections(server: &RedisServer) -> usize {
    let mut connection = server.connect().unwrap();
    let clients: String = redis::cmd("CLIENT").arg("LIST").query(&mut connection).unwrap();
    clients.lines().count() - 1
}

/// A thread takes a moment to get its name, and to end.
fn runs() {
    eventually("the engine runs", 5 * SECOND, || engines() == 1);
}

fn ended() {
    eventually("the engine has ended", 5 * SECOND, || engines() == 0);
}

#[test]
fn it_ends_with_the_last_limits() {
    alone("engine::it_ends_with_the_last_limits", || {
        let server = RedisServer::start();
        let runtime = current_thread();
        let limits = runtime.block_on(limits(&server.url(), ""));
        let limiter = limits.limiter("x", quota(100, HOUR));
        assert!(!runtime.block_on(limiter.try_acquire(1)).unwrap().is_degraded());
        // It sends heartbeats, and a runtime makes its own calls.
        runs();
        assert_eq!(connections(&server), 1);
        assert!(!park_on(limiter.try_acquire(1)).unwrap().is_degraded());
        assert!(!park_on(limiter.try_acquire(1)).unwrap().is_degraded());
        assert_eq!(connections(&server), 2, "and the engine those of callers without one");
        drop(limits);
        assert_eq!(engines(), 1, "the limiter is a clone of its limits");
        drop(limiter);
        ended();
    });
}

#[test]
fn limits_that_nobody_used_leave_no_thread() {
    alone("engine::limits_that_nobody_used_leave_no_thread", || {
        let memory = || Limits::builder().memory().no_limits_file();
        let runtime = current_thread();
        for _ in 0..10 {
            drop(runtime.block_on(memory().build()).unwrap());
        }
        drop(park_on(memory().build()).unwrap());
        ended();
    });
}

#[test]
fn it_ends_although_it_looks_for_a_server_or_watches_a_file() {
    alone("engine::it_ends_although_it_looks_for_a_server_or_watches_a_file", || {
        let server = RedisServer::start();
        let file = std::env::temp_dir().join(format!("engine-{}.yaml", std::process::id()));
        fs::write(&file, "limiters: { x: { rate: 5, per: 1m } }\n").unwrap();
        let reloads = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&reloads);
        let builder = Limits::builder().redis(server.url()).limits_file(&file).watch(ms(10));
        let builder = builder.on_event(move |event| {
            seen.fetch_add(usize::from(matches!(event, Event::Reloaded)), Ordering::SeqCst);
        });
        let runtime = current_thread();
        let limits = runtime.block_on(builder.build()).unwrap();
        runs();
        server.kill_hard();
        assert!(runtime.block_on(limits.configured("x").try_acquire(1)).unwrap().is_degraded());
        // The runtime that set the limits up is not driven; the file is watched all the same.
        fs::write(&file, "limiters: { x: { rate: 7, per: 1m } }\n").unwrap();
        eventually("the file is read again", 3 * SECOND, || reloads.load(Ordering::SeqCst) > 0);
        drop(limits);
        ended();
        fs::remove_file(&file).unwrap();
    });
}

#[test]
fn it_ends_when_the_limits_are_shut_down() {
    alone("engine::it_ends_when_the_limits_are_shut_down", || {
        let server = RedisServer::start();
        let runtime = current_thread();
        let limits = runtime.block_on(limits(&server.url(), ""));
        let limiter = limits.limiter("x", quota(1, HOUR));
        assert!(!runtime.block_on(limiter.try_acquire(1)).unwrap().is_degraded());
        runs();
        // A caller without a runtime waits by the engine's.
        let waits = std::thread::spawn({
            let limiter = limiter.clone();
            move || park_on(limiter.acquire(1)).map(drop)
        });
        std::thread::sleep(ms(100));
        runtime.block_on(limits.shutdown());
        let rejection = waits.join().unwrap().unwrap_err();
        assert_eq!(rejection.reason(), Reason::StoreUnavailable);
        ended();
        eventually("all connections are closed", SECOND, || {
            runtime.block_on(tokio::task::yield_now());
            connections(&server) == 0
        });
        assert!(park_on(limiter.try_acquire(1)).is_err());
        park_on(limits.shutdown());
        ended();
    });
}

#[rate_limit(key = "jobs", rate = 5, per = "1s")]
async fn job() {}

/// It started the thread again, which then stayed until the limits were dropped.
#[test]
fn a_wait_that_goes_on_after_the_shutdown_leaves_no_thread() {
    alone("engine::a_wait_that_goes_on_after_the_shutdown_leaves_no_thread", || {
        let server = RedisServer::start();
        let runtime = current_thread();
        let limits = runtime.block_on(limits(&server.url(), ""));
        let mut waiting = JoinSet::new();
        (0..15).for_each(|_| drop(waiting.spawn_on(limits.scope(job()), runtime.handle())));
        runtime.block_on(async {
            tokio::time::sleep(ms(100)).await;
            limits.shutdown().await;
            waiting.join_all().await;
        });
        ended();
        for _ in 0..6 {
            park_on(limits.scope(job()));
        }
        ended();
    });
}

/// They stayed until the limits were dropped.
#[test]
fn a_shutdown_that_is_dropped_ends_the_thread_and_the_connections() {
    alone("engine::a_shutdown_that_is_dropped_ends_the_thread_and_the_connections", || {
        let server = RedisServer::start();
        let runtime = current_thread();
        let limits = runtime.block_on(limits(&server.url(), ""));
        let limiter = limits.limiter("x", quota(5, HOUR));
        let permit = runtime.block_on(limiter.acquire(2)).unwrap();
        server.stop();
        permit.record(1);
        drop(permit);
        let shutdown = async { timeout(ms(20), limits.shutdown()).await };
        assert!(runtime.block_on(shutdown).is_err(), "the server does not reply");
        server.cont();
        ended();
        eventually("all connections are closed", SECOND, || {
            runtime.block_on(tokio::task::yield_now());
            connections(&server) == 0
        });
        let another = runtime.block_on(crate::world::limits(&server.url(), ""));
        let another = another.limiter("x", quota(5, HOUR));
        assert_eq!(
            runtime.block_on(another.available_permits()).unwrap(),
            4,
            "the refund was sent"
        );
    });
}
