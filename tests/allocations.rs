//! What a call takes of memory: what a decision allocates, by an allocator that counts, and the size of
//! its future.

use std::{
    convert::Infallible,
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use allocation_counter::{AllocationInfo, measure};
use http::{Request, Response};
use ratelimit_runtime::{Limits, Quota, Rejection, rate_limit, tower::Limit, web::Headers};
use tests::redis_server::RedisServer;
use tower::{Layer, ServiceExt, service_fn};

#[rate_limit(key = "ended:{id}", rate = 1000, per = "1h", wait = "none")]
async fn ended(id: u64) -> Result<(), Rejection> {
    let _ = id;
    Ok(())
}

#[rate_limit(key = "static", rate = 1000, per = "1h", wait = "none")]
async fn fixed() -> Result<(), Rejection> {
    Ok(())
}

#[rate_limit(key = "forever", rate = 1000, per = "1h")]
async fn infallible() {}

/// A body that keeps something while it waits.
async fn body(id: u64) -> u64 {
    let kept = [id; 8];
    tokio::task::yield_now().await;
    kept.iter().sum()
}

async fn plain(id: u64) -> Result<u64, Rejection> {
    Ok(body(id).await)
}

#[rate_limit(key = "size:{id}", rate = 1000, per = "1h", wait = "none")]
async fn one(id: u64) -> Result<u64, Rejection> {
    Ok(body(id).await)
}

#[rate_limit(key = "size:{id}:forever", rate = 1000, per = "1h")]
async fn patient(id: u64) -> Result<u64, Rejection> {
    Ok(body(id).await)
}

#[rate_limit(key = "size:{id}:refunded", rate = 1000, per = "1h", wait = "none", refund_on = "err")]
async fn refunded(id: u64) -> Result<u64, Rejection> {
    Ok(body(id).await)
}

#[rate_limit(key = "size-a", rate = 1000, per = "1h", wait = "none")]
#[rate_limit(key = "size-b:{id}", rate = 1000, per = "1h", wait = "2s")]
#[rate_limit(key = "size-c:{id}", rate = 1000, per = "1h")]
async fn three(id: u64) -> Result<u64, Rejection> {
    Ok(body(id).await)
}

#[test]
fn the_future_of_a_call_is_a_little_larger_than_its_body() {
    let plain = size_of_val(&plain(1));
    let (one, patient, three) =
        (size_of_val(&one(1)), size_of_val(&patient(1)), size_of_val(&three(1)));
    let refunded = size_of_val(&refunded(1));
    println!(
        "beyond {plain} bytes: one attribute {}, one that waits {}, three {}, with a refund {}",
        one - plain,
        patient - plain,
        three - plain,
        refunded - plain
    );
    for size in [one, patient] {
        assert!(size - plain <= 8, "{size} bytes, {plain} without the attribute");
    }
    for size in [three, refunded] {
        assert!(size - plain <= 512, "{size} bytes, {plain} without the attribute");
    }
}

/// Runs a future that never has to wait.
fn ready<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waited"),
    }
}

/// What a hundred calls allocate, after one that warms up.
fn of_a_hundred(mut call: impl FnMut()) -> AllocationInfo {
    call();
    measure(|| (0..100).for_each(|_| call()))
}

/// Calls as often as a log grows: with each millisecond that has calls, to its bound.
fn in_many_milliseconds(mut call: impl FnMut()) {
    for _ in 0..120 {
        call();
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[rate_limit(key = "window:{id}", rate = 1000, per = "1h", wait = "none")]
async fn window_of(id: u64) -> Result<(), Rejection> {
    Ok(())
}

#[rate_limit(
    key = "bucket:{id}",
    rate = 1000,
    per = "1h",
    algorithm = "token_bucket",
    wait = "none"
)]
async fn bucket_of(id: u64) -> Result<(), Rejection> {
    Ok(())
}

#[rate_limit(key = "spent:{id}", rate = 1, per = "1h", algorithm = "token_bucket", wait = "none")]
async fn spent_by(id: u64) -> Result<(), Rejection> {
    Ok(())
}

#[rate_limit(key = "taken:{id}", rate = 100, per = "1h", wait = "none")]
async fn taken_by(id: u64) -> Result<(), Rejection> {
    Ok(())
}

#[rate_limit(key = "bucket", rate = 1000, per = "1h", algorithm = "token_bucket", wait = "none")]
async fn bucket() -> Result<(), Rejection> {
    Ok(())
}

#[test]
fn a_granted_call_on_the_embedded_store_allocates_nothing() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limits = runtime.block_on(Limits::builder().memory().no_limits_file().build()).unwrap();
    ready(limits.scope(async {
        in_many_milliseconds(|| (0..10).for_each(|id| ready(window_of(id)).unwrap()));
        (0..10).for_each(|id| ready(bucket_of(id)).unwrap());
        let window = measure(|| (0..100).for_each(|n| ready(window_of(n % 10)).unwrap()));
        assert_eq!(window.count_total, 0, "a templated window: {window:?}");
        let bucket_of_id = measure(|| (0..100).for_each(|n| ready(bucket_of(n % 10)).unwrap()));
        assert_eq!(bucket_of_id.count_total, 0, "a templated bucket: {bucket_of_id:?}");
        let fixed = of_a_hundred(|| ready(bucket()).unwrap());
        assert_eq!(fixed.count_total, 0, "a fixed bucket: {fixed:?}");
    }));
}

#[test]
fn an_idle_key_takes_few_bytes() {
    const KEYS: u64 = 20_000;
    /// As long as the number in a name of 20 bytes, and different for each key.
    const FIRST: u64 = 1_000_000_000_000;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bytes_of = |call: fn(u64)| {
        let limits = Limits::builder().memory().no_limits_file();
        let limits = runtime.block_on(limits.build()).unwrap();
        ready(limits.scope(async {
            call(0);
            let used = measure(|| (FIRST..FIRST + KEYS).for_each(call));
            let each = used.bytes_current / i64::try_from(KEYS).unwrap();
            println!("{each} bytes for each key that was used, {} allocations", used.count_total);
            assert!(each <= MOST_BYTES, "{each} bytes");
            // What is freed at once leaves holes between those that stay: the process grows by them too.
            assert!(used.count_total <= 8 * KEYS, "{} allocations", used.count_total);
            each
        }))
    };
    let bucket = bytes_of(|id| ready(spent_by(id)).unwrap());
    let window = bytes_of(|id| (0..4).for_each(|_| ready(taken_by(id)).unwrap()));
    assert_eq!(window, bucket, "the log of a window that was used four times");
}

#[test]
fn a_key_in_redis_takes_few_bytes_of_the_process() {
    const KEYS: u64 = 2_000;
    const FIRST: u64 = 1_000_000_000_000;
    let server = RedisServer::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // A call that this process had to decide would leave its count here.
    let limits =
        Limits::builder().redis(server.url()).no_limits_file().deadline(Duration::from_secs(2));
    let limits = runtime.block_on(limits.build()).unwrap();
    let calls = async |from: u64, to: u64| {
        for id in from..to {
            bucket_of(id).await.unwrap();
        }
    };
    runtime.block_on(limits.scope(calls(0, 500)));
    let used = measure(|| runtime.block_on(limits.scope(calls(FIRST, FIRST + KEYS))));
    let each = used.bytes_current / i64::try_from(KEYS).unwrap();
    println!("{each} bytes of the process for each key in Redis that was used once");
    assert!(each <= MOST_BYTES, "{each} bytes");
}

/// Their annotated functions kept them: those of the first limits, and those of the last.
#[test]
fn limits_that_have_ended_leave_no_keys() {
    const KEYS: u64 = 2_000;
    let server = RedisServer::start();
    let use_up = |keys: u64| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for _ in 0..3 {
            let limits = Limits::builder().redis(server.url()).no_limits_file();
            let limits = limits.deadline(Duration::from_secs(2));
            let limits = runtime.block_on(limits.build()).unwrap();
            runtime.block_on(limits.scope(async {
                for id in 0..keys {
                    ended(id).await.unwrap();
                }
            }));
        }
    };
    use_up(1);
    // What another thread frees counts as left: each time the same.
    let of_one = measure(|| use_up(1)).bytes_current;
    let left = measure(|| use_up(KEYS)).bytes_current - of_one;
    println!("{left} bytes of {KEYS} keys");
    assert!(left < i64::try_from(50 * KEYS).unwrap(), "{left} bytes");
}

#[test]
fn limits_that_have_ended_leave_nothing_behind() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let use_up = |times: u64| {
        for _ in 0..times {
            let limits = runtime.block_on(Limits::builder().memory().no_limits_file().build());
            runtime.block_on(limits.unwrap().scope(async {
                fixed().await.unwrap();
                ended(1).await.unwrap();
            }));
        }
    };
    use_up(2);
    let left = measure(|| use_up(50)).bytes_current;
    println!("{left} bytes of 50 sets of limits");
    assert!(left < 5_000, "{left} bytes");
}

/// The most memory that a key may take which is remembered and idle.
const MOST_BYTES: i64 = 300;

#[test]
fn the_embedded_path_allocates_nothing_for_a_fixed_key_but_rejections() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limits = runtime.block_on(Limits::builder().memory().no_limits_file().build()).unwrap();
    ready(limits.scope(async {
        // The log has its final size when it is full.
        while ready(fixed()).is_ok() {}
        let refused = of_a_hundred(|| assert!(ready(fixed()).is_err()));
        assert_eq!(refused.count_total, 100, "a rejection each, and nothing else: {refused:?}");

        ready(infallible());
        let before = measure(|| in_many_milliseconds(|| ready(infallible())));
        // Only the log's growth to its bound, which is the store's state and no call's.
        assert!(before.count_total <= 6, "the first calls: {before:?}");
        let admitted = of_a_hundred(|| ready(infallible()));
        assert_eq!(admitted.count_total, 0, "an admitted call: {admitted:?}");
    }));
    let limiter = limits.limiter("handle", Quota::new(1, Duration::from_secs(3600)).unwrap());
    // The first call takes the permit, and the second one, a rejection, warms up.
    let _ = ready(limiter.try_acquire(1));
    let refused = of_a_hundred(|| {
        let _ = ready(limiter.try_acquire(1));
    });
    assert_eq!(refused.count_total, 100, "a handle's rejection each: {refused:?}");
    let shadow = Limits::builder().memory().no_limits_file().shadow(true).build();
    let limiter = runtime.block_on(shadow).unwrap().limiter("handle", limiter.quotas().unwrap()[0]);
    // The first call takes the permit, and the second one is an event.
    let _ = ready(limiter.acquire(1));
    let shadowed = of_a_hundred(|| {
        let _ = ready(limiter.acquire(1));
    });
    assert!(ready(limiter.acquire(1)).unwrap().shadowed().is_some());
    assert_eq!(shadowed.count_total, 0, "a call in shadow mode: {shadowed:?}");
}

#[rate_limit(key = "message", rate = 1_000_000, per = "1h", wait = "none")]
async fn message() -> Result<(), Rejection> {
    Ok(())
}

/// A call of gRPC may read a stream for hours.
#[test]
fn a_request_of_many_calls_takes_as_much_as_one_of_a_few() {
    let limits = ready(Limits::builder().memory().no_limits_file().build()).unwrap();
    let each = service_fn(async |request: Request<u32>| {
        for _ in 0..request.into_body() {
            message().await.unwrap();
        }
        Ok::<_, Infallible>(Response::new(String::new()))
    });
    let limit = Limit::new("stream", Quota::per_second(1_000_000)).limits(&limits);
    let server = Headers::Ietf.layer(limit.layer(each));
    let bytes = |calls| {
        measure(|| drop(ready(server.clone().oneshot(Request::new(calls))).unwrap())).bytes_max
    };
    bytes(10);
    let (few, many) = (bytes(10), bytes(10_000));
    assert!(many < few + 10_000, "{few} bytes for 10 calls, {many} for 10,000");
}
