//! A change of the rate carries what was promised before it.

use std::sync::{Arc, Mutex};

use ratelimit_runtime::{Limiter, Limits, Quota, RateChange};
use tests::{
    place::{Place, at},
    window::worst_window,
};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout_at},
};

use super::{SECOND, ms};

const PER_MS: u64 = 200;

/// When callers were admitted, by the store's clock, with their permits.
type Admitted = Arc<Mutex<Vec<(u64, u64)>>>;

/// A limiter by each rule of a bucket, and what it holds beside its rate.
fn buckets(rate: u64) -> [(&'static str, u64, Quota); 4] {
    let quota = Quota::new(rate, ms(PER_MS)).unwrap();
    [
        ("leaky", 0, quota.leaky_bucket().unwrap()),
        ("token1", 1, quota.token_bucket(1).unwrap()),
        ("token4", 4, quota.token_bucket(4).unwrap()),
        ("warming", 0, quota.warming_bucket(ms(PER_MS)).unwrap()),
    ]
}

fn crowd(limiter: &Limiter, admitted: &Admitted) -> Vec<JoinHandle<()>> {
    let wait = |_| {
        let (limiter, admitted) = (limiter.clone(), Arc::clone(admitted));
        tokio::spawn(async move {
            let permit = limiter.acquire(1).await.unwrap();
            admitted.lock().unwrap().push((at(&permit), 1));
        })
    };
    (0..50).map(wait).collect()
}

/// At most what the higher rate and the bucket allow in any window, and not much less in all.
#[track_caller]
fn assert_carried(name: &str, burst: u64, admitted: &[(u64, u64)]) {
    let worst = worst_window(admitted, PER_MS).unwrap();
    assert!(worst.permits <= 11 + burst, "{name}: {worst:?}");
    assert_eq!(admitted.len(), 100, "{name}");
    let (first, last) = (admitted[0].0, admitted.iter().map(|(at, _)| *at).max().unwrap());
    // A warming bucket begins at a third of its rate.
    assert!(last - first < 6000, "{name}: {} ms for 100 permits", last - first);
}

async fn fifty_wait_and_fifty_more(place: Place) {
    let limits = place.limits().await;
    for (n, (name, burst, quota)) in buckets(10).into_iter().enumerate() {
        let (limiter, admitted) = (limits.limiter(name, quota), Arc::default());
        let mut waiting = crowd(&limiter, &admitted);
        sleep(ms(300)).await;
        let to = RateChange::new(buckets(11)[n].2).carry();
        assert!(limiter.update_rate(to).await.unwrap());
        waiting.extend(crowd(&limiter, &admitted));
        for caller in waiting {
            caller.await.unwrap();
        }
        assert_carried(name, burst, &admitted.lock().unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn fifty_wait_and_fifty_more_embedded() {
    fifty_wait_and_fifty_more(Place::Embedded).await;
}

#[tokio::test]
async fn fifty_wait_and_fifty_more_redis() {
    fifty_wait_and_fifty_more(Place::redis()).await;
}

/// The same change, made by a limits file that is read again: by this process or by another one.
async fn by_the_limits_file(place: Place, other: bool) {
    let dir = tests::redis_server::RedisServer::start();
    for (name, burst, _) in buckets(10) {
        let rule = match name {
            "leaky" => "algorithm: leaky_bucket".to_owned(),
            "warming" => format!("algorithm: token_bucket, warm_up: {PER_MS}ms"),
            _ => format!("algorithm: token_bucket, burst: {burst}"),
        };
        let file = dir.data_dir().join(format!("{name}.yaml"));
        let write = |rate: u64| {
            let yaml = format!(
                "limiters:\n  {name}: {{ rate: {rate}, per: {PER_MS}ms, on_drift: carry, {rule} }}\n"
            );
            std::fs::write(&file, yaml).unwrap();
        };
        write(10);
        let build =
            async || -> Limits { place.builder().limits_file(&file).build().await.unwrap() };
        let (limits, others) = (build().await, build().await);
        let (limiter, admitted) = (limits.configured(name), Arc::default());
        let mut waiting = crowd(&limiter, &admitted);
        sleep(ms(300)).await;
        write(11);
        let changed = if other { &others } else { &limits };
        changed.reload().unwrap();
        waiting.extend(crowd(&changed.configured(name), &admitted));
        for caller in waiting {
            caller.await.unwrap();
        }
        assert_carried(name, burst, &admitted.lock().unwrap());
        let rate = limiter.config().await.unwrap().unwrap().quotas[0].rate();
        assert_eq!(rate, 11, "{name}");
    }
}

#[tokio::test]
async fn by_the_limits_file_embedded() {
    by_the_limits_file(Place::Embedded, false).await;
}

#[tokio::test]
async fn by_the_limits_file_redis() {
    by_the_limits_file(Place::redis(), false).await;
}

#[tokio::test]
async fn by_the_limits_file_of_another_process() {
    by_the_limits_file(Place::redis(), true).await;
}

/// Callers that want all permits until `end`.
fn eager(limiter: &Limiter, end: Instant) -> (Vec<JoinHandle<()>>, Admitted) {
    let admitted = Admitted::default();
    let task = |_| {
        let (limiter, admitted) = (limiter.clone(), Arc::clone(&admitted));
        tokio::spawn(async move {
            while let Ok(permit) = timeout_at(end, limiter.acquire(1)).await {
                admitted.lock().unwrap().push((at(&permit.unwrap()), 1));
            }
        })
    };
    ((0..64).map(task).collect(), admitted)
}

/// Rates that change to and fro cost hardly a permit.
async fn to_and_fro(place: Place) {
    let limits = place.limits().await;
    for (n, (name, burst, quota)) in buckets(40).into_iter().enumerate() {
        let end = Instant::now() + 3 * SECOND;
        let limiter = limits.limiter(name, quota);
        let (mut tasks, admitted) = eager(&limiter, end);
        // A busy machine keeps these callers from as many permits.
        let (others, steady) = eager(&limits.limiter(&format!("{name}:steady"), quota), end);
        tasks.extend(others);
        for rate in [56, 40].into_iter().cycle().take(17) {
            sleep(ms(170)).await;
            let to = RateChange::new(buckets(rate)[n].2).carry();
            assert!(limiter.update_rate(to).await.unwrap());
        }
        for task in tasks {
            task.await.unwrap();
        }
        let (admitted, steady) = (admitted.lock().unwrap(), steady.lock().unwrap().len());
        let worst = worst_window(&admitted, PER_MS).unwrap();
        assert!(worst.permits <= 56 + burst, "{name}: {worst:?}");
        // 3 s at 200 to 280 a second; a warming bucket begins at a third of that.
        let least = match (&place, name) {
            (Place::Embedded, "warming") => 450,
            (Place::Embedded, _) => 560,
            (Place::Redis(_), _) => steady * 3 / 4,
        };
        assert!(
            admitted.len() >= least,
            "{name}: {} admitted, {steady} of a steady rate",
            admitted.len()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn to_and_fro_embedded() {
    to_and_fro(Place::Embedded).await;
}

#[tokio::test]
async fn to_and_fro_redis() {
    to_and_fro(Place::redis()).await;
}
