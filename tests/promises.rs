//! What every rule promises on both stores, over random histories: a refusal tells the exact wait,
//! what is too much takes nothing, and a clock that steps back admits nobody twice.
#![allow(clippy::disallowed_methods, reason = "real servers live in real time")]

#[path = "promises/world.rs"]
mod world;

use std::time::Duration;

use proptest::prelude::*;
use ratelimit_runtime::__private::store::{
    Algorithm::{FixedWindow, LeakyBucket, SlidingWindow, TokenBucket},
    Assertion, Config, MemberId, Mode, OnDrift, Outcome, Request, Rule, StateKeys,
};
use tests::{decide, redis_server::RedisServer, window};
use tokio::time::Instant;

use self::world::World;

const STEP_BACK_MS: u64 = 5_000;

#[derive(Clone, Copy, Debug)]
enum Step {
    Advance(u64),
    /// Asks for a part of the capacity, in thousandths.
    Ask(u64),
    /// Asks for more than there is.
    TooMuch(u32),
    /// The server's clock, not time, goes back.
    Rewind,
}

impl Step {
    fn permits(part: u64, config: &Config) -> u32 {
        u32::try_from(1 + part * (config.capacity() - 1) / 1000).unwrap()
    }
}

/// One limiter of each rule; a token bucket smaller, and one larger than its rate.
fn configs() -> impl Strategy<Value = Config> {
    let rules = prop::sample::select(vec![
        (SlidingWindow, 0),
        (TokenBucket, 1),
        (TokenBucket, 4),
        // One that warms up.
        (TokenBucket, 0),
        (FixedWindow, 0),
        (LeakyBucket, 0),
    ]);
    (rules, 2..30_u32, prop::sample::select(vec![20, 100, 1000, 7001])).prop_map(
        |((algorithm, bursts), rate, per_ms)| {
            let config = Config::new(rate.into(), per_ms, Mode::Overall);
            config.rule(match (algorithm, bursts) {
                (TokenBucket, 0) => {
                    Rule::WarmingBucket { warm_up: Duration::from_millis(per_ms * 3) }
                }
                _ => algorithm.rule((bursts * rate).div_ceil(2)),
            })
        },
    )
}

fn histories(steps_back: u32) -> impl Strategy<Value = (Config, Vec<Step>)> {
    configs().prop_flat_map(move |config| {
        let per = config.per_ms;
        let advance = prop_oneof![Just(0), Just(1), Just(per - 1), Just(per), 0..per, 0..per * 2];
        let step = prop_oneof![
            5 => advance.prop_map(Step::Advance),
            8 => prop_oneof![Just(0), 0..1000_u64, Just(1000)].prop_map(Step::Ask),
            1 => (1..5_u32).prop_map(Step::TooMuch),
            steps_back => Just(Step::Rewind),
        ];
        (Just(config), prop::collection::vec(step, 1..60))
    })
}

/// Runs a promise over random histories on a limiter in each store.
fn on_both_stores(cases: u32, steps_back: u32, promise: impl Fn(&mut World, Config, Vec<Step>)) {
    let server = RedisServer::start();
    for redis in [None, Some(&server)] {
        let mut world = World::new(redis);
        let world = std::cell::RefCell::new(&mut world);
        let run = |(config, history)| {
            let mut world = world.borrow_mut();
            world.next_limiter();
            promise(&mut world, config, history);
            Ok(())
        };
        tests::random_histories(cases).run(&histories(steps_back), run).unwrap();
    }
}

#[test]
fn waiting_as_long_as_told_admits_and_a_millisecond_less_does_not() {
    on_both_stores(600, 1, |world, config, history| {
        for step in history {
            match step {
                Step::Advance(ms) => world.advance(ms),
                Step::Rewind => world.step_back(STEP_BACK_MS),
                Step::TooMuch(_) => {}
                Step::Ask(part) => {
                    let permits = Step::permits(part, &config);
                    let seen = world.peek(config, permits);
                    let reply = world.acquire(config, permits);
                    assert_eq!(seen.outcome, reply.outcome, "{config:?}: {permits}");
                    if reply.outcome == Outcome::Granted {
                        continue;
                    }
                    let wait = reply.retry_after_ms;
                    assert_eq!(
                        seen.retry_after_ms, wait,
                        "{config:?}: {permits}, peeked and taken"
                    );
                    assert!(wait > 0, "{config:?}: {permits} refused without a wait");
                    world.advance(wait - 1);
                    let early = world.acquire(config, permits);
                    assert_eq!(
                        (early.outcome, early.retry_after_ms),
                        (Outcome::Refused, 1),
                        "{config:?}: {permits}, 1 ms before the end of {wait} ms"
                    );
                    world.advance(1);
                    let in_time = world.acquire(config, permits);
                    assert_eq!(in_time.outcome, Outcome::Granted, "{config:?}: {permits}, {wait}");
                }
            }
        }
    });
}

#[test]
fn a_cost_above_the_capacity_never_takes_anything() {
    on_both_stores(300, 0, |world, config, history| {
        for step in history {
            match step {
                Step::Advance(ms) => world.advance(ms),
                Step::Rewind => world.step_back(STEP_BACK_MS),
                Step::Ask(part) => {
                    world.acquire(config, Step::permits(part, &config));
                }
                Step::TooMuch(more) => {
                    let capacity = u32::try_from(config.capacity()).unwrap();
                    let before = world.peek(config, capacity);
                    let reply = world.acquire(config, capacity + more);
                    assert_eq!(reply.outcome, Outcome::ExceedsCapacity);
                    assert_eq!(world.peek(config, capacity), before, "{config:?}");
                }
            }
        }
    });
}

#[test]
fn a_clock_that_steps_back_5_s_admits_nobody_twice() {
    on_both_stores(600, 1, |world, config, history| {
        let mut admitted = Vec::new();
        for step in history {
            match step {
                Step::Advance(ms) => world.advance(ms),
                Step::Rewind => world.step_back(STEP_BACK_MS),
                Step::TooMuch(_) => {}
                Step::Ask(part) => {
                    let permits = Step::permits(part, &config);
                    if world.acquire(config, permits).outcome == Outcome::Granted {
                        admitted.push((world.elapsed_ms(), u64::from(permits)));
                    }
                }
            }
        }
        assert_kept(&config, &admitted);
    });
}

/// Checks what a rule says of any history, by time that never steps back.
fn assert_kept(config: &Config, admitted: &[(u64, u64)]) {
    let Config { rate, per_ms, .. } = *config;
    match config.rule.algorithm() {
        TokenBucket | LeakyBucket => assert_drained(config, admitted),
        // What was taken at the end of one window, and at the start of the next.
        FixedWindow => window::assert_kept(admitted, per_ms, 2 * rate),
        _ => window::assert_kept(admitted, per_ms, rate),
    }
}

/// A bucket that holds its capacity is never more than full; a leaky one is empty before each grant.
fn assert_drained(config: &Config, admitted: &[(u64, u64)]) {
    let (mut level, mut last) = (0, 0);
    for &(at, permits) in admitted {
        level = u128::saturating_sub(level, u128::from(at - last) * u128::from(config.rate));
        assert!(
            level == 0 || config.rule != Rule::LeakyBucket,
            "{config:?}: {permits} at {at} ms, too early: {admitted:?}"
        );
        level += u128::from(permits) * u128::from(config.per_ms);
        let full = u128::from(config.capacity()) * u128::from(config.per_ms);
        assert!(level <= full, "{config:?}: {permits} at {at} ms is too much: {admitted:?}");
        last = at;
    }
}

#[test]
fn a_clock_that_stepped_back_locks_nobody_out() {
    on_both_stores(300, 1, |world, config, history| {
        for step in history {
            match step {
                Step::Advance(ms) => world.advance(ms),
                Step::Rewind => world.step_back(STEP_BACK_MS),
                Step::TooMuch(_) => {}
                Step::Ask(part) => {
                    world.acquire(config, Step::permits(part, &config));
                }
            }
        }
        let capacity = u32::try_from(config.capacity()).unwrap();
        // What a cold one hands out costs three times as much.
        let coldest = if config.warm_up_ms() > 0 { 3 } else { 1 };
        let longest = config.per_ms * config.capacity().div_ceil(config.rate) * coldest;
        if world.acquire(config, capacity).outcome == Outcome::Refused {
            // The step is noticed now. What is used goes by then, in a fixed window after the next.
            world.advance(longest + config.per_ms);
            assert_eq!(world.acquire(config, capacity).outcome, Outcome::Granted, "{config:?}");
        }
    });
}

/// Ten permits in any two seconds: (ms, permits asked for, permits left or the wait).
const TRACE: [(u64, u32, Result<u64, u64>); 14] = [
    (0, 4, Ok(6)),
    (500, 5, Ok(1)),
    // One is free, and the four of 0 ms come back at 2000.
    (900, 2, Err(1100)),
    (1000, 1, Ok(0)),
    (1500, 1, Err(500)),
    (1999, 4, Err(1)),
    (2000, 3, Ok(1)),
    // One, five at 2500 and one at 3000.
    (2000, 7, Err(1000)),
    (2499, 2, Err(1)),
    (2500, 6, Ok(0)),
    (3000, 1, Ok(0)),
    // All of them, and the last was taken just now.
    (3000, 10, Err(2000)),
    (3999, 3, Err(1)),
    (4000, 3, Ok(0)),
];

#[test]
fn a_sliding_window_of_ten_in_2_s_goes_by_its_trace() {
    let (server, config) = (RedisServer::start(), Config::new(10, 2000, Mode::Overall));
    for redis in [None, Some(&server)] {
        let mut world = World::new(redis);
        for (at, permits, expected) in TRACE {
            world.advance(at - world.elapsed_ms());
            let reply = world.acquire(config, permits);
            let said = match reply.outcome {
                Outcome::Granted => Ok(reply.remaining),
                _ => Err(reply.retry_after_ms),
            };
            assert_eq!(said, expected, "{permits} at {at} ms");
        }
    }
}

/// Three in a fixed window of a second, from its start: (how far the clock goes, or back, before the
/// call, permits asked for, permits left or the wait), in milliseconds.
const STEPS_BACK: [(i64, u32, Result<u64, u64>); 12] = [
    (10, 3, Ok(0)),
    // The window before is over already.
    (-20, 1, Err(1010)),
    (500, 1, Err(510)),
    (509, 1, Err(1)),
    (1, 1, Ok(2)),
    (-1, 2, Ok(0)),
    (1, 1, Err(1000)),
    // Two windows back, what was used is used for a window from now: the last one of these may have
    // been used at its end.
    (-2600, 1, Err(1000)),
    (999, 1, Err(1)),
    (1, 2, Ok(1)),
    (999, 2, Err(1)),
    (1, 3, Ok(0)),
];

#[test]
fn a_fixed_window_goes_by_its_trace_when_the_clock_steps_back() {
    let (server, per) = (RedisServer::start(), 1000);
    let config = Config::new(3, per, Mode::Overall).rule(FixedWindow.rule(0));
    for redis in [None, Some(&server)] {
        let mut world = World::new(redis);
        world.acquire(config, 3);
        let to_the_next = world.acquire(config, 1).retry_after_ms;
        world.advance(to_the_next);
        for (n, (moved, permits, expected)) in STEPS_BACK.into_iter().enumerate() {
            match u64::try_from(moved) {
                Ok(ms) => world.advance(ms),
                Err(_) => world.step_back(moved.unsigned_abs()),
            }
            let seen = world.peek(config, permits);
            let reply = world.acquire(config, permits);
            let said = match reply.outcome {
                Outcome::Granted => Ok(reply.remaining),
                _ => Err(reply.retry_after_ms),
            };
            assert_eq!(said, expected, "step {n}: {permits}, {moved} ms later");
            let wait = expected.err().unwrap_or(0);
            assert_eq!((seen.outcome, seen.retry_after_ms), (reply.outcome, wait), "step {n}");
        }
    }
}

#[test]
fn the_log_of_a_hundred_thousand_permits_stays_in_the_small_encoding() {
    let (server, config) = (RedisServer::start(), Config::new(100_000, 60_000, Mode::Overall));
    let mut world = World::new(Some(&server));
    for _ in 0..10_000 {
        assert_eq!(world.acquire(config, 10).outcome, Outcome::Granted);
        world.advance(6);
    }
    let log = "{promise}:permits";
    let members: u64 = server.cli(&["ZCARD", log]);
    let bytes: u64 = server.cli(&["MEMORY", "USAGE", log, "SAMPLES", "0"]);
    let encoding: String = server.cli(&["OBJECT", "ENCODING", log]);
    println!("{members} members, {bytes} bytes, a {encoding}");
    assert!(members <= 128 && encoding != "skiplist" && bytes <= 4_096);
}

#[test]
fn a_bucket_or_fixed_window_with_a_name_of_twenty_bytes_takes_250_bytes_in_redis() {
    let server = RedisServer::start();
    let mut redis = server.connect().unwrap();
    for rule in
        [Rule::TokenBucket { burst: 100 }, Rule::LeakyBucket, Rule::FixedWindow { calendar: None }]
    {
        let config = Config::new(100, 60_000, Mode::Overall).rule(rule).keep_alive_ms(120_000);
        let keys = StateKeys::new(format!("order:user:{:09}", 7));
        for assertion in [Assertion::First(OnDrift::Reset), Assertion::Steady] {
            let request = Request::new(&keys, config, Instant::now()).assertion(assertion);
            let request = request.member(Some(MemberId::new(1 << 31, 1 << 31)));
            let call = decide::call(&request, &[1], 1_795_589_091_304_638, false);
            call.exec(&mut redis).unwrap();
        }
        let bytes: u64 = server.cli(&["MEMORY", "USAGE", keys.config()]);
        println!("{rule:?}: {bytes} bytes");
        assert!(bytes <= 250, "{rule:?}: {bytes} bytes");
        server.cli::<i64>(&["DEL", keys.config()]);
    }
}
