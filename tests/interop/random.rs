//! Random operations of both sides, in turn, against a model.

use std::time::SystemTime;

use tests::{proxy::Proxy, redis_server::RedisServer};

use crate::{
    bench::{Bench, EXACT, MERGED, Step},
    length,
    model::{Model, Used, live},
    redisson::Redisson,
    unix_ms,
};

on_each_version!(
    random_operations_agree_with_the_model,
    random_operations_over_merged_logs_keep_the_limit,
    with_commands_sent_twice_the_limiter_ends_whole,
);

/// Every answer and every log is what the model gives for some instant of the call, and counter and
/// log make up the rate after each of them. A log of 64 members at most is exact.
async fn random_operations_agree_with_the_model(redisson: Redisson) {
    let mut bench = Bench::start(&redisson, EXACT, RedisServer::start(), None).await;
    let mut model = Model::new(EXACT);
    let (steps, mut granted) = (steps(), [0; 2]);
    for n in 0..steps {
        let step = bench.next();
        let start = now_ms();
        let answer = bench.run(step).await;
        let end = now_ms();
        assert_eq!(bench.errors, [""; 0], "step {n}");
        let state = bench.state();
        let agrees = (start..=end).find_map(|now| {
            let (expected, next) = model.step(step, now);
            (answer == Some(expected) && live(&state, EXACT.per_ms, now) == next.taken)
                .then_some(next)
        });
        let Some(next) = agrees else {
            panic!(
                "step {n} at {start}..={end}: {step:?} of {model:?} gives {answer:?}, {state:?}"
            );
        };
        let whole = bench.deleted || state.is_whole();
        assert!(whole, "step {n}: {step:?} of {model:?} leaves {state:?}");
        if let Step::Acquire(by, _) = step {
            granted[by as usize] += answer.unwrap_or(0);
        }
        model = next;
    }
    println!("{redisson}: {steps} steps agree with the model, (Java, Rust) granted {granted:?}");
    assert!(granted.iter().all(|&granted| granted > 0), "{granted:?}");
}

/// A rate at which the log is merged: what was granted is within the limit, what was refused was
/// used, but for what comes back a little late; and counter and log make up the rate. It takes some
/// windows, however fast the machine is.
async fn random_operations_over_merged_logs_keep_the_limit(redisson: Redisson) {
    let mut bench = Bench::start(&redisson, MERGED, RedisServer::start(), None).await;
    let mut model = Model::new(MERGED);
    let (mut used, mut longest, mut n) = (Used::of(MERGED), 0, 0);
    let until = now_ms() + 3 * MERGED.per_ms;
    while n < steps() || now_ms() < until {
        let step = bench.next();
        let start = now_ms();
        let answer = bench.run(step).await.unwrap_or_else(|| panic!("{:?}", bench.errors));
        let end = now_ms();
        let rate = i64::from(model.rate);
        used.forget(start, end);
        if let Step::Acquire(_, permits) = step {
            let (surely, perhaps) = used.range();
            let (least, most) = (rate - perhaps, rate - surely);
            let right = if answer == 1 { most >= permits.into() } else { least < permits.into() };
            assert!(
                right,
                "step {n}: {step:?} gives {answer}, {least}..={most} of {rate} are free"
            );
        }
        used.follow(step, answer, start, end);
        model.rate = model.step(step, end).1.rate;
        let state = bench.state();
        longest = longest.max(state.log.len());
        assert!(bench.deleted || state.is_whole(), "step {n}: {step:?} leaves {state:?}");
        n += 1;
    }
    println!("{redisson}: {n} steps keep the limit, the log had up to {longest} members");
    assert!((100..300).contains(&longest), "{longest} members");
}

/// Java's commands reach the server twice now and then, as they do when a reply is lost, and count
/// twice then. Nobody is granted too much meanwhile, and all is well soon afterwards.
async fn with_commands_sent_twice_the_limiter_ends_whole(redisson: Redisson) {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let mut bench = Bench::start(&redisson, EXACT, server, Some(&proxy)).await;
    proxy.repeat_scripts(20);
    let mut model = Model::new(EXACT);
    let (steps, mut used, mut short) = (steps(), Used::of(EXACT), 0);
    for n in 0..steps {
        let step = bench.next();
        let start = now_ms();
        let answer = bench.run(step).await.unwrap_or(0);
        let end = now_ms();
        used.forget(start, end);
        if let Step::Acquire(_, permits) = step {
            let free = i64::from(model.rate) - used.range().0;
            assert!(answer == 0 || free >= permits.into(), "step {n}: {step:?}, {free} are free");
        }
        used.follow(step, answer, start, end);
        model.rate = model.step(step, end).1.rate;
        short += u64::from(!bench.deleted && !bench.state().is_whole());
    }
    proxy.repeat_scripts(0);
    let (repeated, errors) = (proxy.traffic().repeated, bench.errors.len());
    println!(
        "{redisson}: {repeated} commands sent twice in {steps} steps, {short} states short, \
         {errors} errors of Java's"
    );
    assert!(repeated > 0 && short > 0);
    // Java's scripts fail on an empty log beside a short counter, which is the one way.
    let known = |error: &String| error.contains("nil value");
    assert!(bench.errors.iter().all(known), "{:?}", bench.errors);

    assert!(bench.rust.acquire_timeout(model.rate, 3 * EXACT.per()).await, "no whole window");
    bench.state().assert_whole();
    assert!(bench.java.call::<bool>(&format!("tryAcquire shared {} 2000", model.rate)));
    bench.state().assert_whole();
}

fn steps() -> u64 {
    length(1_000, 100_000)
}

fn now_ms() -> u64 {
    unix_ms(SystemTime::now())
}
