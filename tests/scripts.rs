//! Each script against its Rust rule: random traces must give the same decisions.
//!
//! A million operations of each algorithm, with what came of them:
//!
//! ```sh
//! RATELIMIT_FULL_LENGTH=1 cargo test --release -p tests --test scripts million -- --nocapture
//! ```
#![allow(clippy::disallowed_methods, reason = "real servers live in real time")]

use std::{
    cell::Cell,
    ops::Range,
    time::{Duration, Instant as StdInstant},
};

use proptest::prelude::*;
use ratelimit_runtime::{
    __private::store::{
        Algorithm::{self, FixedWindow, LeakyBucket, SlidingWindow, TokenBucket},
        Assertion, Charge, Config, Grant, KeepState, MemoryStore, Mode, OnDrift, Outcome, Reply,
        Request, Rule, StateKeys, Store, WriteWhen, script_charge, script_charged,
        script_give_back, script_peek, script_peeked, script_release, script_write,
    },
    test_util::ManualClock,
};
use redis::{Cmd, Connection, FromRedisValue};
use tests::{
    decide::{self, Decide, OneTime},
    redis_server::RedisServer,
};
use tokio::{
    runtime::{Builder, Runtime},
    time::Instant,
};

/// How long a limiter is kept that nobody uses: for ever, or for longer than any history takes. A
/// server's keys expire in earnest, and not by the time of a history.
const KEPT: &[u64] = &[0, 1 << 40, 1 << 41];

/// A limiter in both worlds, with one time.
struct Twins {
    runtime: Runtime,
    time: OneTime,
    memory: MemoryStore,
    base: Instant,
    redis: Connection,
    keys: StateKeys,
    since: StdInstant,
    tally: Tally,
    /// What was granted and not given back.
    grants: Vec<Grant>,
}

/// What was decided alike.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    operations: u64,
    granted: u64,
    refused: u64,
}

#[derive(Clone, Debug)]
enum Step {
    Advance(u64),
    Rewind(u64),
    Acquire {
        process: usize,
        permits: u32,
    },
    Batch {
        process: usize,
        costs: Vec<u32>,
    },
    Follow {
        permits: u32,
    },
    Peek {
        permits: u32,
    },
    First {
        process: usize,
        carry: bool,
    },
    Release {
        permits: u32,
    },
    /// One of the last grants, from the end.
    GiveBack {
        back: usize,
    },
    Charge {
        process: usize,
        permits: u32,
        max_debt: Option<u64>,
    },
    Write {
        process: usize,
        when: WriteWhen,
        state: KeepState,
        hold_ms: u64,
    },
}

impl Twins {
    fn new(redis: Connection, name: String) -> Self {
        let clock = ManualClock::new();
        let (memory, base) = (MemoryStore::new(clock.clone().into()), Instant::now());
        // What is written on purpose is younger than the first processes.
        std::thread::sleep(Duration::from_millis(1));
        Self {
            runtime: Builder::new_current_thread().build().unwrap(),
            memory,
            time: OneTime::new(clock),
            base,
            redis,
            keys: StateKeys::new(name),
            since: StdInstant::now(),
            tally: Tally::default(),
            grants: Vec::new(),
        }
    }

    /// Calls a script at the time of both worlds.
    fn call<T: FromRedisValue>(&mut self, call: impl Fn(bool) -> Cmd) -> T {
        self.time.call(&mut self.redis, call)
    }

    fn request<'a>(
        &self,
        keys: &'a StateKeys,
        config: Config,
        since: u64,
        assertion: Assertion,
    ) -> Request<'a> {
        let since = self.base + Duration::from_micros(since);
        Request::new(keys, config, since).assertion(assertion)
    }

    fn rust(&self, name: &str, request: &Request<'_>, costs: &[u32]) -> Vec<Reply> {
        let replies = self.runtime.block_on(async {
            match (name, costs) {
                // One call is a batch of one.
                ("acquire", &[permits]) => {
                    self.memory.acquire(request, permits).await.map(|reply| vec![reply])
                }
                ("acquire", _) => self.memory.acquire_all(request, costs).await,
                _ => self.memory.peek(request, costs[0]).await.map(|reply| vec![reply]),
            }
        });
        let mut replies = replies.unwrap();
        for reply in &mut replies {
            // How long a limiter is kept is no part of what a script answers.
            reply.config.keep_alive_ms = 0;
        }
        replies
    }

    fn agree(
        &mut self,
        name: &str,
        config: Config,
        process: usize,
        costs: &[u32],
        assertion: Assertion,
    ) {
        let (keys, since) = (self.keys.clone(), self.time.since_us(process));
        let request = self.request(&keys, config, since, assertion);
        let rust = self.rust(name, &request, costs);
        let called = StdInstant::now();
        let (since_us, own) = (since, config.keep_alive_ms(0));
        let lua = if name == "peek" {
            let value = self.call(|by_name| script_peek(&request, costs[0], since_us, by_name));
            vec![script_peeked(&value, &own, costs[0]).unwrap()]
        } else {
            let value = self.call(|by_name| decide::call(&request, costs, since_us, by_name));
            decide::all_replies(&value, &own, costs).unwrap()
        };
        assert_eq!(lua, rust, "(lua, rust) {name} of {costs:?} by {config:?}, {assertion:?}");
        let count = |outcome| rust.iter().filter(|reply| reply.outcome == outcome).count() as u64;
        if name == "acquire" {
            self.note_grants(&rust, costs);
        }
        if name == "acquire" && count(Outcome::Granted) > 0 {
            self.assert_expires_in_time(&rust[0], called);
        }
        self.tally.granted += count(Outcome::Granted);
        self.tally.refused += count(Outcome::Refused);
    }

    fn note_grants(&mut self, replies: &[Reply], costs: &[u32]) {
        let granted =
            replies.iter().zip(costs).filter(|(reply, _)| reply.outcome == Outcome::Granted);
        let (mut later, mut grants) = (0, Vec::new());
        for (reply, cost) in granted.rev() {
            grants.push(Grant::of(reply, *cost, later));
            later += u64::from(*cost);
        }
        grants.reverse();
        self.grants.extend(grants);
    }

    fn give_back(&mut self, back: usize) {
        let Some(at) = self.grants.len().checked_sub(back + 1) else { return };
        let (grant, keys) = (self.grants.remove(at), self.keys.clone());
        let rust = self.runtime.block_on(self.memory.give_back(&keys, &grant)).unwrap();
        let (_, lua): (u8, u64) = self.call(|by_name| script_give_back(&keys, &grant, by_name));
        assert_eq!(lua, rust, "(lua, rust) of {grant:?}");
    }

    /// Charges, and repeats the charge as if its reply had been lost.
    fn charge(&mut self, config: Config, since: u64, permits: u32, max_debt: Option<u64>) {
        let keys = self.keys.clone();
        let request = self.request(&keys, config, since, Assertion::Steady);
        let own = self.request(&keys, config.keep_alive_ms(0), since, Assertion::Steady);
        let charge = Charge { permits, max_debt, id: Some(charge_id(self.tally.operations)) };
        for made in [charge, Charge { permits: 0, ..charge }] {
            let charged = self.memory.charge(&request, made);
            let (mut reply, rust) = self.runtime.block_on(charged).unwrap();
            reply.config.keep_alive_ms = 0;
            let value = self.call(|by_name| script_charge(&request, charge, since, by_name));
            let lua = script_charged(&value, &own).unwrap();
            assert_eq!(lua, (reply, rust), "(lua, rust) {made:?} by {config:?}");
            assert!(rust.taken + rust.excess <= made.permits.into(), "{rust:?} of {made:?}");
            if rust.debt > 0 {
                assert_eq!(reply.remaining, 0, "nothing is free while something is owed");
            }
        }
    }

    fn run(&mut self, configs: &[Config], step: Step) {
        let moves = matches!(step, Step::Advance(_) | Step::Rewind(_));
        self.tally.operations += u64::from(!moves);
        match step {
            Step::Advance(ms) => self.time.advance(ms),
            Step::Rewind(ms) => self.time.rewind(ms),
            Step::Acquire { process, permits } => {
                let config = configs[process];
                self.agree("acquire", config, process, &[permits], Assertion::Steady);
            }
            Step::Batch { process, costs } => {
                let config = configs[process];
                self.agree("acquire", config, process, &costs, Assertion::Steady);
            }
            Step::Follow { permits } => {
                let follow = Assertion::Follow { first: false };
                self.agree("acquire", configs[0], 0, &[permits], follow);
            }
            Step::Peek { permits } => {
                self.agree("peek", configs[0], 0, &[permits], Assertion::Steady);
            }
            Step::Release { permits } => {
                let release = self.memory.release(&self.keys, permits);
                let rust = self.runtime.block_on(release).unwrap();
                let keys = self.keys.clone();
                let (_, lua, _): (u8, u64, u8) =
                    self.call(|by_name| script_release(&keys, permits, by_name));
                assert_eq!(lua, rust, "(lua, rust) release of {permits}");
            }
            Step::GiveBack { back } => self.give_back(back),
            Step::Charge { process, permits, max_debt } => {
                self.charge(configs[process], self.time.since_us(process), permits, max_debt);
            }
            Step::Write { process, when, state, hold_ms } => {
                let config = configs[process];
                let write = self.memory.write(&self.keys, config, when, state, hold_ms);
                let rust = self.runtime.block_on(write).unwrap();
                let keys = self.keys.clone();
                let lua: bool =
                    self.call(|by_name| script_write(&keys, config, when, state, hold_ms, by_name));
                assert_eq!(lua, rust, "(lua, rust) write of {config:?} {when:?} {state:?}");
            }
            Step::First { process, carry } => {
                let on_drift = if carry { OnDrift::Carry } else { OnDrift::Reset };
                let assertion = Assertion::First(on_drift);
                self.agree("acquire", configs[process], process, &[1], assertion);
            }
        }
    }

    /// Counter and log always add up to the rate in force, and no permit is free while one is owed.
    fn assert_whole(&mut self) {
        let mut pipe = redis::pipe();
        pipe.hget(self.keys.config(), "rate").get(self.keys.counter());
        pipe.zrange(self.keys.log(), 0, -1).hget(self.keys.config(), "debt");
        let (stored, counter, log, debt): (_, Option<String>, Vec<Vec<u8>>, Option<u64>) =
            pipe.query(&mut self.redis).unwrap();
        let stored: Option<u64> = stored;
        let (Some(rate), Some(counter)) = (stored, counter) else {
            return;
        };
        let counter: i64 = counter.parse().expect("nothing but a counter is there");
        let used: i64 = log.iter().map(|member| permits_of(member)).sum();
        assert_eq!(counter + used, i64::try_from(rate).unwrap(), "counter {counter}, log {used}");
        assert!(log.len() <= 116, "{} members", log.len());
        assert!(debt.is_none() || counter <= 0, "{counter} are free, and {debt:?} are owed");
    }
}

impl Twins {
    /// Both stores know the same keep-alive, whichever process wrote it.
    fn assert_kept_alike(&mut self) {
        let lua: Option<u64> = redis::cmd("HGET")
            .arg(self.keys.config())
            .arg("keepAliveTime")
            .query(&mut self.redis)
            .unwrap();
        assert_eq!(lua, self.keep_alive_ms(), "(lua, rust) keep-alive in milliseconds");
    }

    fn keep_alive_ms(&self) -> Option<u64> {
        let stored = self.runtime.block_on(self.memory.read(&self.keys)).unwrap();
        stored.map(|stored| stored.config.keep_alive_ms)
    }

    /// After a grant: all keys live for the keep-alive, and for a quarter of it longer at the most.
    fn assert_expires_in_time(&mut self, after: &Reply, called: StdInstant) {
        let keep = self.keep_alive_ms().unwrap_or(0).cast_signed();
        let [hash, counter, log] = self.ttls();
        // What has passed since the script ran; a millisecond begins in between.
        let passed = i64::try_from(called.elapsed().as_millis()).unwrap() + 1;
        let found = format!("{hash}, {counter}, {log} ms left, {passed} ms later: {after:?}");
        if after.config.rule.algorithm() == SlidingWindow {
            // A log that was made again later than its hash has the hash's time as of then.
            let history = i64::try_from(self.since.elapsed().as_millis()).unwrap() + 1;
            let same = |ttl: i64| ttl == -2 || (ttl - hash).abs() <= history;
            assert!(same(counter) && same(log), "a log goes with its hash: {found}");
        } else {
            assert_eq!([counter, log], [-2; 2], "what is used is in the hash: {found}");
        }
        let kept = keep - passed..=keep + keep / 4 + 1;
        assert!(if keep > 0 { kept.contains(&hash) } else { hash == -1 }, "kept {keep}: {found}");
    }

    fn ttls(&mut self) -> [i64; 3] {
        let keys = [self.keys.config(), &self.keys.counter(), &self.keys.log()];
        let mut pipe = redis::pipe();
        for key in keys {
            pipe.cmd("PTTL").arg(key);
        }
        pipe.query(&mut self.redis).unwrap()
    }
}

fn permits_of(member: &[u8]) -> i64 {
    assert_eq!(member.len(), usize::from(member[0]) + 5, "a member is Redisson's");
    let tail: [u8; 4] = member[member.len() - 4..].try_into().unwrap();
    u32::from_le_bytes(tail).into()
}

/// The id of this charge. Ids are random, so that none begins within another.
fn charge_id(charge: u64) -> u64 {
    (charge + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Steps that matter for a window of this length.
fn steps_of(per: u64, rate: u32, processes: usize) -> impl Strategy<Value = Vec<Step>> {
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
    let debt = prop_oneof![Just(None), Just(Some(0)), (0..u64::from(rate) * 4).prop_map(Some)];
    // Runs of equal costs among different ones, as callers come.
    let run = (permits.clone(), prop_oneof![Just(1), 1..5_usize]);
    let batch = prop::collection::vec(run, 1..8).prop_map(|runs| {
        runs.into_iter().flat_map(|(cost, count)| std::iter::repeat_n(cost, count)).collect()
    });
    let when = prop::sample::select(vec![WriteWhen::Always, WriteWhen::Absent, WriteWhen::Present]);
    let state = prop::sample::select(vec![KeepState::Keep, KeepState::Reset]);
    let step = prop_oneof![
        6 => advance.prop_map(Step::Advance),
        1 => (1..per * 3).prop_map(Step::Rewind),
        12 => (0..processes, permits.clone())
            .prop_map(|(process, permits)| Step::Acquire { process, permits }),
        4 => (0..processes, batch).prop_map(|(process, costs)| Step::Batch { process, costs }),
        1 => permits.clone().prop_map(|permits| Step::Follow { permits }),
        2 => permits.clone().prop_map(|permits| Step::Peek { permits }),
        1 => permits.clone().prop_map(|permits| Step::Release { permits }),
        3 => (0..4_usize).prop_map(|back| Step::GiveBack { back }),
        1 => (0..processes, permits, debt)
            .prop_map(|(process, permits, max_debt)| Step::Charge { process, permits, max_debt }),
        1 => (0..processes, any::<bool>()).prop_map(|(process, carry)| Step::First { process, carry }),
        1 => (0..processes, when, state, prop::sample::select(vec![0, 0, 20_000])).prop_map(
            |(process, when, state, hold_ms)| Step::Write { process, when, state, hold_ms }
        ),
    ];
    prop::collection::vec(step, 1..120)
}

fn random_traces(
    name: &str,
    cases: u32,
    rates: std::ops::Range<u32>,
    algorithms: &'static [Algorithm],
    pers: &'static [u64],
) -> Tally {
    random_traces_after(0, name, cases, rates, algorithms, pers)
}

/// The same with token buckets that warm up in so many milliseconds, unless that is 0.
fn random_traces_after(
    warm_up_ms: u64,
    name: &str,
    cases: u32,
    rates: std::ops::Range<u32>,
    algorithms: &'static [Algorithm],
    pers: &'static [u64],
) -> Tally {
    let processes = algorithms.len();
    let server = RedisServer::start();
    // Each process has a window and a keep-alive of its own, or just a keep-alive, or all have the same.
    let kept = prop::sample::select(KEPT);
    let own = (prop::sample::select(pers), kept.clone());
    let one_window = (prop::sample::select(pers), prop::collection::vec(kept, processes));
    let own = prop_oneof![
        prop::collection::vec(own.clone(), processes),
        one_window.prop_map(|(per, kept)| kept.into_iter().map(|keep| (per, keep)).collect()),
        own.prop_map(move |alike| vec![alike; processes]),
    ];
    let trace = (rates, own).prop_flat_map(move |(rate, own)| {
        let configs: Vec<Config> = (0..)
            .zip(algorithms)
            .zip(&own)
            .map(|((n, algorithm), &(per, keep))| {
                let rate = rate * (n % 3 + 1) / 2 + 1;
                let rule = match algorithm {
                    Algorithm::TokenBucket if warm_up_ms > 0 => {
                        Rule::WarmingBucket { warm_up: Duration::from_millis(warm_up_ms) }
                    }
                    other => other.rule(rate * (n % 2 * 3 + 1) / 2 + 1),
                };
                Config::new(rate.into(), per, Mode::Overall).rule(rule).keep_alive_ms(keep)
            })
            .collect();
        let pers: Vec<u64> = own.iter().map(|(per, _)| *per).collect();
        let steps = prop::sample::select(pers);
        let steps = steps.prop_flat_map(move |per| steps_of(per, rate, processes));
        (Just(configs), steps)
    });
    let mut runner = tests::random_histories(cases);
    let (case, tally) = (Cell::new(0), Cell::new(Tally::default()));
    let connection = Cell::new(None);
    runner
        .run(&trace, |(configs, trace)| {
            case.set(case.get() + 1);
            let redis = connection.take().unwrap_or_else(|| server.connect().unwrap());
            let mut twins = Twins::new(redis, format!("{name}:{}", case.get()));
            for step in trace {
                twins.run(&configs, step);
                twins.assert_whole();
                twins.assert_kept_alike();
            }
            tally.set(tally.get().and(twins.tally));
            connection.set(Some(twins.redis));
            Ok(())
        })
        .unwrap();
    tally.get()
}

impl Tally {
    fn and(self, other: Self) -> Self {
        Self {
            operations: self.operations + other.operations,
            granted: self.granted + other.granted,
            refused: self.refused + other.refused,
        }
    }
}

/// What is taken of, and left in, a limiter of ten a minute that others write to as well.
struct Shared {
    server: RedisServer,
    twins: Twins,
    config: Config,
}

impl Shared {
    fn start() -> Self {
        let server = RedisServer::start();
        let twins = Twins::new(server.connect().unwrap(), "shared".into());
        Self { server, twins, config: Config::new(10, 60_000, Mode::Overall) }
    }

    fn acquire(&mut self, permits: u32) -> Reply {
        let keys = self.twins.keys.clone();
        let request = self.twins.request(&keys, self.config, 10, Assertion::Steady);
        let value = self.twins.call(|by_name| decide::call(&request, &[permits], 10, by_name));
        decide::all_replies(&value, &self.config, &[permits]).unwrap()[0]
    }

    /// Seconds left to live after an acquire that found so many milliseconds.
    fn kept_alive(&mut self, left_ms: &str) -> i64 {
        let keys = ["shared", "{shared}:value", "{shared}:permits"];
        for key in keys {
            let _: i64 = self.server.cli(&["PEXPIRE", key, left_ms]);
        }
        self.acquire(1);
        let ttls = keys.map(|key| self.server.cli::<i64>(&["PTTL", key]));
        assert!(ttls.iter().all(|ttl| (ttl - ttls[0]).abs() < 500), "all alike: {ttls:?}");
        (ttls[0] + 500) / 1000
    }
}

#[test]
fn what_changes_after_a_refusal_is_healed_by_the_next_one() {
    let counter = "{shared}:value";
    let changes: [&[&[&str]]; 4] = [
        // A command of Java's that was sent twice, with a member and without.
        &[
            &["ZADD", "{shared}:permits", "1700000000001", "\u{1}x\u{1}\0\0\0"],
            &["DECRBY", counter, "2"],
        ],
        &[&["DECRBY", counter, "1"]],
        // Permits that are given back while they are in the log.
        &[&["INCRBY", counter, "2"]],
        &[&["DEL", "{shared}:permits"]],
    ];
    for change in changes {
        let mut shared = Shared::start();
        shared.acquire(4);
        for _ in 0..2 {
            assert_eq!(shared.acquire(9).remaining, 6);
        }
        shared.twins.time.now += 1;
        for command in change {
            let _: i64 = shared.server.cli(command);
        }
        assert_eq!(shared.acquire(9).outcome, Outcome::Refused);
        shared.twins.assert_whole();
    }
}

#[test]
fn keys_are_kept_alive_together_and_not_with_every_grant() {
    let mut shared = Shared::start();
    shared.config.keep_alive_ms = 600_000;
    shared.acquire(1);
    for (found, left) in [("610000", 610), ("590000", 750), ("900000", 750)] {
        let kept = shared.kept_alive(found);
        assert!((left - 3..=left).contains(&kept), "{kept} s from {found} ms");
    }
    // Java's `availablePermits` takes the counter's expiry away.
    let _: i64 = shared.server.cli(&["PERSIST", "{shared}:value"]);
    shared.acquire(1);
    assert!(shared.server.cli::<i64>(&["PTTL", "{shared}:value"]) > 749_000);

    let mut shared = Shared::start();
    shared.config.keep_alive_ms = 62_000;
    shared.acquire(1);
    let kept = shared.kept_alive("61100");
    assert!((75..=78).contains(&kept), "{kept}: what is used is not free before 61.2 s");
}

#[test]
fn a_rejection_that_drops_old_permits_leaves_the_expiry() {
    // It renewed the keep-alive, and so undid an expiry that was set on purpose.
    let mut shared = Shared::start();
    shared.config.keep_alive_ms = 600_000;
    for permits in [4, 6] {
        shared.acquire(permits);
        shared.twins.time.now += 30_000;
    }
    for key in ["shared", "{shared}:value", "{shared}:permits"] {
        let _: i64 = shared.server.cli(&["PEXPIRE", key, "100000"]);
    }
    assert_eq!(shared.acquire(5).outcome, Outcome::Refused);
    assert_eq!(shared.server.cli::<u64>(&["ZCARD", "{shared}:permits"]), 1);
    shared.twins.assert_whole();
    let ttls = shared.twins.ttls();
    assert!(ttls.iter().all(|ttl| (1..=100_000).contains(ttl)), "{ttls:?}");
    shared.acquire(4);
    let ttls = shared.twins.ttls();
    assert!(ttls.iter().all(|ttl| *ttl > 600_000), "{ttls:?}");
}

#[test]
fn a_log_keeps_its_expiry_when_all_of_it_is_over() {
    let mut shared = Shared::start();
    shared.config.keep_alive_ms = 600_000;
    for permits in [1, 2, 2, 9] {
        shared.acquire(permits);
        shared.twins.time.now += 60_000;
        let ttl: i64 = shared.server.cli(&["PTTL", "{shared}:permits"]);
        assert!(ttl > 600_000, "{ttl} after {permits}");
    }
}

#[test]
fn a_limiter_expires_by_the_keep_alive_in_force_in_both_stores() {
    // An expiry outlived the keep-alive that it came of, in one store or in both.
    let server = RedisServer::start();
    let mut wrong = Vec::new();
    for algorithm in [SlidingWindow, TokenBucket, FixedWindow, LeakyBucket] {
        let ways = [[KEPT[1], 0], [0, KEPT[1]], [KEPT[1], KEPT[2]]];
        let (always, keep) = (WriteWhen::Always, KeepState::Keep);
        let changes = [
            Step::First { process: 1, carry: true },
            Step::First { process: 1, carry: false },
            Step::Write { process: 1, when: always, state: keep, hold_ms: 0 },
            Step::Write { process: 1, when: always, state: KeepState::Reset, hold_ms: 0 },
        ];
        for (kept, change) in
            ways.into_iter().flat_map(|kept| changes.clone().map(|change| (kept, change)))
        {
            let name = format!("{algorithm} {kept:?} {change:?}");
            let mut twins = Twins::new(server.connect().unwrap(), name.clone());
            let config = |(rate, keep)| {
                let config = Config::new(rate, 60_000, Mode::Overall);
                config.rule(algorithm.rule(9)).keep_alive_ms(keep)
            };
            let configs = [config((8, kept[0])), config((9, kept[1]))];
            twins.run(&configs, Step::Acquire { process: 0, permits: 1 });
            twins.run(&configs, change);
            twins.run(&configs, Step::Advance(60_000));
            twins.run(&configs, Step::Acquire { process: 1, permits: 1 });
            let rust = twins.runtime.block_on(twins.memory.ttl(&twins.keys)).unwrap();
            let lua = twins.ttls()[0];
            let keep = i64::try_from(kept[1]).unwrap();
            let by_lua =
                if keep > 0 { (keep - 5_000..=keep + keep / 4).contains(&lua) } else { lua == -1 };
            let by_rust = rust == (keep > 0).then(|| Duration::from_millis(kept[1]));
            if !(by_lua && by_rust) {
                wrong.push(format!("{name}: {lua} ms (lua), {rust:?} (rust)"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_configuration_that_a_clock_dated_ahead_counts_as_the_oldest() {
    // In Redis it stayed, if the numbers were the same.
    let server = RedisServer::start();
    let mut twins = Twins::new(server.connect().unwrap(), "ahead".into());
    let config = |keep| Config::new(4, 60_000, Mode::Overall).keep_alive_ms(keep);
    let configs = [config(KEPT[1]), config(KEPT[1]), config(KEPT[2])];
    for step in [
        Step::First { process: 2, carry: true },
        Step::Rewind(60_000),
        Step::First { process: 0, carry: true },
    ] {
        twins.run(&configs, step);
        twins.assert_kept_alike();
    }
    assert_eq!(twins.keep_alive_ms(), Some(KEPT[1]));
}

#[test]
fn a_debt_above_a_lower_rate_is_paid_whether_calls_arrive_or_not() {
    // Only the first window without calls paid.
    let server = RedisServer::start();
    let [six, four] = [6, 4].map(|rate| Config::new(rate, 1000, Mode::Overall));
    // The release pays a permit of the debt, or else returns one of those in use.
    for (idle_ms, free) in [(1000, 0), (2000, 3), (2999, 3), (3000, 4), (12_000, 4)] {
        let mut twins = Twins::new(server.connect().unwrap(), format!("lower:{idle_ms}"));
        for step in [
            Step::Acquire { process: 0, permits: 6 },
            Step::Charge { process: 1, permits: 6, max_debt: Some(6) },
            Step::Advance(idle_ms),
            Step::Peek { permits: 1 },
            Step::Release { permits: 1 },
        ] {
            twins.run(&[six, four], step);
            twins.assert_whole();
        }
        let refused = twins.tally.refused;
        for permits in [free, 1] {
            twins.run(&[six, four], Step::Acquire { process: 1, permits: permits.max(1) });
        }
        let expected = if free == 0 { 2 } else { 1 };
        assert_eq!(twins.tally.refused - refused, expected, "after {idle_ms} ms");
    }
}

#[test]
fn one_configuration_decides_alike() {
    random_traces("one", 300, 1..40, &[SlidingWindow], &[100, 1000, 60_000]);
}

#[test]
fn long_logs_are_merged_alike() {
    random_traces("long", 60, 200..5000, &[SlidingWindow], &[1000, 50_000]);
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
        if round > 300 && round % 20 == 0 {
            // Waits that go through most of it, and again when nothing changed.
            for permits in [1000, 900, 700] {
                twins.run(&config, Step::Peek { permits });
                twins.run(&config, Step::Acquire { process: 0, permits });
            }
        }
    }
    twins.assert_whole();
}

#[test]
fn several_configurations_are_reconciled_alike() {
    random_traces("several", 300, 1..30, &[SlidingWindow; 4], &[100, 1000, 40_000]);
}

#[test]
fn every_other_rule_decides_alike() {
    random_traces("token", 300, 1..40, &[TokenBucket], &[7, 100, 1000, 60_000]);
    random_traces("leaky", 200, 1..40, &[LeakyBucket], &[7, 100, 1000, 60_000]);
    random_traces("fixed", 200, 1..40, &[FixedWindow], &[7, 100, 1000, 60_000]);
}

#[test]
fn large_numbers_are_counted_exactly() {
    // As many ticks as are allowed: 2^52.
    random_traces(
        "large",
        100,
        1 << 19..1 << 20,
        &[TokenBucket],
        &[1_000_003, 31_622_400_000 >> 4],
    );
    random_traces("larger", 100, 1 << 19..1 << 20, &[LeakyBucket], &[999_983]);
}

#[test]
fn a_change_of_the_rule_is_reconciled_alike() {
    let rules = &[SlidingWindow, TokenBucket, FixedWindow, LeakyBucket];
    random_traces("rules", 400, 1..30, rules, &[100, 1000, 40_000]);
    let rules = &[TokenBucket, TokenBucket, LeakyBucket, SlidingWindow];
    random_traces("buckets", 200, 1..30, rules, &[7, 1000, 40_000]);
    random_traces("windows", 200, 1..30, &[FixedWindow; 3], &[7, 1000, 40_000]);
}

/// Operations of each algorithm, a million with `RATELIMIT_FULL_LENGTH`.
fn many() -> u64 {
    if std::env::var_os("RATELIMIT_FULL_LENGTH").is_some() { 1_000_000 } else { 5_000 }
}

#[test]
fn a_million_operations_of_each_rule_decide_alike() {
    for (algorithms, warm_up_ms) in [
        // Two configurations each, that are written over each other now and then.
        (&[SlidingWindow; 2], 0),
        (&[TokenBucket; 2], 0),
        (&[TokenBucket; 2], 3_000),
        (&[FixedWindow; 2], 0),
        (&[LeakyBucket; 2], 0),
    ] {
        let (start, mut all, mut round) = (Instant::now(), Tally::default(), 0);
        while all.operations < many() {
            round += 1;
            let name = format!("many:{round}");
            let pers = &[100, 1000, 60_000];
            let more = random_traces_after(warm_up_ms, &name, 200, 1..200, algorithms, pers);
            all = all.and(more);
        }
        let warms_up = if warm_up_ms > 0 { " with a warm-up" } else { "" };
        println!("{}{warms_up}: {all:?}, no differences, in {:?}", algorithms[0], start.elapsed());
    }
}

/// What is free after a call for one permit of a limiter of a thousand, of whose log a peer wrote most.
fn compacted(shared: &mut Shared) -> u64 {
    for _ in 0..40 {
        shared.twins.time.now += 1;
        shared.acquire(1001);
        shared.acquire(999);
    }
    let members: u64 = shared.server.cli(&["ZCARD", "{shared}:permits"]);
    assert!(members < 100, "{members} of 291");
    shared.acquire(1).remaining
}

#[test]
fn a_grant_is_found_where_a_long_log_was_made_short() {
    let mut shared = Shared::start();
    shared.config.rate = 1000;
    let reply = shared.acquire(7);
    let grant = Grant::of(&reply, 7, 0);
    // In one time bucket of 1.2 s with those of others.
    let mut connection = shared.server.connect().unwrap();
    for n in 0..290_u32 {
        let member = [&[4][..], &n.to_le_bytes(), &1_u32.to_le_bytes()].concat();
        let at = shared.twins.time.now + u64::from(n);
        redis::cmd("ZADD")
            .arg("{shared}:permits")
            .arg(at)
            .arg(member)
            .exec(&mut connection)
            .unwrap();
    }
    let _: i64 = shared.server.cli(&["DECRBY", "{shared}:value", "290"]);
    shared.twins.time.now += 5_000;
    let free = compacted(&mut shared);
    let keys = shared.twins.keys.clone();
    let give_back = |shared: &mut Shared| {
        let told: (u8, u64) = shared.twins.call(|by_name| script_give_back(&keys, &grant, by_name));
        shared.twins.assert_whole();
        told
    };
    assert_eq!(give_back(&mut shared), (1, 7));
    assert_eq!(shared.acquire(1).remaining, free - 1 + 7);
    // A lost counter is made again of what is left.
    let _: i64 = shared.server.cli(&["DEL", "{shared}:value"]);
    assert_eq!(shared.acquire(1).remaining, free - 2 + 7);
    // Nor are permits of others taken for those of a grant.
    let mut late = reply;
    late.now_ms += 5_000;
    let late = Grant::of(&late, 7, 0);
    let told: (u8, u64) = shared.twins.call(|by_name| script_give_back(&keys, &late, by_name));
    assert_eq!(told, (1, 0));
}

#[test]
fn a_clock_that_steps_back_gives_a_window_what_is_its_own() {
    let server = RedisServer::start();
    let mut twins = Twins::new(server.connect().unwrap(), "back".into());
    let fixed = [Config::new(5, 1000, Mode::Overall).rule(FixedWindow.rule(0))];
    let take = |permits| Step::Acquire { process: 0, permits };
    let steps = [
        Step::Advance(10),
        take(3),
        // Into the window before: the later one stays in force.
        Step::Rewind(20),
        take(3),
        Step::GiveBack { back: 0 },
        take(4),
        take(1),
        Step::Charge { process: 0, permits: 4, max_debt: Some(9) },
        Step::Advance(1000),
        take(1),
        Step::Advance(1000),
        // Far back it counts in the window that is now.
        Step::Rewind(60_000),
        take(2),
        Step::GiveBack { back: 0 },
        Step::GiveBack { back: 0 },
        take(1),
    ];
    for step in steps {
        twins.run(&fixed, step);
    }
    assert!(twins.tally.granted >= 2, "{:?}", twins.tally);
}

#[test]
fn a_grant_of_a_whole_bucket_is_refunded_after_a_charge() {
    let server = RedisServer::start();
    let mut twins = Twins::new(server.connect().unwrap(), "whole".into());
    // An end in the middle of a millisecond is rounded up, to beyond the bucket.
    let bucket = [Config::new(7, 1000, Mode::Overall).rule(Rule::TokenBucket { burst: 40 })];
    let take = |permits| Step::Acquire { process: 0, permits };
    let charge = Step::Charge { process: 0, permits: 5, max_debt: None };
    for step in [take(40), charge, Step::GiveBack { back: 0 }, take(30)] {
        twins.run(&bucket, step);
    }
    assert_eq!(twins.tally.granted, 2, "{:?}", twins.tally);
}

/// The server kept eight ids, so the charges of a larger fleet that all lost their replies were made again.
#[test]
fn charges_of_a_fleet_that_lost_its_replies_are_made_once() {
    let server = RedisServer::start();
    let config = Config::new(1000, 1000, Mode::Overall).rule(Rule::TokenBucket { burst: 1000 });
    let mut twins = Twins::new(server.connect().unwrap(), "fleet".into());
    let keys = twins.keys.clone();
    let request = twins.request(&keys, config, 0, Assertion::Steady);
    let charge = |twins: &mut Twins, processes: Range<u64>| -> u64 {
        let charges = processes.map(|process| {
            let charge = Charge { permits: 1, max_debt: None, id: Some(charge_id(process)) };
            let value = twins.call(|by_name| script_charge(&request, charge, 0, by_name));
            script_charged(&value, &request).unwrap().1.taken
        });
        let taken = charges.sum();
        twins.time.advance(2000);
        taken
    };
    assert_eq!(charge(&mut twins, 0..200), 200);
    assert_eq!(charge(&mut twins, 0..200), 0, "each reply was lost");
    assert_eq!(charge(&mut twins, 200..250), 50);
    assert_eq!(charge(&mut twins, 0..250), 0, "again");
    // A limiter that is charged again and again stays small, and keeps some for a process that returns late.
    for outage in 1000..1020 {
        twins.time.advance(61_000);
        assert_eq!(charge(&mut twins, outage * 4..outage * 4 + 4), 4);
        if outage > 1000 {
            assert_eq!(charge(&mut twins, outage * 4 - 4..outage * 4), 0);
        }
        let ids: Vec<u8> =
            redis::cmd("HGET").arg("fleet").arg("charges").query(&mut twins.redis).unwrap();
        assert!(ids.len() <= 64, "{}", ids.len());
    }
}
