//! What a decision costs the server, which does nothing else meanwhile: its calls, which are
//! promised, and its time, which is printed.
//!
//! ```sh
//! cargo test -p tests --test cost -- --nocapture
//! ```
#![allow(clippy::disallowed_methods, reason = "real servers live in real time")]

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use ratelimit_runtime::__private::store::{
    Algorithm, Assertion, Config, Group, Mode, OnDrift, Request, StateKeys, script_decide,
};
use redis::{Cmd, Connection, Value};
use tests::{decide, redis_server::RedisServer};
use tokio::time::Instant;

const CALLS: u32 = 2_000;
/// One measures at a time.
static MEASURING: Mutex<()> = Mutex::new(());
const HOUR: u64 = 3_600_000;

fn call(name: &str, config: Config, assertion: Assertion, costs: &[u32], by_name: bool) -> Cmd {
    let keys = StateKeys::new(name);
    let request = Request::new(&keys, config, Instant::now()).assertion(assertion);
    decide::call(&request, costs, 1, by_name)
}

fn steady(name: &str, config: Config) -> Cmd {
    call(name, config, Assertion::Steady, &[1], true)
}

fn first(name: &str, config: Config) -> Cmd {
    call(name, config, Assertion::First(OnDrift::Reset), &[1], true)
}

/// A call for one permit of each of these, under names in one slot.
fn joint(name: &str, configs: &[Config], by_name: bool) -> Cmd {
    let keys: Vec<_> =
        (0..configs.len()).map(|n| StateKeys::new(format!("{{{name}}}:{n}"))).collect();
    let request = |(keys, config)| Request::new(keys, config, Instant::now());
    let requests: Vec<_> = keys.iter().zip(configs.iter().copied()).map(request).collect();
    let costs = vec![&[1][..]; configs.len()];
    script_decide(&[Group { requests: &requests, costs: &costs }], |_| 1, by_name)
}

/// Runs the decisions, and returns how many calls of the server each took.
fn calls_of(redis: &mut Connection, what: &str, decision: impl Fn(u32) -> Cmd) -> f64 {
    some_calls_of(redis, what, CALLS, decision)
}

fn some_calls_of(
    redis: &mut Connection,
    what: &str,
    decisions: u32,
    decision: impl Fn(u32) -> Cmd,
) -> f64 {
    let _: () = redis::cmd("CONFIG").arg("RESETSTAT").query(redis).unwrap();
    for chunk in 0..decisions / 100 {
        let mut pipe = redis::pipe();
        for n in 0..100 {
            pipe.add_command(decision(chunk * 100 + n));
        }
        let _: Vec<Value> = pipe.query(redis).unwrap();
    }
    let stats: String = redis::cmd("INFO").arg("commandstats").query(redis).unwrap();
    let (mut calls, mut micros) = (0.0, 0.0);
    for line in stats.lines() {
        let Some((command, numbers)) = line.split_once(':') else { continue };
        let number = |name: &str| -> f64 {
            let mut fields = numbers.split(',').filter_map(|field| field.split_once('='));
            fields.find(|(field, _)| *field == name).unwrap().1.parse().unwrap()
        };
        match command {
            "cmdstat_evalsha" => micros = number("usec_per_call"),
            "cmdstat_info" | "cmdstat_config|resetstat" | "cmdstat_config" => {}
            _ => calls += number("calls") / f64::from(decisions),
        }
    }
    println!("{what}: {calls:.2} calls, {micros:.2} us");
    calls
}

#[test]
fn a_decision_takes_few_calls_of_the_server() {
    let _alone = MEASURING.lock().unwrap_or_else(PoisonError::into_inner);
    let server = RedisServer::start();
    let mut redis = server.connect().unwrap();
    let fixed = |rate| Config::new(rate, HOUR, Mode::Overall);
    let kept = |rate| fixed(rate).keep_alive_ms(2 * HOUR);
    // By text, so that the server knows it by name.
    call("loaded", fixed(1), Assertion::Steady, &[1], false).exec(&mut redis).unwrap();

    let of = |n: u32| format!("many:{}", n % 100);
    for (what, most, config) in [("", 6.0, fixed(1_000)), (", kept alive", 7.0, kept(1_000))] {
        let _: () = redis::cmd("FLUSHALL").query(&mut redis).unwrap();
        calls_of(&mut redis, &format!("starting processes{what}, 100 keys"), |n| {
            first(&of(n), config)
        });
        let calls =
            calls_of(&mut redis, &format!("grants{what}, 100 keys"), |n| steady(&of(n), config));
        assert!(calls <= most + 0.1, "{calls}");
    }
    for (what, most, config) in [("", 7.0, fixed(10)), (", kept alive", 9.0, kept(10))] {
        let _: () = redis::cmd("FLUSHALL").query(&mut redis).unwrap();
        let calls = calls_of(&mut redis, &format!("first uses{what}, a key each"), |n| {
            first(&format!("new:{n}"), config)
        });
        assert!(calls <= most, "{calls}");
    }
    let calls = calls_of(&mut redis, "grants, one key of 10^9 an hour", |_| {
        steady("hot", fixed(1_000_000_000))
    });
    assert!(calls <= 9.1, "{calls}");
    for members in [1, 50, 150] {
        let name = format!("refused:{members}");
        for _ in 0..members {
            steady(&name, fixed(members)).exec(&mut redis).unwrap();
        }
        let calls = calls_of(&mut redis, &format!("refusals by {members} members"), |_| {
            steady(&name, fixed(members))
        });
        assert!(calls <= 6.1, "{calls}");
    }
    for (what, rule, rate) in [
        ("grants", Algorithm::TokenBucket, 1_000_000),
        ("refusals", Algorithm::TokenBucket, 1),
        ("grants", Algorithm::FixedWindow, 1_000_000),
        ("refusals", Algorithm::FixedWindow, 1),
        ("refusals", Algorithm::LeakyBucket, 1),
    ] {
        let config = fixed(rate.into()).rule(rule.rule(rate));
        let name = format!("{rule}:{what}");
        call(&name, config, Assertion::Steady, &[1], false).exec(&mut redis).unwrap();
        let calls = calls_of(&mut redis, &format!("{what} by a {rule}"), |_| steady(&name, config));
        assert!(calls <= 5.1, "{calls}");
    }
    // A window a tenth of a second long, so that what expires is part of it.
    let busy = Config::new(100, Duration::from_millis(100).as_millis() as u64, Mode::Overall);
    calls_of(&mut redis, "one key of 100 in 100 ms, asked all the time", |_| steady("busy", busy));
    let batch = calls_of(&mut redis, "batches of 50, one key", |_| {
        call("batch", fixed(1_000_000_000), Assertion::Steady, &[1; 50], true)
    });
    assert!(batch <= 9.1, "{batch}");
}

#[test]
fn a_joint_decision_takes_few_calls_for_each_limiter() {
    let _alone = MEASURING.lock().unwrap_or_else(PoisonError::into_inner);
    let server = RedisServer::start();
    let mut redis = server.connect().unwrap();
    let fixed = |rate| Config::new(rate, HOUR, Mode::Overall);
    joint("loaded", &[fixed(1)], false).exec(&mut redis).unwrap();
    for (what, rate, most) in [("grants", 1_000, 11.0), ("refusals", 1, 20.0)] {
        let of = |n: u32| format!("{what}:{}", n % 100);
        let configs = [fixed(rate), fixed(1_000)];
        let what = format!("{what} by two sliding windows, 100 keys");
        if rate > 1 {
            calls_of(&mut redis, &format!("first {what}"), |n| joint(&of(n), &configs, true));
        }
        let calls = calls_of(&mut redis, &what, |n| joint(&of(n), &configs, true));
        assert!(calls <= most + 0.3, "{calls}");
    }
    let configs = [fixed(1_000_000_000), fixed(2_000_000_000)];
    let what = "grants by two sliding windows, one key of 10^9 an hour";
    let calls = calls_of(&mut redis, what, |_| joint("hot", &configs, true));
    assert!(calls <= 17.3, "{calls}");
    // What expires is part of it.
    let configs = [Config::new(10, 3, Mode::Overall), fixed(1_000_000_000)];
    let what = "ten in 3 ms and 10^9 an hour, asked all the time";
    let calls = calls_of(&mut redis, what, |_| joint("busy", &configs, true));
    assert!(calls <= 26.0, "{calls}");
}

#[test]
fn groups_that_share_a_call_read_the_time_once() {
    let _alone = MEASURING.lock().unwrap_or_else(PoisonError::into_inner);
    let server = RedisServer::start();
    let mut redis = server.connect().unwrap();
    let rate = 1_000_000;
    let fixed = Config::new(rate.into(), HOUR, Mode::Overall);
    call("loaded", fixed, Assertion::Steady, &[1], false).exec(&mut redis).unwrap();
    for rule in [Algorithm::SlidingWindow, Algorithm::TokenBucket, Algorithm::FixedWindow] {
        let config = fixed.rule(rule.rule(rate));
        let keys: Vec<_> = (0..8).map(|n| StateKeys::new(format!("{rule}:{n}"))).collect();
        let requests: Vec<_> =
            keys.iter().map(|keys| Request::new(keys, config, Instant::now())).collect();
        let group = |n: usize| Group { requests: &requests[n..=n], costs: &[&[1]] };
        let groups: Vec<_> = (0..8).map(group).collect();
        script_decide(&groups, |_| 1, true).exec(&mut redis).unwrap();
        let most = if rule == Algorithm::SlidingWindow { 8.0 } else { 4.0 };
        let what = format!("eight groups in a call, by a {rule}");
        let decide = |_| script_decide(&groups, |_| 1, true);
        let calls = some_calls_of(&mut redis, &what, CALLS / 8, decide);
        assert!(calls <= 8.0 * most + 1.1, "{calls}");
    }
}
