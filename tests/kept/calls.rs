//! The calls these tests make, in one place: what the API is called is not what they are about.

use std::time::Duration;

use ratelimit_runtime::{
    Limiter, Limits, LimitsBuilder, Quota, RateChange, Reason, Rejection, StoreError,
    test_util::ManualClock,
};
use tests::{limits_file::LimitsFile, redis_server::RedisServer};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const HOUR: Duration = Duration::from_secs(3_600);
/// Long enough that no decision misses it because the machine is busy.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) fn quota(rate: u64, per: Duration) -> Quota {
    Quota::new(rate, per).unwrap()
}

/// A quota of each rule; buckets hold one permit.
pub(crate) fn every_rule(rate: u64, per: Duration) -> [(&'static str, Quota); 4] {
    let quota = quota(rate, per);
    [
        ("sliding window", quota),
        ("token bucket", quota.token_bucket(1).unwrap()),
        ("fixed window", quota.fixed_window()),
        ("leaky bucket", quota.leaky_bucket().unwrap()),
    ]
}

fn with_yaml(builder: LimitsBuilder, yaml: &str) -> LimitsBuilder {
    builder.limits_yaml(yaml)
}

pub(crate) async fn embedded(yaml: &str) -> Limits {
    with_yaml(Limits::builder().memory(), yaml).build().await.unwrap()
}

pub(crate) async fn embedded_at(clock: &ManualClock, yaml: &str) -> Limits {
    with_yaml(Limits::builder().memory().clock(clock.clone()), yaml).build().await.unwrap()
}

pub(crate) async fn on_redis(url: impl Into<String>, yaml: &str) -> Limits {
    on_redis_within(DEADLINE, url, yaml).await
}

pub(crate) async fn on_redis_within(
    deadline: Duration,
    url: impl Into<String>,
    yaml: &str,
) -> Limits {
    with_yaml(Limits::builder().redis(url).deadline(deadline), yaml).build().await.unwrap()
}

/// Limits of the embedded store, and of a server.
pub(crate) async fn on_both(server: &RedisServer, yaml: &str) -> [Limits; 2] {
    [embedded(yaml).await, on_redis(server.url(), yaml).await]
}

/// Whether a call got its permits. Only a limit may refuse it.
#[track_caller]
pub(crate) fn admitted<T>(answer: Result<T, Rejection>) -> bool {
    match answer {
        Ok(_) => true,
        Err(rejection) => {
            let limited = matches!(rejection.reason(), Reason::Limited | Reason::WaitTooLong);
            assert!(limited, "{rejection}");
            false
        }
    }
}

pub(crate) fn reason<T>(answer: Result<T, Rejection>) -> Option<Reason> {
    answer.err().map(|rejection| rejection.reason())
}

/// How many of these calls for one permit are admitted.
pub(crate) async fn admitted_of(limiter: &Limiter, calls: u64) -> u64 {
    let mut admitted_calls = 0;
    for _ in 0..calls {
        admitted_calls += u64::from(admitted(limiter.try_acquire(1).await));
    }
    admitted_calls
}

/// After which time a refused call can succeed.
pub(crate) async fn retry_after(limiter: &Limiter, permits: u64) -> Duration {
    let rejection = limiter.try_acquire(permits).await.map(|_| ()).unwrap_err();
    rejection.retry_after().expect("a refusal by a limit tells when to retry")
}

pub(crate) async fn free(limiter: &Limiter) -> u64 {
    limiter.available_permits().await.unwrap()
}

/// Takes permits without asking; what was not free is owed.
pub(crate) async fn owed_after_charge(limiter: &Limiter, permits: u64) -> u64 {
    limiter.charge(permits).await.unwrap().debt
}

pub(crate) async fn carry(limiter: &Limiter, quota: Quota) {
    assert!(limiter.update_rate(RateChange::new(quota).carry()).await.unwrap());
}

pub(crate) async fn reset(limiter: &Limiter, quota: Quota) -> Result<bool, StoreError> {
    limiter.update_rate(quota).await
}

/// Permits per window that the process believes to be in force.
pub(crate) fn rate_in_force(limiter: &Limiter) -> u64 {
    limiter.quotas().unwrap()[0].rate()
}

/// The limits of a process that reads this file.
pub(crate) async fn open(file: &LimitsFile, builder: LimitsBuilder) -> Limits {
    builder.limits_file(file.path()).deadline(DEADLINE).build().await.unwrap()
}
