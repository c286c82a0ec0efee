//! What a decision of each rule takes within Redis, beside a bare GCRA script, and what a limiter
//! takes of its memory, beside Redisson's three keys.

use std::time::Duration;

use ratelimit_runtime::__private::store::{
    Assertion, Config, Mode, OnDrift, Request, Rule, StateKeys,
};
use redis::{Cmd, Script, Value};
use tests::{decide, redis_server::RedisServer};
use tokio::time::Instant;

use crate::{cost::Meter, results::Results};

/// Calls of one kind between two looks at the clock, and how often each kind has its turn.
const CALLS: usize = 100;
const ROUNDS: usize = 80;
/// Limiters whose memory is measured.
const LIMITERS: usize = 10_000;
/// Of a hundred a minute, kept for two of them, as a limiter of a template is.
const RATE: u32 = 100;
const PER_MS: u64 = 60_000;
const KEPT_MS: u64 = 120_000;
const GCRA: &str = include_str!("gcra.lua");

/// The rules by name.
#[must_use]
pub fn rules() -> [(&'static str, Rule); 5] {
    [
        ("token_bucket", Rule::TokenBucket { burst: RATE }),
        ("leaky_bucket", Rule::LeakyBucket),
        ("fixed_window", Rule::FixedWindow { calendar: None }),
        ("sliding_window", Rule::SlidingWindow),
        ("warm_up", Rule::WarmingBucket { warm_up: Duration::from_secs(4) }),
    ]
}

fn ours(name: &str, rule: Rule, first: bool, by_name: bool) -> Cmd {
    let config = Config::new(RATE.into(), PER_MS, Mode::Overall).rule(rule).keep_alive_ms(KEPT_MS);
    let keys = StateKeys::new(name);
    let assertion = if first { Assertion::First(OnDrift::Reset) } else { Assertion::Steady };
    let member = Some("0123456789abcdef".parse().expect("an id of a process"));
    let request = Request::new(&keys, config, Instant::now()).assertion(assertion).member(member);
    decide::call(&request, &[1], 1_763_827_112_000_000, by_name)
}

/// The time in a script for each decision: of the quickest fifth of all rounds, since the rest of
/// what the machine does can only add to it.
///
/// # Panics
///
/// Panics if the server does not reply.
#[must_use]
pub fn measure() -> Results {
    let server = RedisServer::start();
    let (mut redis, mut meter) = (server.connect().expect("it accepts"), Meter::of(&server));
    let gcra = Script::new(GCRA);
    let _: String = redis::cmd("SCRIPT").arg("LOAD").arg(GCRA).query(&mut redis).expect("it loads");
    ours("loaded", Rule::SlidingWindow, true, false).exec(&mut redis).expect("it decides");
    let bare = |name: &str| {
        let mut call = redis::cmd("EVALSHA");
        call.arg(gcra.get_hash()).arg(1).arg(name);
        call.arg(PER_MS / u64::from(RATE)).arg(RATE).arg(1);
        call
    };
    let kinds: Vec<_> = [("gcra", None)]
        .into_iter()
        .chain(rules().map(|(name, rule)| (name, Some(rule))))
        .collect();
    let mut results = Results::now("cargo xtask bench scripts", &[]);
    for (load, first) in [("steady", false), ("first", true)] {
        let mut measured = vec![Vec::new(); kinds.len()];
        for round in 0..=ROUNDS {
            for ((kind, rule), measured) in kinds.iter().zip(&mut measured) {
                let mut calls = redis::pipe();
                for n in 0..CALLS {
                    let part = if first { round } else { 0 };
                    let name = format!("order:user:{load}:{part}:{n}:{kind}");
                    // In the round before those that count every limiter is new.
                    let first = first || round == 0;
                    calls.add_command(
                        rule.map_or_else(|| bare(&name), |rule| ours(&name, rule, first, true)),
                    );
                }
                meter.start();
                let _: Vec<Value> = calls.query(&mut redis).expect("it decides");
                let cost = meter.stop();
                if round > 0 {
                    measured.push(cost.script_us / cost.scripts);
                }
            }
        }
        let quick = |mut times: Vec<f64>| {
            times.sort_by(f64::total_cmp);
            times[..ROUNDS / 5].iter().sum::<f64>() / (ROUNDS / 5) as f64
        };
        let times: Vec<_> = measured.into_iter().map(quick).collect();
        for ((kind, _), us) in kinds.iter().zip(&times) {
            results.add(load, kind, &[("script_us", *us), ("ratio", us / times[0])]);
        }
    }
    results
}

/// Adds what limiters take that were used once: in all, as the server's memory grows by it, and each
/// by `MEMORY USAGE` of its keys.
///
/// # Panics
///
/// Panics if the server does not reply.
pub fn add_memory(results: &mut Results) {
    let server = RedisServer::start();
    let (mut redis, mut meter) = (server.connect().expect("it accepts"), Meter::of(&server));
    ours("loaded", Rule::SlidingWindow, true, false).exec(&mut redis).expect("it decides");
    let kinds = rules().map(|(name, rule)| (name, Some(rule)));
    for (kind, rule) in kinds.into_iter().chain([("redisson", None)]) {
        meter.flush();
        let before = used(&server);
        let named = |n: usize| format!("order:user:{n:09}");
        for chunk in 0..LIMITERS / CALLS {
            let mut calls = redis::pipe();
            for n in chunk * CALLS..(chunk + 1) * CALLS {
                match rule {
                    Some(rule) => calls.add_command(ours(&named(n), rule, true, true)),
                    None => add_redisson(&mut calls, &named(n)),
                };
            }
            calls.exec(&mut redis).expect("it decides");
        }
        let bytes = used(&server) - before;
        let keys = StateKeys::new(named(0));
        let keys = [keys.config(), &keys.counter(), &keys.log()];
        let usage: f64 = keys.iter().map(|key| meter.bytes(key)).sum();
        let each = bytes / LIMITERS as f64;
        results.add("Redis", kind, &[("bytes", bytes), ("each", each), ("usage", usage)]);
    }
}

/// What Redisson writes for one grant of a limiter with a keep-alive.
fn add_redisson<'a>(calls: &'a mut redis::Pipeline, name: &str) -> &'a mut redis::Pipeline {
    let keys = StateKeys::new(name);
    let hash =
        calls.cmd("HSET").arg(keys.config()).arg("rate").arg(RATE).arg("interval").arg(PER_MS);
    hash.arg("keepAliveTime").arg(KEPT_MS).arg("type").arg(0);
    calls.cmd("SET").arg(keys.counter()).arg(RATE - 1);
    let member = [&[16; 17][..], &1_u32.to_le_bytes()].concat();
    calls.cmd("ZADD").arg(keys.log()).arg(1_763_827_112_000_u64).arg(member);
    for key in [keys.config(), &keys.counter(), &keys.log()] {
        calls.cmd("PEXPIRE").arg(key).arg(KEPT_MS);
    }
    calls
}

fn used(server: &RedisServer) -> f64 {
    server.info("used_memory").parse().expect("a number of bytes")
}
