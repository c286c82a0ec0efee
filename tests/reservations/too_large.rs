//! A call that waits for a bucket, and costs more than the bucket can ever hold after a change.

use std::time::Duration;

use ratelimit_runtime::{Limiter, Limits, Reason, Rejection};
use tests::{limits_file::LimitsFile, redis_server::RedisServer};
use tokio::{task::JoinHandle, time::timeout};

const SECOND: Duration = Duration::from_secs(1);

fn yaml(algorithm: &str, settings: &str) -> String {
    format!("deadline: 20s\nlimiters:\n  x: {{ algorithm: {algorithm}, {settings} }}\n")
}

type Waiter = JoinHandle<Result<u64, Rejection>>;

/// Starts calls of these costs, one behind the other, which all wait.
async fn wait_in_line<const N: usize>(limiter: &Limiter, costs: [u64; N]) -> [Waiter; N] {
    let mut waiters = Vec::new();
    for cost in costs {
        let limiter = limiter.clone();
        waiters.push(tokio::spawn(async move { Ok(limiter.acquire(cost).await?.permits()) }));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    waiters.try_into().expect("one for each")
}

/// Lets a call of eight and two of one wait for a bucket of `before`, and changes it to `after`.
async fn changed(algorithm: &str, server: Option<&RedisServer>, [before, after]: [&str; 2]) {
    let name = format!("{algorithm}, {after}, {}", server.is_some());
    let file = LimitsFile::new(&yaml(algorithm, before));
    let prefix = format!("{algorithm}:{}:", after.replace([' ', ',', ':'], ""));
    let builder = Limits::builder().limits_file(file.path()).key_prefix(prefix);
    let builder = match server {
        Some(server) => builder.redis(server.url()),
        None => builder.memory(),
    };
    let limits = builder.build().await.unwrap();
    let limiter = limits.configured("x");
    limiter.acquire(10).await.unwrap();
    let [large, one, two] = wait_in_line(&limiter, [8, 1, 1]).await;
    file.write(&yaml(algorithm, after));
    limits.reload().unwrap();
    let over = async |waiter: Waiter| {
        let waited = timeout(5 * SECOND, waiter).await;
        waited.unwrap_or_else(|_| panic!("{name}: it still waits")).unwrap()
    };
    let rejection = over(large).await.unwrap_err();
    assert_eq!(rejection.reason(), Reason::ExceedsCapacity, "{name}: {rejection}");
    for small in [one, two] {
        match over(small).await {
            Ok(permits) => assert!(permits == 1 && !after.starts_with("rate: 0"), "{name}"),
            Err(rejection) => {
                assert_eq!(rejection.reason(), Reason::ExceedsCapacity, "{name}: {rejection}");
                assert!(after.starts_with("rate: 0"), "{name}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_rejected_and_the_calls_behind_it_go_on() {
    let server = RedisServer::start();
    for server in [None, Some(&server)] {
        // Slow at first: a call that is waiting must still be when the limit changes.
        let slow = "rate: 10, per: 10s";
        tokio::join!(
            changed("token_bucket", server, [slow, "rate: 10, per: 1s, burst: 5"]),
            changed("leaky_bucket", server, [slow, "rate: 5, per: 1s"]),
            changed("token_bucket", server, [slow, "rate: 0, per: 1s"]),
            changed("leaky_bucket", server, [slow, "rate: 0, per: 1s"]),
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_change_by_another_process_too() {
    let server = RedisServer::start();
    let limits = async |settings| {
        let builder = Limits::builder().redis(server.url());
        builder.limits_yaml(yaml("token_bucket", settings)).build().await.unwrap()
    };
    let (here, there) = (limits("rate: 10, per: 10s").await, limits("rate: 10, per: 10s").await);
    let limiter = here.configured("x");
    limiter.acquire(10).await.unwrap();
    let [one, large, two] = wait_in_line(&limiter, [1, 8, 1]).await;
    let smaller = ratelimit_runtime::Quota::new(10, SECOND).unwrap().token_bucket(5).unwrap();
    there.configured("x").set_rate(smaller).await.unwrap();
    let over =
        async |waiter: Waiter| timeout(5 * SECOND, waiter).await.expect("it is over").unwrap();
    assert!(over(one).await.is_ok());
    assert_eq!(over(large).await.unwrap_err().reason(), Reason::ExceedsCapacity);
    assert!(over(two).await.is_ok());
}
