//! A process that is forked after its limits were set up, as by a prefork server: threads stay in the parent.

use std::{
    hint::black_box,
    panic::{AssertUnwindSafe, catch_unwind},
    process::exit,
    thread,
};

use fork::{Fork, fork};
use tests::{alone::alone, eventually, redis_server::RedisServer};
use tokio::time::timeout;

use crate::world::{SECOND, current_thread, limits, park_on, quota};

/// Runs this in a fork of this process, and returns the id of that.
fn in_a_fork(body: impl FnOnce()) -> i32 {
    match fork().unwrap() {
        Fork::Parent(id) => id,
        Fork::Child => exit(i32::from(catch_unwind(AssertUnwindSafe(body)).is_err())),
    }
}

fn succeeded(id: i32) -> bool {
    fork::waitpid(id).is_ok_and(|status| status == 0)
}

/// Without a thread of its own, it waited forever.
#[test]
fn it_waits_for_permits() {
    alone("forks::it_waits_for_permits", || {
        let server = RedisServer::start();
        let runtime = current_thread();
        let limits = runtime.block_on(limits(&server.url(), ""));
        let limiter = limits.limiter("x", quota(1, SECOND));
        drop(runtime.block_on(limiter.acquire(1)).unwrap());
        drop(runtime);
        let child = in_a_fork(|| {
            // It gets the stack of a thread of the parent.
            thread::spawn(|| black_box([u8::MAX; 1 << 16])).join().unwrap();
            let runtime = current_thread();
            let wait = async { timeout(10 * SECOND, limiter.acquire(1)).await };
            assert!(!runtime.block_on(wait).unwrap().unwrap().is_degraded());
            drop(runtime);
            let waits = thread::spawn(move || park_on(limiter.acquire(1)).unwrap().is_degraded());
            eventually("a caller without a runtime", 10 * SECOND, || waits.is_finished());
            assert!(!waits.join().unwrap());
            drop(limits);
        });
        assert!(succeeded(child));
    });
}

/// Two forks gave their grants the same ids: the log had one of them, and a permit was lost.
#[test]
fn its_grants_are_its_own() {
    alone("forks::its_grants_are_its_own", || {
        let server = RedisServer::start();
        let runtime = current_thread();
        let limits = runtime.block_on(limits(&server.url(), ""));
        let limiter = limits.limiter("x", quota(6, 3 * SECOND));
        let take = || current_thread().block_on(limiter.try_acquire(1)).map(drop).unwrap();
        runtime.block_on(limiter.try_acquire(1)).map(drop).unwrap();
        let children: [i32; 2] = std::array::from_fn(|_| in_a_fork(take));
        assert!(children.map(succeeded).iter().all(|it| *it));
        let free = || runtime.block_on(limiter.available_permits()).unwrap();
        assert_eq!(free(), 3);
        eventually("all permits are free again", 6 * SECOND, || free() == 6);
    });
}
