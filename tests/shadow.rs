//! Shadow mode: limits that decide and count as ever, and refuse nobody.
#![allow(clippy::disallowed_methods, reason = "real servers live in real time")]

#[path = "shadow/functions.rs"]
mod functions;
#[path = "shadow/outage.rs"]
mod outage;
#[path = "shadow/switch.rs"]
mod switch;

use std::time::Duration;

use ratelimit_runtime::{
    Decision, Limiter, Limits, LimitsBuilder, Permit, Reason, Rejection, test_util::ManualClock,
};
use tests::redis_server::RedisServer;

const HOUR: Duration = Duration::from_secs(3_600);

fn embedded(yaml: &str) -> LimitsBuilder {
    Limits::builder().memory().limits_yaml(yaml)
}

fn on_redis(server: &RedisServer, yaml: &str) -> LimitsBuilder {
    // Long enough that no decision misses it because the machine is busy.
    let deadline = Duration::from_secs(20);
    Limits::builder().redis(server.url()).limits_yaml(yaml).deadline(deadline)
}

/// What the report counts of a limiter: allowed, rejected, waited, shadowed.
fn counted(limits: &Limits, key: &str) -> [u64; 4] {
    let report = limits.report();
    let limiter = report.limiters.iter().find(|limiter| limiter.key == key).expect(key);
    [limiter.allowed, limiter.rejected, limiter.waited, limiter.shadowed]
}

fn reason<T: std::fmt::Debug>(result: Result<T, Rejection>) -> Reason {
    result.unwrap_err().reason()
}

/// What a look and a request that was granted have in common.
trait Told {
    fn decision(self) -> Decision;
}

impl Told for Decision {
    fn decision(self) -> Decision {
        self
    }
}

impl Told for Permit {
    fn decision(self) -> Decision {
        let taken = self.permits() > 0;
        assert!(self.shadowed().is_none() || !taken, "{self:?}");
        Decision::clone(&self)
    }
}

/// A decision that shadow mode let through, checked for what all of them have in common.
fn overruled(result: Result<impl Told, Rejection>) -> Decision {
    let decision = result.unwrap().decision();
    assert!(decision.shadowed().is_some(), "{decision:?}");
    decision
}

fn granted(result: Result<impl Told, Rejection>) -> Decision {
    let decision = result.unwrap().decision();
    assert!(decision.shadowed().is_none(), "{decision:?}");
    assert_eq!(decision.retry_after(), None);
    decision
}

/// Uses a limiter of 3 permits an hour up, and more.
async fn use_up(limiter: &Limiter) {
    assert_eq!(granted(limiter.peek(1).await).remaining(), 3);
    assert_eq!(granted(limiter.try_acquire(2).await).remaining(), 1);
    // What is refused takes nothing, so that what fits is still granted.
    assert_eq!(overruled(limiter.try_acquire(2).await).remaining(), 1);
    assert_eq!(granted(limiter.acquire(1).await).remaining(), 0);
    for _ in 0..20 {
        let decisions = [
            overruled(limiter.try_acquire(1).await),
            overruled(limiter.acquire(1).await),
            overruled(limiter.acquire_timeout(1, Duration::from_millis(1)).await),
            overruled(limiter.acquire_timeout(1, 2 * HOUR).await),
            overruled(limiter.peek(1).await),
        ];
        for decision in decisions {
            assert_eq!((decision.remaining(), decision.quota().unwrap().rate()), (0, 3));
            assert_eq!(decision.shadowed(), Some(Reason::Limited));
            let told = decision.retry_after().unwrap();
            assert!(told <= HOUR && told > HOUR - Duration::from_secs(60), "{told:?}");
            assert!(!decision.is_degraded());
        }
    }
}

#[tokio::test]
async fn both_stores_and_both_modes_decide_as_ever_and_refuse_nobody() {
    let server = RedisServer::start();
    for mode in ["overall", "per_client"] {
        let yaml = format!(
            "limiters:\n  {mode}: {{ rate: 3, per: 1h, mode: {mode}, shadow: true, max_waiters: 0 }}\n"
        );
        for builder in [embedded(&yaml), on_redis(&server, &yaml)] {
            let limits = builder.build().await.unwrap();
            let limiter = limits.configured(mode);
            use_up(&limiter).await;
            assert_eq!(limiter.available_permits().await.unwrap(), 0, "permits are taken");
            assert_eq!(counted(&limits, mode), [83, 0, 0, 81], "{mode}");
            assert_eq!(limiter.release(3).await.unwrap(), 3);
            assert_eq!(granted(limiter.try_acquire(3).await).remaining(), 0);
        }
    }
}

#[tokio::test]
async fn it_would_have_refused_whatever_a_limit_in_force_refuses() {
    let time = ManualClock::new();
    let numbers = "rate: 7, per: 1s";
    let yaml = format!("limiters:\n  on: {{ {numbers} }}\n  off: {{ {numbers}, shadow: true }}\n");
    let limits = embedded(&yaml).clock(time.clone()).build().await.unwrap();
    let (on, off) = (limits.configured("on"), limits.configured("off"));
    let mut refused = 0;
    for n in 0..2_000_u32 {
        let permits = 1 + n.wrapping_mul(2_654_435_761) % 5;
        time.advance(Duration::from_millis(u64::from(n * 37 % 301)));
        match on.try_acquire(permits.into()).await {
            Ok(decision) => {
                let numbers = |told: &Decision| {
                    (told.remaining(), told.reset_after(), told.quota(), told.at())
                };
                let other = granted(off.try_acquire(permits.into()).await);
                assert_eq!(numbers(&other), numbers(&decision));
            }
            Err(rejection) => {
                refused += 1;
                let decision = overruled(off.try_acquire(permits.into()).await);
                assert_eq!(decision.retry_after(), rejection.retry_after());
                assert_eq!(decision.quota(), rejection.violated().first().copied());
            }
        }
    }
    assert!((500..1_500).contains(&refused), "{refused} of 2000");
    assert_eq!(counted(&limits, "off"), [2_000, 0, 0, refused]);
}

#[tokio::test]
async fn a_process_in_shadow_mode_and_one_in_force_share_a_limiter() {
    let server = RedisServer::start();
    let yaml = |shadow: bool| format!("limiters:\n  x: {{ rate: 3, per: 1h, shadow: {shadow} }}\n");
    let shadow = on_redis(&server, &yaml(true)).build().await.unwrap().configured("x");
    let force = on_redis(&server, &yaml(false)).build().await.unwrap().configured("x");
    granted(shadow.try_acquire(2).await);
    overruled(shadow.try_acquire(2).await);
    granted(force.try_acquire(1).await);
    assert_eq!(reason(force.try_acquire(1).await), Reason::Limited);
    overruled(shadow.try_acquire(1).await);
}

#[tokio::test]
async fn what_can_never_be_granted_is_admitted_without_asking() {
    let server = RedisServer::start();
    let yaml = "shadow: true\nlimiters:\n  few: { rate: 3, per: 1h }\n  none: { rate: 0 }\n";
    for builder in [embedded(yaml), on_redis(&server, yaml)] {
        let limits = builder.build().await.unwrap();
        for (name, permits, rate) in [("few", 4, 3), ("none", 1, 0)] {
            let limiter = limits.configured(name);
            for result in [limiter.try_acquire(permits).await, limiter.acquire(permits).await] {
                let decision = overruled(result);
                assert_eq!((decision.remaining(), decision.retry_after()), (0, None));
                assert_eq!(decision.quota().unwrap().rate(), rate);
            }
            assert_eq!(counted(&limits, name), [2, 0, 0, 2]);
        }
        assert_eq!(granted(limits.configured("few").peek(1).await).remaining(), 3);
        assert_eq!(overruled(limits.configured("none").peek(1).await).retry_after(), None);
    }
}

#[tokio::test]
async fn numbers_that_only_the_store_has_are_shadowed_too() {
    let server = RedisServer::start();
    let theirs = on_redis(&server, "limiters:\n  java: { rate: 1, per: 1h }\n");
    theirs.build().await.unwrap().configured("java").try_acquire(1).await.unwrap();
    for yaml in [
        "limiters:\n  java: { shadow: true }\n",
        "prefixes:\n  - { prefix: ja, shadow: true }\n",
        "default: { shadow: true }\n",
        "shadow: true\n",
    ] {
        let limits = on_redis(&server, yaml).build().await.unwrap();
        assert_eq!(
            overruled(limits.configured("java").acquire(1).await).quota().unwrap().rate(),
            1,
            "{yaml}"
        );
        // No numbers anywhere are a mistake in the set-up, not a limit.
        assert_eq!(reason(limits.configured("jazz").acquire(1).await), Reason::NotConfigured);
    }
}

#[tokio::test]
async fn free_calls_and_a_limiter_that_is_off_are_not_counted() {
    let yaml = "shadow: true\nlimiters:\n  x: { rate: 1, per: 1h }\n  off: { rate: 1, per: 1h, enabled: false }\n";
    let limits = embedded(yaml).build().await.unwrap();
    granted(limits.configured("x").acquire(0).await);
    for _ in 0..3 {
        let decision = granted(limits.configured("off").acquire(1).await);
        assert_eq!(decision.quota(), None, "it is turned off");
    }
    assert_eq!(counted(&limits, "off"), [3, 0, 0, 0]);
}
