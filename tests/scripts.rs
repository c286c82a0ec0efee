//! Each script against its Rust rule: random traces must give the same decisions.
#![allow(clippy::disallowed_methods, reason = "real servers live in real time")]

use std::time::Duration;

use proptest::prelude::*;
use ratelimit_runtime::{
    ManualClock, Mode, OnDrift,
    store::{
        Assertion, Config, MemoryStore, Outcome, Reconciled, Request, StateKeys, Store, scripts,
    },
};
use redis::Connection;
use tests::redis_server::RedisServer;
use tokio::{runtime::Runtime, time::Instant};

const START_MS: u64 = 1_700_000_000_000;

/// A limiter in both worlds, with one time.
struct Twins {
    runtime: Runtime,
    clock: ManualClock,
    memory: MemoryStore,
    now: u64,
    base: Instant,
    redis: Connection,
    keys: StateKeys,
    calls: u64,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Advance(u64),
    Rewind(u64),
    Acquire { process: usize, permits: u32 },
    Peek { permits: u32 },
    First { process: usize, carry: bool },
}

/// What a decision looks like from outside.
type Seen = (u64, u64, u64, u64, u64, u64, u64, u64, u64, u64);

impl Twins {
    fn new(redis: Connection, name: String) -> Self {
        let clock = ManualClock::new();
        Self {
            runtime: Runtime::new().unwrap(),
            memory: MemoryStore::new(clock.clone().into()),
            clock,
            now: START_MS,
            base: Instant::now() + Duration::from_millis(1),
            redis,
            keys: StateKeys::new(name),
            calls: 0,
        }
    }

    fn rust(
        &self,
        name: &str,
        config: Config,
        since: u64,
        permits: u32,
        assertion: Assertion,
    ) -> Seen {
        let request = Request::new(&self.keys, config, self.base + Duration::from_millis(since))
            .permits(permits)
            .assertion(assertion);
        let reply = self.runtime.block_on(async {
            match name {
                "acquire" => self.memory.acquire(&request).await,
                _ => self.memory.peek(&request).await,
            }
        });
        let reply = reply.unwrap();
        let outcome = match reply.outcome {
            Outcome::Refused => 0,
            Outcome::Granted => 1,
            Outcome::ExceedsCapacity => 2,
            _ => 3,
        };
        let event = reply.reconciled.map_or(0, |event| match event {
            Reconciled::Created => 1,
            Reconciled::Unchanged => 2,
            Reconciled::Reset => 3,
            Reconciled::Carried => 4,
            _ => 5,
        });
        let mode = u64::from(reply.config.mode == Mode::PerClient);
        (
            outcome,
            reply.remaining,
            reply.retry_after_ms,
            reply.reset_after_ms,
            reply.now_ms,
            reply.config.rate,
            reply.config.per_ms,
            mode,
            event,
            reply.ahead_ms,
        )
    }

    fn lua(
        &mut self,
        name: &str,
        config: Config,
        since: u64,
        permits: u32,
        assertion: Assertion,
    ) -> Seen {
        let (_, text) = scripts().into_iter().find(|(known, _)| *known == name).unwrap();
        self.calls += 1;
        let assertion = match assertion {
            Assertion::First(OnDrift::Carry) => "carry",
            Assertion::First(_) => "reset",
            _ => "steady",
        };
        redis::Script::new(text)
            .key(self.keys.config())
            .key(self.keys.counter())
            .key(self.keys.log())
            .arg(permits)
            .arg(config.rate)
            .arg(config.per_ms)
            .arg(u8::from(config.mode == Mode::PerClient))
            .arg(config.keep_alive_ms)
            .arg(0)
            .arg(since * 1000)
            .arg(assertion)
            .arg(self.calls.to_le_bytes().as_slice())
            .arg(self.now)
            .invoke(&mut self.redis)
            .unwrap()
    }

    fn agree(
        &mut self,
        name: &str,
        config: Config,
        since: u64,
        permits: u32,
        assertion: Assertion,
    ) {
        let rust = self.rust(name, config, since, permits, assertion);
        let lua = self.lua(name, config, since, permits, assertion);
        assert_eq!(lua, rust, "(lua, rust) {name} of {permits} by {config:?}, {assertion:?}");
    }

    fn run(&mut self, configs: &[Config], step: Step) {
        let since = |process: usize| 10 + process as u64;
        match step {
            Step::Advance(ms) => {
                self.now += ms;
                self.clock.advance(Duration::from_millis(ms));
            }
            Step::Rewind(ms) => {
                self.now -= ms;
                self.clock.step_back(Duration::from_millis(ms));
            }
            Step::Acquire { process, permits } => {
                self.agree("acquire", configs[process], since(process), permits, Assertion::Steady);
            }
            Step::Peek { permits } => {
                self.agree("peek", configs[0], since(0), permits, Assertion::Steady);
            }
            Step::First { process, carry } => {
                let on_drift = if carry { OnDrift::Carry } else { OnDrift::Reset };
                self.agree(
                    "acquire",
                    configs[process],
                    since(process),
                    1,
                    Assertion::First(on_drift),
                );
            }
        }
    }

    /// Counter and log always add up to the rate in force.
    fn assert_whole(&mut self) {
        let stored: Option<u64> =
            redis::cmd("HGET").arg(self.keys.config()).arg("rate").query(&mut self.redis).unwrap();
        let counter: Option<i64> =
            redis::cmd("GET").arg(self.keys.counter()).query(&mut self.redis).unwrap();
        let (Some(rate), Some(counter)) = (stored, counter) else {
            return;
        };
        let log: Vec<Vec<u8>> = redis::cmd("ZRANGE")
            .arg(self.keys.log())
            .arg(0)
            .arg(-1)
            .query(&mut self.redis)
            .unwrap();
        let used: i64 = log.iter().map(|member| permits_of(member)).sum();
        assert_eq!(counter + used, i64::try_from(rate).unwrap(), "counter {counter}, log {used}");
        assert!(log.len() <= 152, "{} members", log.len());
    }
}

fn permits_of(member: &[u8]) -> i64 {
    assert_eq!(member.len(), usize::from(member[0]) + 5, "a member is Redisson's");
    let tail: [u8; 4] = member[member.len() - 4..].try_into().unwrap();
    u32::from_le_bytes(tail).into()
}

/// Steps that matter for a window of this length.
fn steps(per: u64, rate: u32, processes: usize) -> impl Strategy<Value = Vec<Step>> {
    let advance = prop_oneof![
        Just(0),
        Just(1),
        Just(per / 50),
        Just(per / 10),
        Just(per / 3),
        Just(per - 1),
        Just(per),
        Just(per + 1),
        Just(12_000),
        Just(31_000),
        0..per * 2
    ];
    let permits = prop_oneof![Just(1), 1..=rate, Just(rate), Just(rate + 1)];
    let step = prop_oneof![
        6 => advance.prop_map(Step::Advance),
        1 => (1..per * 3).prop_map(Step::Rewind),
        12 => (0..processes, permits.clone())
            .prop_map(|(process, permits)| Step::Acquire { process, permits }),
        2 => permits.prop_map(|permits| Step::Peek { permits }),
        1 => (0..processes, any::<bool>()).prop_map(|(process, carry)| Step::First { process, carry }),
    ];
    prop::collection::vec(step, 1..120)
}

fn random_traces(
    name: &str,
    cases: u32,
    rates: std::ops::Range<u32>,
    processes: usize,
    pers: &'static [u64],
) {
    let server = RedisServer::start();
    let mut case = 0;
    let trace = (rates, prop::sample::select(pers), prop::sample::select(vec![0_u64, 600_000]))
        .prop_flat_map(move |(rate, per, keep)| {
            let configs: Vec<Config> = (0..processes as u64)
                .map(|n| {
                    let rate = u64::from(rate) * (n % 3 + 1) / 2 + 1;
                    Config::new(rate, per, Mode::Overall).keep_alive_ms(keep * 10)
                })
                .collect();
            (Just(configs), steps(per, rate, processes))
        });
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(cases)
    });
    let connection = || server.connect().unwrap();
    let case = std::cell::RefCell::new(&mut case);
    runner
        .run(&trace, |(configs, trace)| {
            **case.borrow_mut() += 1;
            let mut twins = Twins::new(connection(), format!("{name}:{}", case.borrow()));
            for step in trace {
                twins.run(&configs, step);
                twins.assert_whole();
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn one_configuration_decides_alike() {
    random_traces("one", 300, 1..40, 1, &[100, 1000, 60_000]);
}

#[test]
fn long_logs_are_merged_alike() {
    random_traces("long", 60, 200..5000, 1, &[1000, 50_000]);
    // Many small grants, so that the log does get long.
    let server = RedisServer::start();
    let mut twins = Twins::new(server.connect().unwrap(), "merge".into());
    let config = [Config::new(1000, 10_000, Mode::Overall)];
    for round in 0..1500 {
        twins.run(&config, Step::Advance(round * 7 % 31));
        twins.run(
            &config,
            Step::Acquire { process: 0, permits: 1 + u32::try_from(round % 3).unwrap() },
        );
    }
    twins.assert_whole();
}

#[test]
fn several_configurations_are_reconciled_alike() {
    random_traces("several", 300, 1..30, 4, &[100, 1000, 40_000]);
}
