//! Calls that wait for more than one limiter.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
};

use tokio::{
    task::{JoinHandle, JoinSet},
    time::{sleep, timeout},
};

use tests::window::worst_window;

use super::*;

/// A call of both limiters, which waits for the first. Meanwhile another call takes what the second one has.
async fn moved(limits: &Limits, how: impl AsyncFn(&Limiter) -> bool) -> bool {
    let first = limits.limiter("first", quota(1, SECOND * 3 / 10));
    let second = limits.limiter("second", quota(1, SECOND));
    first.try_acquire(1).await.unwrap();
    let both = first.and(second.clone());
    let (done, ()) = tokio::join!(timeout(5 * SECOND, how(&both)), async {
        sleep(SECOND / 10).await;
        second.try_acquire(1).await.unwrap();
    });
    done.unwrap()
}

#[tokio::test]
async fn a_call_that_another_limiter_delays_too_is_admitted() {
    let server = RedisServer::start();
    let real = Limits::builder().memory().no_limits_file();
    for limits in [real, on_redis(&server)] {
        let limits = limits.build().await.unwrap();
        assert!(moved(&limits, async |both| both.acquire(1).await.is_ok()).await);
    }
}

#[tokio::test]
async fn its_time_limit_still_holds() {
    let limits = Limits::builder().memory().no_limits_file().build().await.unwrap();
    for (ms, admitted) in [(700, false), (1_500, true)] {
        let at_most = Duration::from_millis(ms);
        let done = moved(&limits, async |both| both.acquire_timeout(1, at_most).await.is_ok());
        assert_eq!(done.await, admitted, "within {at_most:?}");
        sleep(2 * SECOND).await;
    }
}

/// Callers of each bucket alone and of both, in two processes. When all have left, each bucket is free as soon as
/// what the queues reserved ahead has passed. Returns the number of grants, too.
async fn left_behind(server: &RedisServer, one: Quota, other: Quota) -> (u64, Vec<String>) {
    let (mut calls, mut processes) = (JoinSet::new(), Vec::new());
    let grants = Arc::new(AtomicU64::new(0));
    for _ in 0..2 {
        let limits = on_redis(server).build().await.unwrap();
        let (one, other) = (limits.limiter("one", one), limits.limiter("other", other));
        let both = one.clone().and(other.clone());
        for limiter in [one.clone(), other.clone(), both.clone(), both] {
            let grants = Arc::clone(&grants);
            calls.spawn(async move {
                loop {
                    limiter.acquire(1).await.unwrap();
                    grants.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        processes.push((limits, one, other));
    }
    sleep(6 * SECOND).await;
    calls.shutdown().await;
    sleep(2 * SECOND).await;
    let mut late = Vec::new();
    for limiter in [&processes[0].1, &processes[0].2] {
        if let Err(rejection) = limiter.peek(1).await {
            late.push(format!("{} for {:?}", limiter.name(), rejection.retry_after()));
        }
    }
    (grants.load(Ordering::Relaxed), late)
}

#[tokio::test(flavor = "multi_thread")]
async fn reservations_beside_calls_of_two_buckets_are_not_lost() {
    let server = RedisServer::start();
    let other = quota(6, SECOND * 7 / 10).token_bucket(6).unwrap();
    let one = quota(8, SECOND * 4 / 10);
    for one in [one.leaky_bucket().unwrap(), one.token_bucket(8).unwrap()] {
        let (grants, late) = left_behind(&server, one, other).await;
        println!("{grants} grants");
        assert!(late.is_empty(), "no call has permits of {late:?}");
        assert!(grants >= 80, "{grants} grants, of about 180");
        let _: String = server.cli(&["FLUSHALL"]);
    }
}

/// Callers of both buckets get their turn beside those of one.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_two_buckets_gets_its_turn() {
    let server = RedisServer::start();
    let real = Limits::builder().memory().no_limits_file();
    for limits in [real, on_redis(&server)] {
        let limits = limits.build().await.unwrap();
        let one = limits.limiter("one", quota(10, SECOND).leaky_bucket().unwrap());
        let other = limits.limiter("other", quota(10, SECOND).token_bucket(2).unwrap());
        let count = |limiter: Limiter| -> JoinHandle<u32> {
            tokio::spawn(async move {
                let mut admitted = 0;
                let all = async {
                    loop {
                        limiter.acquire(1).await.unwrap();
                        admitted += 1;
                    }
                };
                let _ = timeout(4 * SECOND, all).await;
                admitted
            })
        };
        let alone: Vec<_> = (0..2).map(|_| count(one.clone())).collect();
        let both: Vec<_> = (0..2).map(|_| count(one.clone().and(other.clone()))).collect();
        let mut counts = Vec::new();
        for call in alone.into_iter().chain(both) {
            counts.push(call.await.unwrap());
        }
        println!("{counts:?}");
        assert!(counts.iter().all(|admitted| *admitted >= 6), "{counts:?} of 40");
        assert!(counts.iter().sum::<u32>() >= 34, "{counts:?} of 40");
    }
}

/// Each queue canceled the slot of the call behind it, asked, and sent the call to the other queue: for ever
/// where time is paused, and without a pause until the permits were free elsewhere.
#[test]
fn a_call_does_not_go_back_and_forth_between_two_queues() {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let limits = Limits::builder().memory().no_limits_file().build().await.unwrap();
            let bucket = |name, per| limits.limiter(name, quota(1, per).token_bucket(1).unwrap());
            let (first, second) = (bucket("first", SECOND / 2), bucket("second", SECOND * 7 / 10));
            let both = first.clone().and(second.clone());
            both.try_acquire(1).await.unwrap();
            let start = tokio::time::Instant::now();
            // The call of both waits for the second limiter, which is then free later, but before the first is with
            // the slots of the calls that wait for that one alone.
            let alone = async { tokio::join!(first.acquire(1), first.acquire(1)) };
            let charged = async {
                sleep(SECOND / 10).await;
                second.charge(1).await
            };
            let (both, (one, other), charged) = tokio::join!(both.acquire(1), alone, charged);
            both.and(one).and(other).unwrap();
            charged.unwrap();
            sender.send(start.elapsed()).unwrap();
        });
    });
    let waited = receiver.recv_timeout(20 * SECOND).expect("both are admitted");
    assert!(waited <= 2 * SECOND, "{waited:?}");
}

/// A call of both limiters waits for the first one, until 300 ms from now. Meanwhile the second one, of 10 permits per
/// 3 seconds, is used up, so that one of its permits is free in 500 ms and the others after that; and callers of it
/// begin to wait.
async fn overtakes(limits: &Limits, others: &[u64], at_most: Duration) -> (bool, Duration) {
    let (first, second) = (quota(1, SECOND * 3 / 10), quota(10, 3 * SECOND));
    let (first, second) = (limits.limiter("first", first), limits.limiter("second", second));
    second.try_acquire(1).await.unwrap();
    sleep(SECOND * 5 / 2).await;
    first.try_acquire(1).await.unwrap();
    let start = tokio::time::Instant::now();
    let both = first.and(second.clone());
    let both = tokio::spawn(async move { both.acquire_timeout(1, at_most).await.is_ok() });
    sleep(SECOND / 20).await;
    second.try_acquire(9).await.unwrap();
    let mut waiting = JoinSet::new();
    for permits in others.iter().copied() {
        let second = second.clone();
        waiting.spawn(async move { second.acquire(permits).await.unwrap() });
        sleep(SECOND / 100).await;
    }
    let admitted = both.await.unwrap();
    (admitted, start.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_moved_to_the_head_of_a_queue_does_not_wait_as_long_as_the_next_one() {
    let limits = Limits::builder().memory().no_limits_file().build().await.unwrap();
    let (admitted, waited) = overtakes(&limits, &[10], 10 * SECOND).await;
    assert!(admitted && waited <= SECOND * 6 / 10, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_moved_does_not_wait_for_later_callers() {
    let limits = Limits::builder().memory().no_limits_file().build().await.unwrap();
    let (admitted, waited) = overtakes(&limits, &[1, 1, 1], SECOND).await;
    assert!(admitted && waited <= SECOND * 6 / 10, "{waited:?}");
}

/// Of the second limiter, a bucket, the next permit is reserved for a call that arrived later.
#[tokio::test]
async fn a_call_that_is_moved_is_not_rejected_for_the_reservation_of_a_later_one() {
    let server = RedisServer::start();
    let real = Limits::builder().memory().no_limits_file();
    for limits in [real, on_redis(&server)] {
        let limits = limits.build().await.unwrap();
        let first = limits.limiter("first", quota(1, SECOND));
        let second = limits.limiter("second", quota(1, SECOND * 2).token_bucket(1).unwrap());
        first.try_acquire(1).await.unwrap();
        let both = first.and(second.clone());
        let call = async { both.acquire_timeout(1, SECOND * 7 / 2).await.map(drop) };
        let later = async {
            sleep(SECOND / 20).await;
            second.try_acquire(1).await.unwrap();
            second.acquire(1).await.map(drop)
        };
        let (call, later) = tokio::join!(timeout(10 * SECOND, call), timeout(10 * SECOND, later));
        call.unwrap().unwrap();
        later.unwrap().unwrap();
    }
}

/// Calls of both buckets lost every slot to the calls of each one, which had a third less of the rate meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn calls_of_two_buckets_get_their_turn_where_others_wait_for_each() {
    let server = RedisServer::start();
    let [one, other] = [quota(10, SECOND).leaky_bucket(), quota(10, SECOND).token_bucket(1)];
    let quotas = [one.unwrap(), other.unwrap()];
    let real = || Limits::builder().memory().no_limits_file();
    for processes in
        [vec![real()], vec![on_redis(&server)], vec![on_redis(&server), on_redis(&server)]]
    {
        let (mut calls, mut counts) = (JoinSet::new(), Vec::new());
        for builder in processes {
            let limits = builder.build().await.unwrap();
            let [one, other] = [("one", quotas[0]), ("other", quotas[1])]
                .map(|(name, quota)| limits.limiter(name, quota));
            let both = one.clone().and(other.clone());
            for (limiter, callers) in [(one, 2), (other, 2), (both, 1)] {
                let count = Arc::new(AtomicU64::new(0));
                counts.push(Arc::clone(&count));
                for _ in 0..callers {
                    let (limiter, count) = (limiter.clone(), Arc::clone(&count));
                    calls.spawn(async move {
                        loop {
                            limiter.acquire(1).await.unwrap();
                            count.fetch_add(1, Ordering::Relaxed);
                        }
                    });
                }
            }
        }
        sleep(4 * SECOND).await;
        calls.shutdown().await;
        let counts: Vec<u64> = counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        println!("{counts:?}");
        let both: u64 = counts.iter().skip(2).step_by(3).sum();
        assert!(both >= 5, "{counts:?}: the calls of both had 13 turns");
        let taken = counts.iter().sum::<u64>() + both;
        assert!(taken >= 66, "{counts:?} of 80 permits");
    }
}

/// Other processes reserved each slot of the bucket before the call that needs the permits of two limiters at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_gets_its_turn_where_another_process_reserves() {
    let server = RedisServer::start();
    let quotas = [quota(10, SECOND).leaky_bucket(), quota(10, SECOND).token_bucket(1)];
    for bucket_of_10 in quotas.map(Result::unwrap) {
        let [here, there] = [on_redis(&server), on_redis(&server)].map(LimitsBuilder::build);
        let (here, there) = (here.await.unwrap(), there.await.unwrap());
        let name = format!("bucket:{bucket_of_10}");
        let [bucket, other] = [&here, &there].map(|limits| limits.limiter(&name, bucket_of_10));
        let both = bucket.and(here.limiter("free", quota(1000, SECOND)));
        let mut others = JoinSet::new();
        for _ in 0..2 {
            let other = other.clone();
            others.spawn(async move {
                loop {
                    other.acquire(1).await.unwrap();
                }
            });
        }
        let five = async {
            for _ in 0..5 {
                both.acquire(1).await.unwrap();
            }
        };
        timeout(6 * SECOND, five).await.expect("it had 12 turns in 6 s");
    }
}

/// All calls of both took from the faster limiter while they waited for the slower one, and proceeded together when
/// that had become fast.
#[tokio::test(start_paused = true)]
async fn calls_do_not_gather_permits_of_one_limiter_while_another_is_slow() {
    let kinds = [
        |rate| quota(rate, SECOND).token_bucket(1).unwrap(),
        |rate| quota(rate, SECOND).leaky_bucket().unwrap(),
    ];
    for kind in kinds {
        let limits = Limits::builder().memory().no_limits_file().build().await.unwrap();
        let (fast, slow) = (limits.limiter("fast", kind(10)), limits.limiter("slow", kind(1)));
        let both = fast.clone().and(slow.clone());
        let start = tokio::time::Instant::now();
        let (mut calls, history) = (JoinSet::new(), Arc::new(Mutex::new(Vec::new())));
        for (limiter, callers, counts) in [(&fast, 3, true), (&slow, 2, false), (&both, 45, true)] {
            for _ in 0..callers {
                let (limiter, history) = (limiter.clone(), Arc::clone(&history));
                calls.spawn(async move {
                    loop {
                        limiter.acquire(1).await.unwrap();
                        let at = u64::try_from(start.elapsed().as_millis()).unwrap();
                        history.lock().unwrap().extend(counts.then_some((at, 1)));
                    }
                });
            }
        }
        sleep(20 * SECOND).await;
        slow.set_rate(kind(100)).await.unwrap();
        sleep(5 * SECOND).await;
        calls.shutdown().await;
        let worst = worst_window(&history.lock().unwrap(), 1000).unwrap();
        assert!(worst.permits <= 11, "{worst:?} of 10 a second");
    }
}

/// A call that has been in both queues, and holds a permit of the second limiter after 590 ms. The first has none before
/// 880 ms.
async fn holding(first: &Limiter, second: &Limiter, wait: Duration) -> JoinHandle<bool> {
    first.try_acquire(1).await.unwrap();
    let both = first.clone().and(second.clone());
    let call = tokio::spawn(async move { both.acquire_timeout(1, wait).await.is_ok() });
    for limiter in [second, first] {
        sleep(Duration::from_millis(290)).await;
        limiter.try_acquire(1).await.unwrap();
    }
    sleep(Duration::from_millis(30)).await;
    call
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_not_admitted_gives_back_what_it_has() {
    let limits = Limits::builder().memory().no_limits_file().build().await.unwrap();
    let windows = |name: &str| {
        let window = quota(1, SECOND * 3 / 10);
        [1, 2].map(|n| limits.limiter(&format!("{name}:{n}"), window))
    };
    let free = async |limiter: &Limiter| limiter.available_permits().await.unwrap();

    let [first, second] = windows("admitted");
    let call = holding(&first, &second, SECOND).await;
    assert_eq!(free(&second).await, 0, "it has a permit of the second");
    assert!(call.await.unwrap());

    let [first, second] = windows("dropped");
    let call = holding(&first, &second, SECOND).await;
    assert_eq!(free(&second).await, 0);
    call.abort();
    sleep(Duration::from_millis(5)).await;
    assert_eq!(free(&second).await, 1);

    let [first, second] = windows("rejected");
    let call = holding(&first, &second, SECOND).await;
    first.charge(1).await.unwrap();
    assert!(!call.await.unwrap(), "it cannot wait for the first");
    sleep(Duration::from_millis(5)).await;
    assert_eq!(free(&second).await, 1, "it is taken until 890 ms, otherwise");
}
