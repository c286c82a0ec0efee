//! Nanoseconds of a decision within the process, compared with governor and with calls written by hand.
//! `cargo xtask bench in-process` runs them.
#![allow(clippy::disallowed_methods, reason = "benches measure real time")]

#[path = "in_process/layer.rs"]
mod layer;

use std::{
    hint::black_box,
    num::NonZeroU32,
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use benches::{
    embedded::{
        USERS, body, bucket_of_user, fixed, fixed_alone, fixed_bucket, install, of_user, once,
        once_per_user, plenty, ready, unreached, used_up,
    },
    load::Random,
};
use criterion::{
    BenchmarkGroup, BenchmarkId, Criterion, criterion_group, criterion_main, measurement::WallTime,
};
use governor::{
    DefaultDirectRateLimiter, DefaultKeyedRateLimiter, NotUntil, Quota as Cells, RateLimiter,
    clock::QuantaInstant,
};
use ratelimit_runtime::{Limiter, Limits};
use ratelimit_spec::KeyWriter;
use tests::redis_server::RedisServer;

type Governed = Result<u64, NotUntil<QuantaInstant>>;
type Group<'a> = BenchmarkGroup<'a, WallTime>;

/// governor counts at most one permit per nanosecond.
const FASTEST: NonZeroU32 = NonZeroU32::new(1_000_000_000).expect("above 0");

fn group<'a>(criterion: &'a mut Criterion, name: &str) -> Group<'a> {
    let mut group = criterion.benchmark_group(name);
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
    group.sample_size(20);
    group
}

/// Measures an asynchronous call in one thread and in two at once, without entering a runtime for
/// each: the figure is the time that a caller waits.
fn calls<S: Sync>(
    group: &mut Group<'_>,
    name: &str,
    shared: &S,
    call: impl AsyncFn(&S, u64) + Sync,
) {
    for threads in [1, 2] {
        group.bench_function(BenchmarkId::new(name, threads), |bencher| {
            bencher.iter_custom(|iterations| {
                in_threads(threads, |random| {
                    let runtime =
                        tokio::runtime::Builder::new_current_thread().enable_all().build();
                    runtime.expect("a runtime").block_on(async {
                        let start = Instant::now();
                        for _ in 0..iterations {
                            call(shared, random.below(USERS as usize) as u64).await;
                        }
                        start.elapsed()
                    })
                })
            });
        });
    }
}

/// Returns the longest time of threads that start together.
fn in_threads(threads: usize, run: impl Fn(&mut Random) -> Duration + Sync) -> Duration {
    let (barrier, run) = (&Barrier::new(threads), &run);
    thread::scope(|scope| {
        let begin = |thread| {
            scope.spawn(move || {
                barrier.wait();
                run(&mut Random::new(thread))
            })
        };
        let running: Vec<_> = (0..threads).map(begin).collect();
        let times = running.into_iter().map(|thread| thread.join().expect("no panic"));
        times.max().unwrap_or_default()
    })
}

async fn try_acquire(limiter: &Limiter, _: u64) {
    let _ = black_box(limiter.try_acquire(1).await);
}

fn one_key(criterion: &mut Criterion, limits: &Limits) {
    let mut allowed = group(criterion, "direct_allowed");
    calls(&mut allowed, "ours", &plenty(limits, "direct"), try_acquire);
    let governor: DefaultDirectRateLimiter = RateLimiter::direct(Cells::per_second(FASTEST));
    calls(&mut allowed, "governor", &governor, async |governor, _| {
        let _ = black_box(governor.check());
    });
    allowed.finish();

    let mut refused = group(criterion, "direct_refused");
    calls(&mut refused, "ours", &used_up(limits, "used_up"), try_acquire);
    let governor: DefaultDirectRateLimiter = RateLimiter::direct(Cells::per_hour(NonZeroU32::MIN));
    calls(&mut refused, "governor", &governor, async |governor, _| {
        let _ = black_box(governor.check());
    });
    refused.finish();
}

fn many_keys(criterion: &mut Criterion, limits: &Limits) {
    let mut allowed = group(criterion, "keyed_allowed");
    (0..USERS).for_each(|user| drop(ready(of_user(user))));
    calls(&mut allowed, "ours", &(), async |(), user| {
        let _ = black_box(of_user(user).await);
    });
    calls(&mut allowed, "ours_by_name", limits, async |limits, user| {
        let _ = black_box(by_hand(limits, user).await);
    });
    governor_keyed(&mut allowed, Cells::per_second(FASTEST));
    allowed.finish();

    let mut refused = group(criterion, "keyed_refused");
    (0..USERS).for_each(|user| drop(ready(once_per_user(user))));
    calls(&mut refused, "ours", &(), async |(), user| {
        let _ = black_box(once_per_user(user).await);
    });
    calls(&mut refused, "ours_by_name", limits, async |limits, user| {
        let _ = black_box(limits.limiter(&format!("one:{user}"), once()).try_acquire(1).await);
    });
    governor_keyed(&mut refused, Cells::per_hour(NonZeroU32::MIN));
    refused.finish();
}

/// Compares an annotated function of both rules with governor: under one key, and under a text for each user.
fn annotated(criterion: &mut Criterion) {
    let mut one = group(criterion, "annotated_one");
    calls(&mut one, "ours_bucket", &(), async |(), number| {
        let _ = black_box(fixed_bucket(number).await);
    });
    calls(&mut one, "ours_window", &(), async |(), number| {
        let _ = black_box(fixed(number).await);
    });
    calls(&mut one, "ours_alone", &(), async |(), number| {
        let _ = black_box(fixed_alone(number).await);
    });
    let governor: DefaultDirectRateLimiter = RateLimiter::direct(Cells::per_second(FASTEST));
    calls(&mut one, "governor", &governor, async |governor, number| {
        let _ = black_box(governed(governor, number).await);
    });
    one.finish();

    let mut many = group(criterion, "annotated_many");
    (0..USERS).for_each(|user| drop(ready(bucket_of_user(user))));
    calls(&mut many, "ours_bucket", &(), async |(), user| {
        let _ = black_box(bucket_of_user(user).await);
    });
    (0..USERS).for_each(|user| drop(ready(of_user(user))));
    calls(&mut many, "ours_window", &(), async |(), user| {
        let _ = black_box(of_user(user).await);
    });
    governor_keyed(&mut many, Cells::per_second(FASTEST));
    many.finish();
}

/// With a number, which is its fastest key, and with the text that ours also renders.
fn governor_keyed(group: &mut Group<'_>, cells: Cells) {
    let numbers: DefaultKeyedRateLimiter<u64> = RateLimiter::keyed(cells);
    (0..USERS).for_each(|user| drop(numbers.check_key(&user)));
    calls(group, "governor", &numbers, async |governor, user| {
        let _ = black_box(governed_number(governor, user).await);
    });
    let texts: DefaultKeyedRateLimiter<String> = RateLimiter::keyed(cells);
    (0..USERS).for_each(|user| drop(texts.check_key(&format!("user:{user}"))));
    calls(group, "governor_text", &texts, async |governor, user| {
        let _ = black_box(governed_text(governor, user).await);
    });
}

/// The limited function with governor, as it is written by hand.
async fn governed(governor: &DefaultDirectRateLimiter, number: u64) -> Governed {
    governor.check()?;
    Ok(body(number))
}

/// The same with a number as its key.
async fn governed_number(governor: &DefaultKeyedRateLimiter<u64>, user: u64) -> Governed {
    governor.check_key(&user)?;
    Ok(body(user))
}

/// The same with the text as its key that the attribute renders.
async fn governed_text(governor: &DefaultKeyedRateLimiter<String>, user: u64) -> Governed {
    governor.check_key(&format!("user:{user}"))?;
    Ok(body(user))
}

/// The limiter of a user and the call, as written without the attribute.
async fn by_hand(limits: &Limits, user: u64) -> Result<u64, ratelimit_runtime::Rejection> {
    limits.limiter(&format!("by_hand:{user}"), unreached()).try_acquire(1).await?;
    Ok(body(user))
}

fn attribute(criterion: &mut Criterion, limits: &Limits) {
    let mut one = group(criterion, "attribute_fixed");
    calls(&mut one, "annotated", &(), async |(), number| {
        let _ = black_box(fixed(number).await);
    });
    calls(&mut one, "by_hand", &plenty(limits, "held"), async |limiter, number| {
        if limiter.try_acquire(1).await.is_ok() {
            black_box(body(number));
        }
    });
    one.finish();

    // Few keys, so that the call is measured and not the memory.
    let mut many = group(criterion, "attribute_templated");
    calls(&mut many, "annotated", &(), async |(), number| {
        let _ = black_box(of_user(number % 16).await);
    });
    calls(&mut many, "by_hand", limits, async |limits, number| {
        let _ = black_box(by_hand(limits, number % 16).await);
    });
    many.finish();
}

fn key(criterion: &mut Criterion) {
    let mut rendering = group(criterion, "key");
    calls(&mut rendering, "rendered", &(), async |(), number| {
        let mut key = KeyWriter::new("");
        key.literal("user:");
        key.display(&number);
        black_box(key.finish());
    });
    calls(&mut rendering, "formatted", &(), async |(), number| {
        black_box(format!("user:{number}"));
    });
    rendering.finish();
}

fn per_client(criterion: &mut Criterion) {
    let server = RedisServer::start();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let yaml = "limiters:\n  counted_here: { mode: per_client }\n";
    let builder = Limits::builder().redis(server.url()).limits_yaml(yaml);
    let limits = runtime.block_on(builder.build()).expect("limits that can be");
    let limiter = plenty(&limits, "counted_here");
    runtime.block_on(limiter.try_acquire(1)).expect("Redis answers");
    let mut group = group(criterion, "per_client");
    calls(&mut group, "ours", &limiter, try_acquire);
    group.finish();
}

fn all(criterion: &mut Criterion) {
    let limits = install();
    // First, while the store holds no limiters but those of the row; the others add hundreds of thousands.
    annotated(criterion);
    one_key(criterion, &limits);
    many_keys(criterion, &limits);
    attribute(criterion, &limits);
    key(criterion);
    per_client(criterion);
    layer::layers(criterion, &limits);
}

criterion_group!(benches, all);
criterion_main!(benches);
