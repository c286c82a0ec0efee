//! The token bucket and governor admit the same calls, as `docs/migration.md` says.

use std::{num::NonZeroU32, time::Duration};

use governor::{
    InsufficientCapacity, Quota as Cells, RateLimiter,
    clock::{Clock, FakeRelativeClock},
    middleware::StateInformationMiddleware,
};
use ratelimit_runtime::{Quota, Reason, test_util};
use tests::Random;

fn cells(n: u64) -> NonZeroU32 {
    NonZeroU32::new(n.try_into().unwrap()).unwrap()
}

/// Milliseconds, rounded up.
fn whole_ms(wait: Duration) -> Duration {
    Duration::from_millis(wait.as_nanos().div_ceil(1_000_000).try_into().unwrap())
}

/// Makes the same random calls to both, at the same times: pauses between 0 and three times what it takes to fill the
/// bucket, and costs up to one permit more than it holds.
async fn compare(rate: u64, per_ms: u64, burst: u64) {
    let per = Duration::from_millis(per_ms);
    let name = format!("{rate} per {per:?}, burst {burst}");
    let (limits, time) = test_util::limits();
    let ours =
        limits.limiter("bucket", Quota::new(rate, per).unwrap().token_bucket(burst).unwrap());
    let clock = FakeRelativeClock::default();
    let interval = per / u32::try_from(rate).unwrap();
    let quota = Cells::with_period(interval).unwrap().allow_burst(cells(burst));
    let theirs = RateLimiter::direct_with_clock(quota, clock.clone())
        .with_middleware::<StateInformationMiddleware>();

    let (mut random, mut admitted, mut rejected, mut too_large) = (Random::new(burst), 0, 0, 0);
    let to_fill = per_ms * burst / rate;
    for call in 0..5_000 {
        let pause = match random.below(8) {
            0..3 => 0,
            3..7 => random.below(per_ms * 3 / rate + 2),
            _ => random.below(to_fill * 3 + 2),
        };
        let pause = Duration::from_millis(pause);
        time.advance(pause);
        clock.advance(pause);
        let cost = if random.below(3) == 0 { 1 + random.below(burst + 1) } else { 1 };
        let (our, their) = (ours.try_acquire(cost).await, theirs.check_n(cells(cost)));
        let at = format!("{name}, call {call}, cost {cost}: {our:?}, {their:?}");
        match (our, their) {
            (Ok(permit), Ok(Ok(state))) => {
                admitted += 1;
                assert_eq!(permit.remaining(), u64::from(state.remaining_burst_capacity()), "{at}");
            }
            (Err(rejection), Ok(Err(not_until))) => {
                rejected += 1;
                assert_eq!(rejection.reason(), Reason::Limited, "{at}");
                let wait = whole_ms(not_until.wait_time_from(clock.now()));
                assert_eq!(rejection.retry_after(), Some(wait), "{at}");
            }
            (Err(rejection), Err(InsufficientCapacity(most))) => {
                too_large += 1;
                assert_eq!(rejection.reason(), Reason::ExceedsCapacity, "{at}");
                assert_eq!(u64::from(most), burst, "{at}");
            }
            _ => panic!("{at}"),
        }
    }
    assert!(
        admitted > 500 && rejected > 500 && too_large > 5,
        "{name}: {admitted}, {rejected}, {too_large}"
    );
}

#[tokio::test]
async fn governor_admits_the_same_calls() {
    for (rate, per_ms, burst) in [
        // `Quota::per_second(10)`, with its own burst and with others.
        (10, 1_000, 10),
        (10, 1_000, 1),
        (10, 1_000, 3),
        (10, 1_000, 50),
        // Intervals that are no whole number of milliseconds, or of nanoseconds.
        (4, 1, 6),
        (64, 1_000, 20),
        (3, 1_000, 3),
        (7, 60_000, 20),
        // tower_governor: one permit every 500 ms and 8 at once; one every 4 s and 2 at once.
        (1, 500, 8),
        (1, 4_000, 2),
    ] {
        compare(rate, per_ms, burst).await;
    }
}

/// governor's interval is a whole number of nanoseconds, so after 3 billion permits of 3 per second it is a second ahead.
#[test]
fn governor_rounds_its_interval_down() {
    let interval = Cells::per_second(cells(3)).replenish_interval();
    assert_eq!(interval, Duration::from_nanos(333_333_333));
}
