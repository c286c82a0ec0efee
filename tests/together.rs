//! Attributes of one function whose keys share a hash tag: decided in one step.
#![allow(clippy::disallowed_methods, reason = "real servers live in real time")]

use std::time::{Duration, Instant};

use ratelimit_runtime::{Limiter, Limits, Quota, Reason, Rejection, limiter, rate_limit};
use tests::{place::Place, redis_cluster::RedisCluster, redis_server::RedisServer};
use tokio::time::sleep;

/// Three a shop, and two for each of its users.
#[rate_limit(key = "{{shop}}:all:orders", rate = 3, per = "1h", wait = "none")]
#[rate_limit(key = "{{shop}}:{user}", rate = 2, per = "1h", wait = "none")]
async fn order(user: &str) -> Result<(), Rejection> {
    Ok(())
}

#[rate_limit(key = "{{jobs}}:many", rate = 2, per = "1h", wait = "forever")]
#[rate_limit(key = "{{jobs}}:few", rate = 1, per = "700ms", wait = "2s")]
async fn job() -> Result<(), Rejection> {
    Ok(())
}

#[rate_limit(key = "{{quiet}}:one", rate = 1, per = "300ms")]
#[rate_limit(key = "{{quiet}}:two", rate = 100, per = "1h")]
async fn quiet() {}

async fn redis(url: &str) -> Limits {
    let builder = Limits::builder().redis(url).no_limits_file();
    builder.deadline(Duration::from_secs(5)).build().await.unwrap()
}

async fn free(limiter: &Limiter) -> u64 {
    limiter.available_permits().await.unwrap()
}

async fn all_or_nothing(limits: &Limits) {
    limits
        .scope(async {
            let (shop, ann) =
                (limiter!("{{shop}}:all:orders"), limiter!("{{shop}}:{user}", user = "ann"));
            order("ann").await.unwrap();
            order("ann").await.unwrap();
            let rejection = order("ann").await.unwrap_err();
            assert_eq!(rejection.reason(), Reason::Limited);
            assert_eq!(rejection.limiter(), "{{shop}}:{user}");
            assert_eq!((free(&shop).await, free(&ann).await), (1, 0));
            order("bob").await.unwrap();
            let rejection = order("bob").await.unwrap_err();
            assert_eq!(rejection.limiter(), "{{shop}}:all:orders");
            assert_eq!(free(&limiter!("{{shop}}:{user}", user = "bob")).await, 1);
        })
        .await;
}

#[tokio::test]
async fn a_call_takes_of_all_limits_or_of_none() {
    all_or_nothing(&Limits::builder().memory().no_limits_file().build().await.unwrap()).await;
    let server = RedisServer::start();
    all_or_nothing(&redis(&server.url()).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_decides_them_on_one_node() {
    let cluster = RedisCluster::start();
    all_or_nothing(&redis(&cluster.url()).await).await;
}

/// Grants within two seconds to each of these groups of callers, who all call again and again.
async fn grants<const N: usize>(callers: [(usize, Limiter); N]) -> [u32; N] {
    let ends = Instant::now() + Duration::from_secs(2);
    let all = callers.map(|(count, limiter)| {
        let call = |limiter: Limiter| {
            tokio::spawn(async move {
                let mut grants = 0;
                while tokio::time::timeout_at(ends.into(), limiter.acquire(1)).await.is_ok() {
                    grants += 1;
                }
                grants
            })
        };
        (0..count).map(|_| call(limiter.clone())).collect::<Vec<_>>()
    });
    let mut grants = [0; N];
    for (grants, calls) in grants.iter_mut().zip(all) {
        for call in calls {
            *grants += call.await.unwrap();
        }
    }
    grants
}

/// Grants to calls that name both limiters in either order.
async fn of_either_order([one, other]: [Limiter; 2]) -> u32 {
    let orders = [(5, one.clone().and(other.clone())), (5, other.and(one))];
    grants(orders).await.iter().sum()
}

/// Grants to calls of both limiters, and of each alone while the other one has as many.
async fn of_both_and_each([one, other]: [Limiter; 2]) -> u32 {
    let callers = [(4, one.clone().and(other.clone())), (3, one), (3, other)];
    let [both, one, other] = grants(callers).await;
    both + one.min(other)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_two_nodes_of_a_cluster_lose_few_permits() {
    let cluster = RedisCluster::start();
    let limits = redis(&cluster.url()).await;
    // Beside a pair of one node, which is decided in one step: a busy machine delays the calls of both.
    let pairs = |name: &str, one: Quota, other: Quota| {
        let is_elsewhere =
            |other: &String| cluster.master_of_key(other) != cluster.master_of_key(name);
        let elsewhere = (0..).map(|n| format!("{name}:{n}")).find(is_elsewhere).unwrap();
        [(name, &elsewhere), (&format!("{{{name}}}:one"), &format!("{{{name}}}:other"))]
            .map(|names| [limits.limiter(names.0, one), limits.limiter(names.1, other)])
    };
    let bucket = |rate| Quota::per_second(rate).token_bucket(1).unwrap();

    let [apart, near] = pairs("orders", bucket(30), bucket(29)).map(of_either_order);
    let (apart, near) = tokio::join!(apart, near);
    assert!(apart * 58 >= near * 34, "calls of two nodes got {apart}, of one node {near}");

    let leaky = Quota::per_second(30).leaky_bucket().unwrap();
    let [apart, near] = pairs("both", leaky, bucket(30)).map(of_both_and_each);
    let (apart, near) = tokio::join!(apart, near);
    assert!(apart * 60 >= near * 20, "calls of two nodes got {apart}, of one node {near}");
}

#[tokio::test]
async fn a_refusal_leaves_no_trace_and_is_one_call_at_most() {
    let server = RedisServer::start();
    let limits = redis(&server.url()).await;
    limits
        .scope(async {
            order("ann").await.unwrap();
            order("ann").await.unwrap();
            let log = || {
                server.cli::<Vec<Vec<u8>>>(&[
                    "ZRANGE",
                    "{shop}:all:orders:permits",
                    "0",
                    "-1",
                    "WITHSCORES",
                ])
            };
            let (before, calls) = (log(), server.calls("evalsha"));
            for _ in 0..20 {
                order("ann").await.unwrap_err();
            }
            assert_eq!(log(), before, "given back later, they would be dated anew");
            let asked = server.calls("evalsha") - calls;
            assert!(asked <= 1, "{asked} calls");
            let calls = server.calls("evalsha");
            order("bob").await.unwrap();
            assert_eq!(server.calls("evalsha") - calls, 1);
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_one_holds_nothing_of_the_others() {
    let server = RedisServer::start();
    let limits = redis(&server.url()).await;
    let calling = |limits: Limits| tokio::spawn(async move { limits.scope(job()).await });
    calling(limits.clone()).await.unwrap().unwrap();
    let start = Instant::now();
    let first = calling(limits.clone());
    sleep(Duration::from_millis(300)).await;
    let second = calling(limits.clone());
    let many = limits.configured("{jobs}:many");
    assert_eq!(free(&many).await, 1, "the first call's alone is taken");
    first.await.unwrap().unwrap();
    assert!(start.elapsed() >= Duration::from_millis(400), "{:?}", start.elapsed());
    // An hour is more than forever has; the queue is left.
    second.abort();
    assert!(second.await.unwrap_err().is_cancelled());
    assert_eq!(free(&many).await, 0);
    many.release(2).await.unwrap();
    sleep(Duration::from_millis(800)).await;
    calling(limits.clone()).await.unwrap().unwrap();
    let rejection = async {
        let few = limits.configured("{jobs}:few");
        few.set_rate(ratelimit_runtime::Quota::new(1, Duration::from_secs(60)).unwrap())
            .await
            .unwrap();
        few.acquire(1).await.unwrap();
        calling(limits.clone()).await.unwrap().unwrap_err()
    };
    let rejection = rejection.await;
    assert_eq!((rejection.reason(), rejection.limiter()), (Reason::WaitTooLong, "{{jobs}}:few"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_cannot_be_refused_wait_in_turn() {
    let server = RedisServer::start();
    let limits = redis(&server.url()).await;
    let start = Instant::now();
    let calls: Vec<_> = (0..4)
        .map(|_| {
            let limits = limits.clone();
            tokio::spawn(async move { limits.scope(quiet()).await })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    assert!(start.elapsed() >= Duration::from_millis(900), "{:?}", start.elapsed());
    assert_eq!(free(&limits.configured("{quiet}:two")).await, 96);
}

#[tokio::test]
async fn without_redis_each_goes_by_its_policy() {
    let server = RedisServer::start();
    let limits = redis(&server.url()).await;
    limits
        .scope(async {
            order("ann").await.unwrap();
            server.kill_hard();
            // One of two was left.
            order("ann").await.unwrap();
            assert_eq!(order("ann").await.unwrap_err().reason(), Reason::Limited);
        })
        .await;
}

#[tokio::test]
async fn a_rejection_by_several_limiters_lasts_until_all_have_the_permits() {
    for place in [Place::Embedded, Place::redis()] {
        let limits = place.limits().await;
        let one = limits.limiter("one", Quota::per_minute(1));
        let other = limits.limiter("other", Quota::per_hour(1));
        one.clone().and(other.clone()).try_acquire(1).await.unwrap();
        for (first, second) in [(&one, &other), (&other, &one)] {
            let both = first.clone().and(second.clone());
            for rejected in [both.try_acquire(1).await.map(drop), both.peek(1).await.map(drop)] {
                let rejection = rejected.unwrap_err();
                assert_eq!(rejection.limiter(), first.name(), "the first one");
                let after = rejection.retry_after().unwrap();
                assert!(after > Duration::from_secs(3_500), "{rejection}");
            }
        }
    }
}

/// Both names are one limiter in the store, and no call can take from it twice.
#[tokio::test]
async fn a_limiter_that_has_two_handles_is_taken_from_once() {
    let server = RedisServer::start();
    for limits in [Limits::builder().memory().build().await.unwrap(), redis(&server.url()).await] {
        let call = async {
            let declared = limiter!("{{shop}}:{user}", user = "ann");
            let named = limits.limiter("{shop}:ann", Quota::per_hour(2));
            assert_eq!(declared.name(), named.name());
            let both = declared.clone().and(named).and(declared);
            assert_eq!(both.try_acquire(1).await.unwrap().permits(), 1);
            assert_eq!((both.charge(1).await.unwrap().taken, free(&both).await), (1, 0));
        };
        limits.scope(call).await;
    }
}

#[tokio::test]
async fn a_rejection_is_counted_for_the_limiter_that_rejects() {
    let yaml = "default: { mode: per_client }\nlimiters:\n  known: { rate: 3, per: 1m }\n";
    let limits = Limits::builder().memory().limits_yaml(yaml).build().await.unwrap();
    let (known, unknown) = (limits.configured("known"), limits.configured("unknown"));
    let rejection = known.clone().and(unknown).try_acquire(1).await.unwrap_err();
    assert_eq!((rejection.reason(), rejection.limiter()), (Reason::NotConfigured, "unknown"));
    assert_eq!(limits.report().limiter("known").unwrap().rejected, 0);
    assert_eq!(free(&known).await, 3);
}

/// The limiter of the other limits was counted in a store that is not its own, or left out if the names are equal.
#[tokio::test]
#[should_panic = "`all` and `ann` belong to different `Limits`; combine limiters of the same `Limits`"]
async fn limiters_of_different_limits_cannot_be_combined() {
    let [one, other] =
        [Limits::builder(), Limits::builder()].map(|builder| builder.memory().build());
    let (one, other) = (one.await.unwrap(), other.await.unwrap());
    let all = one.limiter("all", Quota::per_second(9));
    // Handles of the same limits may be of different clones.
    let all = all.and(one.clone().limiter("some", Quota::per_second(5)));
    drop(all.and(other.limiter("ann", Quota::per_second(2))));
}
