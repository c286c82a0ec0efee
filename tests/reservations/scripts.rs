//! The scripts against the Rust rule, as in the test `scripts`.

use std::time::Duration;

use proptest::prelude::*;
use ratelimit_runtime::{
    __private::store::{
        Algorithm, Assertion, Charge, Config, Grant, KeepState, MemoryStore, Mode, Outcome,
        Request, Rule, StateKeys, Store, WriteWhen, script_charge, script_charged,
        script_give_back, script_peek, script_peeked, script_release, script_reservations,
        script_reserve, script_write,
    },
    test_util::ManualClock,
};
use redis::Connection;
use tests::{
    decide::{self, Decide, OneTime},
    redis_server::RedisServer,
};
use tokio::{runtime::Runtime, time::Instant};

#[derive(Clone, Debug)]
enum Step {
    Advance(u64),
    Rewind(u64),
    Acquire {
        process: usize,
        permits: u32,
    },
    Reserve {
        process: usize,
        costs: Vec<u32>,
        within: u64,
    },
    /// One of the last reservations, from the end.
    GiveBack(usize),
    Charge {
        process: usize,
        permits: u32,
        max_debt: Option<u64>,
    },
    Peek {
        permits: u32,
    },
    Release {
        permits: u32,
    },
    /// New numbers on purpose.
    Write {
        process: usize,
        state: KeepState,
    },
}

/// A limiter in both worlds, with one time.
struct Twins {
    runtime: Runtime,
    time: OneTime,
    memory: MemoryStore,
    base: Instant,
    redis: Connection,
    keys: StateKeys,
    reserved: Vec<Grant>,
}

impl Twins {
    fn new(redis: Connection, name: String) -> Self {
        let clock = ManualClock::new();
        let (memory, base) = (MemoryStore::new(clock.clone().into()), Instant::now());
        // What is written on purpose is younger than the first processes.
        std::thread::sleep(Duration::from_millis(1));
        Self {
            runtime: Runtime::new().unwrap(),
            memory,
            time: OneTime::new(clock),
            base,
            redis,
            keys: StateKeys::new(name),
            reserved: Vec::new(),
        }
    }

    fn run(&mut self, configs: &[Config], step: Step) {
        match step {
            Step::Advance(ms) => self.time.advance(ms),
            Step::Rewind(ms) => self.time.rewind(ms),
            Step::Acquire { process, permits } => self.acquire(configs[process], process, permits),
            Step::Reserve { process, costs, within } => {
                self.reserve(configs[process], process, &costs, within);
            }
            Step::GiveBack(back) => self.give_back(back),
            Step::Charge { process, permits, max_debt } => {
                self.charge(configs[process], process, permits, max_debt);
            }
            Step::Peek { permits } => self.peek(configs[0], permits),
            Step::Release { permits } => self.release(permits),
            Step::Write { process, state } => self.write(configs[process], state),
        }
    }

    /// A request of a process, and since when that has its configuration, in microseconds.
    fn request<'a>(
        &self,
        keys: &'a StateKeys,
        config: Config,
        process: usize,
    ) -> (Request<'a>, u64) {
        let since = self.time.since_us(process);
        let request = Request::new(keys, config, self.base + Duration::from_micros(since));
        (request.assertion(Assertion::Steady), since)
    }

    fn acquire(&mut self, config: Config, process: usize, permits: u32) {
        let keys = self.keys.clone();
        let (request, since) = self.request(&keys, config, process);
        let rust = self.runtime.block_on(self.memory.acquire(&request, permits)).unwrap();
        let mut call = decide::call(&request, &[permits], since, false);
        let value = call.arg(self.time.now).query(&mut self.redis).unwrap();
        let lua = decide::all_replies(&value, &config, &[permits]).unwrap();
        assert_eq!(lua[0], rust, "(lua, rust) acquire of {permits} by {config:?}");
    }

    fn reserve(&mut self, config: Config, process: usize, costs: &[u32], within: u64) {
        let keys = self.keys.clone();
        let (request, since) = self.request(&keys, config, process);
        let rust = self.runtime.block_on(self.memory.reserve(&request, costs, within)).unwrap();
        let mut call = script_reserve(&request, costs, within, since);
        let value = call.arg(self.time.now).query(&mut self.redis).unwrap();
        let lua = script_reservations(&value, &request, costs).unwrap();
        assert_eq!(lua, rust, "(lua, rust) {costs:?} within {within} by {config:?}");
        let (mut before, mut open) = (0, true);
        for (told, permits) in lua.iter().zip(costs) {
            assert_eq!(told.grant(*permits).is_some(), told.reply.outcome == Outcome::Granted);
            let Some(grant) = told.grant(*permits) else {
                open = false;
                continue;
            };
            assert!(told.wait_ms <= within && told.wait_ms <= told.reply.reset_after_ms);
            assert!(open && before <= told.wait_ms, "in order, until one is refused");
            before = told.wait_ms;
            self.reserved.push(grant);
        }
    }

    fn give_back(&mut self, back: usize) {
        let Some(at) = self.reserved.len().checked_sub(back + 1) else { return };
        let grant = self.reserved.remove(at);
        let rust = self.runtime.block_on(self.memory.give_back(&self.keys, &grant)).unwrap();
        let mut call = script_give_back(&self.keys, &grant, false);
        let (_, lua): (u8, u64) = call.arg(self.time.now).query(&mut self.redis).unwrap();
        assert_eq!(lua, rust, "(lua, rust) of {grant:?}");
    }

    fn charge(&mut self, config: Config, process: usize, permits: u32, max_debt: Option<u64>) {
        let keys = self.keys.clone();
        let (request, since) = self.request(&keys, config, process);
        let charge = Charge::new(permits, max_debt);
        let rust = self.runtime.block_on(self.memory.charge(&request, charge)).unwrap();
        let mut call = script_charge(&request, charge, since, false);
        let value = call.arg(self.time.now).query(&mut self.redis).unwrap();
        let lua = script_charged(&value, &request).unwrap();
        assert_eq!(lua, rust, "(lua, rust) {permits} charged by {config:?}");
    }

    fn peek(&mut self, config: Config, permits: u32) {
        let keys = self.keys.clone();
        let (request, since) = self.request(&keys, config, 0);
        let rust = self.runtime.block_on(self.memory.peek(&request, permits)).unwrap();
        let mut call = script_peek(&request, permits, since, false);
        let value = call.arg(self.time.now).query(&mut self.redis).unwrap();
        let lua = script_peeked(&value, &config, permits).unwrap();
        assert_eq!(lua, rust, "(lua, rust) peek of {permits} by {config:?}");
    }

    fn release(&mut self, permits: u32) {
        let release = self.memory.release(&self.keys, permits);
        let rust = self.runtime.block_on(release).unwrap();
        let mut call = script_release(&self.keys, permits, false);
        let (_, lua, _): (u8, u64, u8) = call.arg(self.time.now).query(&mut self.redis).unwrap();
        assert_eq!(lua, rust, "(lua, rust) release of {permits}");
    }

    fn write(&mut self, config: Config, state: KeepState) {
        let write = self.memory.write(&self.keys, config, WriteWhen::Always, state, 0);
        let rust = self.runtime.block_on(write).unwrap();
        let mut call = script_write(&self.keys, config, WriteWhen::Always, state, 0, false);
        let lua: bool = call.arg(self.time.now).query(&mut self.redis).unwrap();
        assert_eq!(lua, rust, "(lua, rust) write of {config:?} {state:?}");
    }
}

fn steps(per: u64, rate: u32, processes: usize) -> impl Strategy<Value = Vec<Step>> {
    let advance = prop_oneof![Just(0), Just(1), Just(per / 10), Just(per), 0..per * 2];
    let permits = prop_oneof![Just(1), 1..=rate, Just(rate + 1)];
    let within = prop_oneof![Just(0), Just(per), Just(u64::MAX), 0..per * 4];
    let state = prop::sample::select(vec![KeepState::Keep, KeepState::Keep, KeepState::Reset]);
    let step = prop_oneof![
        4 => advance.prop_map(Step::Advance),
        1 => (1..per * 3).prop_map(Step::Rewind),
        4 => (0..processes, permits.clone())
            .prop_map(|(process, permits)| Step::Acquire { process, permits }),
        1 => permits.clone().prop_map(|permits| Step::Peek { permits }),
        1 => permits.clone().prop_map(|permits| Step::Release { permits }),
        1 => (0..processes, permits.clone(), prop::option::of(0..u64::from(rate) * 4))
            .prop_map(|(process, permits, max_debt)| Step::Charge { process, permits, max_debt }),
        8 => (0..processes, prop::collection::vec(permits, 1..4), within)
            .prop_map(|(process, costs, within)| Step::Reserve { process, costs, within }),
        6 => (0..3_usize).prop_map(Step::GiveBack),
        1 => (0..processes, state).prop_map(|(process, state)| Step::Write { process, state }),
    ];
    prop::collection::vec(step, 1..80)
}

fn random_traces(
    name: &str,
    cases: u32,
    rates: std::ops::Range<u32>,
    algorithms: &'static [Algorithm],
    pers: &'static [u64],
    warm_ups: &'static [u64],
) {
    let server = RedisServer::start();
    let numbers = (rates, prop::sample::select(pers), prop::sample::select(warm_ups));
    let trace = numbers.prop_flat_map(move |(rate, per, warm_up)| {
        let config = |(n, algorithm): (u32, &Algorithm)| {
            let rate = rate * (n % 3 + 1) / 2 + 1;
            let rule = match (warm_up, algorithm) {
                (1.., Algorithm::TokenBucket) if n % 2 == 0 => {
                    Rule::WarmingBucket { warm_up: Duration::from_millis(warm_up) }
                }
                _ => algorithm.rule(rate * 2 / 3 + 1),
            };
            Config::new(rate.into(), per, Mode::Overall).rule(rule)
        };
        let configs: Vec<Config> = (0..).zip(algorithms).map(config).collect();
        (Just(configs), steps(per, rate, algorithms.len()))
    });
    let mut runner = tests::random_histories(cases);
    let case = std::cell::Cell::new(0);
    let run = |(configs, trace): (Vec<Config>, Vec<Step>)| {
        case.set(case.get() + 1);
        let mut twins = Twins::new(server.connect().unwrap(), format!("{name}:{}", case.get()));
        trace.into_iter().for_each(|step| twins.run(&configs, step));
        Ok(())
    };
    runner.run(&trace, run).unwrap();
}

#[test]
fn scripts_and_rules_reserve_alike() {
    random_traces("token", 200, 1..40, &[Algorithm::TokenBucket], &[7, 1000, 60_000], &[0]);
    random_traces("leaky", 200, 1..40, &[Algorithm::LeakyBucket], &[7, 1000, 60_000], &[0]);
}

#[test]
fn also_when_a_bucket_warms_up() {
    let warm_ups = &[1, 333, 4000, 60_001];
    random_traces("warm", 300, 1..40, &[Algorithm::TokenBucket], &[7, 1000, 60_000], warm_ups);
    // As many ticks as are allowed: 2^40.
    random_traces("long", 100, 1 << 19..1 << 20, &[Algorithm::TokenBucket], &[1000], &[2_097_000]);
}

#[test]
fn also_when_a_slot_is_given_back_after_new_numbers() {
    // A slot was given back by the numbers in force, although it was taken by others.
    let server = RedisServer::start();
    let config = |rate| {
        let config = Config::new(rate, 1000, Mode::Overall);
        config.rule(Rule::WarmingBucket { warm_up: Duration::from_secs(4) })
    };
    let configs = [config(2), config(4), config(3)];
    for (case, process) in [1, 2].into_iter().enumerate() {
        let mut twins = Twins::new(server.connect().unwrap(), format!("numbers:{case}"));
        let reserve = Step::Reserve { process: 0, costs: vec![1], within: u64::MAX };
        let write = Step::Write { process, state: KeepState::Keep };
        let steps = [
            Step::Acquire { process: 0, permits: 1 },
            reserve.clone(),
            write.clone(),
            Step::GiveBack(0),
            Step::Peek { permits: 1 },
            // The same, with a caller in between who knows the new numbers.
            reserve.clone(),
            write,
            Step::Advance(10),
            Step::Acquire { process, permits: 1 },
            Step::GiveBack(0),
            Step::Reserve { process, costs: vec![1], within: u64::MAX },
        ];
        steps.into_iter().for_each(|step| twins.run(&configs, step));
    }
}

#[test]
fn also_when_the_rule_changes() {
    let rules = &[
        Algorithm::TokenBucket,
        Algorithm::LeakyBucket,
        Algorithm::SlidingWindow,
        Algorithm::FixedWindow,
        Algorithm::TokenBucket,
    ];
    random_traces("rules", 200, 1..30, rules, &[7, 1000, 40_000], &[0, 5000]);
}

#[test]
fn also_with_as_many_ticks_as_there_can_be() {
    let large = &[1_000_003, 31_622_400_000 >> 4];
    random_traces("large", 100, 1 << 19..1 << 20, &[Algorithm::TokenBucket], large, &[0]);
    random_traces("larger", 100, 1 << 19..1 << 20, &[Algorithm::LeakyBucket], &[999_983], &[0]);
}
