//! The memory of limiters that are no longer used, by an allocator that counts what all threads hold.

use std::{alloc::System, convert::Infallible, time::Duration};

use cap::Cap;
use http::{Request, Response};
use ratelimit_runtime::{
    Limits, LimitsBuilder, Quota, Rejection, rate_limit, test_util::ManualClock, tower::Limit,
};
use tests::{proxy::Proxy, redis_server::RedisServer};
use tower::{Layer, ServiceExt, service_fn};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

const KEYS: u64 = 20_000;

#[rate_limit(key = "user:{id}", rate = 1000, per = "1h", wait = "none")]
async fn by_user(id: u64) -> Result<(), Rejection> {
    Ok(())
}

/// Uses each key once, and then none for hours: only the clock goes on.
async fn is_forgotten(what: &str, limits: LimitsBuilder, outage: Option<&Proxy>) {
    let time = ManualClock::new();
    let limits = limits.clock(time.clone()).build().await.unwrap();
    let keys = async |from, to| {
        for id in from..to {
            by_user(id).await.unwrap();
            // A quota of 1 rejects it.
            let _ = by_user(id).await;
        }
    };
    // What the first keys need once does not count.
    limits.scope(keys(0, 2_000)).await;
    if let Some(proxy) = outage {
        proxy.cut();
        while limits.health().store.is_ok() {
            limits.scope(keys(0, 1)).await;
        }
    }
    let before = ALLOCATOR.allocated();
    limits.scope(keys(2_000, 2_000 + KEYS)).await;
    let busy = ALLOCATOR.allocated() - before;
    outage.inspect(|proxy| proxy.restore());
    let (mut left, mut hours) = (busy, 0);
    while left > busy / 20 && hours < 1_000 {
        time.advance(Duration::from_secs(3601));
        tokio::time::sleep(Duration::from_millis(50)).await;
        left = ALLOCATOR.allocated().saturating_sub(before);
        hours += 1;
    }
    println!("{what}: {busy} bytes in use, {left} after {hours} hours");
    assert!(left <= busy / 20, "{what}: {left} bytes of {busy}");
}

/// Layers with templates of their own, used once and dropped: each left 1.8 kB for as long as the limits existed.
async fn dropped_layers_are_forgotten() {
    const LAYERS: usize = 20_000;
    let limits = Limits::builder().memory().no_limits_file().build().await.unwrap();
    let layers = async |from, to| {
        for n in from..to {
            let layer = Limit::new(&format!("layer-{n}:{{ip?}}"), Quota::per_second(5));
            let answer =
                async |_: Request<String>| Ok::<_, Infallible>(Response::new(String::new()));
            let service = layer.limits(&limits).layer(service_fn(answer));
            service.oneshot(Request::new(String::new())).await.unwrap();
        }
    };
    layers(0, LAYERS / 2).await;
    let before = ALLOCATOR.allocated();
    layers(LAYERS / 2, LAYERS / 2 + LAYERS).await;
    let left = ALLOCATOR.allocated().saturating_sub(before);
    println!("layers: {left} bytes");
    // Those that were not swept yet.
    assert!(left <= LAYERS * 1_000, "{left} bytes");
}

/// One after another, since the allocator counts for all.
#[tokio::test(flavor = "current_thread")]
async fn keys_that_are_used_once_leave_no_memory_although_no_key_is_used_any_more() {
    for yaml in [
        "{}",
        "default: { mode: per_client }",
        "default: { algorithm: token_bucket }",
        "limiters: { \"user:{id}\": { rate: 1, penalty: { after: 1, block: 5s } } }",
    ] {
        is_forgotten(yaml, Limits::builder().memory().limits_yaml(yaml), None).await;
    }
    let server = RedisServer::start();
    let on_redis = Limits::builder().redis(server.url()).no_limits_file();
    is_forgotten("on Redis", on_redis.deadline(Duration::from_secs(5)), None).await;
    let proxy = Proxy::start(server.port());
    let through = Limits::builder().redis(proxy.url()).no_limits_file();
    let through = through.deadline(Duration::from_secs(5));
    is_forgotten("in an outage", through, Some(&proxy)).await;
    dropped_layers_are_forgotten().await;
}
