//! Random operations of both sides, in turn, against a model.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, SystemTime},
};

use ratelimit_runtime::{KeepState, Limiter, Reason, store::StateKeys};
use redis::Connection;
use tests::{proxy::Proxy, redis_server::RedisServer};

use crate::{
    length, limits, quota,
    redisson::{Client, Redisson},
    state::State,
    unix_ms,
};

on_each_version!(
    random_operations_agree_with_the_model,
    random_operations_over_merged_logs_keep_the_limit,
    with_commands_sent_twice_the_limiter_ends_whole,
);

/// What our process is configured with, and what is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plan {
    rate: u32,
    per_ms: u64,
    /// The most permits of most requests.
    permits: u64,
}

/// Each member of the log is one grant.
const EXACT: Plan = Plan { rate: 90, per_ms: 50, permits: 11 };
/// Grants share members.
const MERGED: Plan = Plan { rate: 2_000, per_ms: 1_000, permits: 12 };

impl Plan {
    fn per(&self) -> Duration {
        Duration::from_millis(self.per_ms)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Java,
    Rust,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Acquire(By, u32),
    Available(By),
    Release(u32),
    /// Sets the rate and forgets what was used.
    Set(By, u32),
    /// Sets the rate and keeps what was used.
    Update(By, u32),
    Config(By),
    Expire(By),
    ClearExpire(By),
    /// Ours makes it anew with its next request.
    Delete(By),
    Pause(u64),
}

/// What a limiter is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Model {
    plan: Plan,
    rate: u32,
    /// Permits by the time at which they were taken.
    taken: BTreeMap<u64, u64>,
}

impl Model {
    fn new(plan: Plan) -> Self {
        Self { plan, rate: plan.rate, taken: BTreeMap::new() }
    }

    /// What a step at this time answers, and what it leaves. Grants and numbers alike are numbers.
    fn step(&self, step: Step, now: u64) -> (i64, Self) {
        let mut next = self.clone();
        next.taken.retain(|at, _| at + self.plan.per_ms > now);
        let free = i64::from(self.rate) - next.used();
        let answer = match step {
            Step::Acquire(_, permits) if i64::from(permits) <= free => {
                *next.taken.entry(now).or_default() += u64::from(permits);
                1
            }
            Step::Acquire(..) | Step::Pause(_) => 0,
            Step::Available(By::Java) => free,
            Step::Available(By::Rust) => free.max(0),
            Step::Release(permits) => next.give_back(permits.into()),
            Step::Set(_, rate) => {
                (next.rate, next.taken) = (rate, BTreeMap::new());
                1
            }
            Step::Update(_, rate) => {
                next.rate = rate;
                1
            }
            Step::Config(_) => self.rate.into(),
            Step::Expire(_) => 1,
            // Whether there was an expiry is not what this is about.
            Step::ClearExpire(_) => 0,
            Step::Delete(_) => {
                (next.rate, next.taken) = (self.plan.rate, BTreeMap::new());
                1
            }
        };
        (answer, next)
    }

    fn used(&self) -> i64 {
        i64::try_from(self.taken.values().sum::<u64>()).expect("permits of a test")
    }

    /// Oldest first; how many there were.
    fn give_back(&mut self, permits: u64) -> i64 {
        let mut left = permits;
        for taken in self.taken.values_mut() {
            let back = left.min(*taken);
            (*taken, left) = (*taken - back, left - back);
        }
        self.taken.retain(|_, taken| *taken > 0);
        i64::try_from(permits - left).expect("permits of a test")
    }
}

/// A limiter in use by both.
struct Bench {
    redisson: Redisson,
    _server: RedisServer,
    redis: Connection,
    keys: StateKeys,
    java: Client,
    rust: Limiter,
    plan: Plan,
    random: u64,
    /// There is none at the moment.
    deleted: bool,
    /// Errors of Java's.
    errors: Vec<String>,
}

impl Bench {
    /// A limiter that nobody has used; Java uses it through the proxy, if there is one.
    async fn start(
        redisson: &Redisson,
        plan: Plan,
        server: RedisServer,
        proxy: Option<&Proxy>,
    ) -> Self {
        let java = redisson.connect_with(&proxy.map_or(server.address(), Proxy::address));
        let rust = limits(&server, "").await.limiter("shared", quota(plan.rate, plan.per()));
        rust.try_set_rate(&quota(plan.rate, plan.per())).await.expect("an answer");
        Self {
            redisson: redisson.clone(),
            redis: server.connect().expect("the server accepts"),
            _server: server,
            keys: StateKeys::new("shared"),
            java,
            rust,
            plan,
            random: 1,
            deleted: false,
            errors: Vec::new(),
        }
    }

    /// A number below this one.
    fn below(&mut self, below: u64) -> u64 {
        // xorshift64*, of a state that is never 0.
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        (self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % below
    }

    fn next(&mut self, model: &Model) -> Step {
        if self.deleted {
            // Java would have to make it itself.
            return Step::Acquire(By::Rust, 1);
        }
        let by = if self.below(2) == 0 { By::Java } else { By::Rust };
        let (rate, half) = (self.plan.rate, u64::from(self.plan.rate) / 2);
        let permits = |bench: &mut Self, most: u64| u32::try_from(1 + bench.below(most)).unwrap();
        match self.below(1000) {
            0..700 => {
                let most = if self.below(50) == 0 { half } else { self.plan.permits };
                Step::Acquire(by, permits(self, most))
            }
            700..850 => Step::Available(by),
            850..900 => Step::Release(permits(self, 2 * self.plan.permits)),
            900..903 => Step::Set(by, permits(self, half) + rate / 2),
            // Java forgets what is used above a lower rate, so it is only to raise it.
            903..908 if by == By::Java && self.redisson.since(4, 4) => {
                Step::Update(by, model.rate.max(rate) + permits(self, 5))
            }
            903..908 => Step::Update(By::Rust, permits(self, half) + rate / 2),
            908..930 => Step::Config(by),
            930..940 => Step::Expire(by),
            940..950 => Step::ClearExpire(by),
            950..953 => Step::Delete(by),
            953..970 => Step::Pause(self.below(25)),
            _ => Step::Available(by),
        }
    }

    /// Runs a step and gives its answer as a number; none when Java failed.
    async fn run(&mut self, step: Step) -> Option<i64> {
        self.deleted = matches!(step, Step::Delete(_));
        Some(match step {
            Step::Acquire(By::Rust, permits) => match self.rust.try_acquire(permits).await {
                Ok(_) => 1,
                Err(refusal) => {
                    assert_eq!(refusal.reason(), Reason::Limited, "{refusal}");
                    0
                }
            },
            Step::Available(By::Rust) => signed(self.rust.available_permits().await.unwrap()),
            Step::Release(permits) => signed(self.rust.release(permits).await.unwrap()),
            Step::Set(By::Rust, rate) => {
                self.rust.set_rate(&quota(rate, self.plan.per())).await.unwrap();
                1
            }
            Step::Update(By::Rust, rate) => self
                .rust
                .update_rate(&quota(rate, self.plan.per()), KeepState::Keep)
                .await
                .unwrap()
                .into(),
            Step::Config(By::Rust) => signed(self.rust.config().await.unwrap().unwrap().rate),
            Step::Expire(By::Rust) => {
                self.rust.expire(Duration::from_secs(3600)).await.unwrap().into()
            }
            Step::ClearExpire(By::Rust) => {
                self.rust.clear_expire().await.unwrap();
                0
            }
            Step::Delete(By::Rust) => self.rust.delete().await.unwrap().into(),
            Step::Pause(ms) => {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                0
            }
            java => return self.run_java(java),
        })
    }

    fn run_java(&mut self, step: Step) -> Option<i64> {
        let per = self.plan.per_ms;
        let command = match step {
            Step::Acquire(_, permits) => format!("tryAcquire shared {permits}"),
            Step::Available(_) => "availablePermits shared".to_owned(),
            Step::Set(_, rate) => format!("setRate shared OVERALL {rate} {per}"),
            Step::Update(_, rate) => format!("updateRate shared OVERALL {rate} {per} 0 keep"),
            Step::Config(_) => "getConfig shared".to_owned(),
            Step::Expire(_) => "expire shared 3600000".to_owned(),
            Step::ClearExpire(_) => "clearExpire shared".to_owned(),
            Step::Delete(_) => "delete shared".to_owned(),
            Step::Release(_) | Step::Pause(_) => unreachable!("Java does not run {step:?}"),
        };
        self.java.begin(&command);
        let answer = self.java.line();
        if let Some(error) = answer.strip_prefix("error ") {
            self.errors.push(format!("`{command}`: {error}"));
            return None;
        }
        let words: Vec<&str> = answer.split(' ').collect();
        Some(match (step, &words[..]) {
            (Step::ClearExpire(_), _) | (_, ["false"]) => 0,
            (_, ["true" | "ok"]) => 1,
            (_, [number] | [_, number, _]) => number.parse().expect("a number"),
            _ => panic!("`{command}`: {answer}"),
        })
    }

    fn state(&mut self) -> State {
        State::read(&mut self.redis, &self.keys)
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).expect("permits of a test")
}

fn steps() -> u64 {
    length(1_000, 100_000)
}

fn now_ms() -> u64 {
    unix_ms(SystemTime::now())
}

/// The permits in a log, by their time, that are not free again at this time.
fn live(state: &State, per_ms: u64, now: u64) -> BTreeMap<u64, u64> {
    let mut live = BTreeMap::new();
    for entry in &state.log {
        let at = whole(entry.at_ms);
        if at + per_ms > now {
            *live.entry(at).or_default() += u64::from(entry.permits());
        }
    }
    live
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time in ms")]
fn whole(ms: f64) -> u64 {
    ms as u64
}

/// Every answer and every log is what the model gives for some instant of the call, and counter and
/// log make up the rate after each of them. A log of a hundred members at most is exact.
async fn random_operations_agree_with_the_model(redisson: Redisson) {
    let mut bench = Bench::start(&redisson, EXACT, RedisServer::start(), None).await;
    let mut model = Model::new(EXACT);
    let (steps, mut granted) = (steps(), [0; 2]);
    for n in 0..steps {
        let step = bench.next(&model);
        let start = now_ms();
        let answer = bench.run(step).await;
        let end = now_ms();
        assert_eq!(bench.errors, [""; 0], "step {n}");
        let state = bench.state();
        let agrees = (start..=end).find_map(|now| {
            let (expected, next) = model.step(step, now);
            (answer == Some(expected) && live(&state, EXACT.per_ms, now) == next.taken)
                .then_some(next)
        });
        let Some(next) = agrees else {
            panic!(
                "step {n} at {start}..={end}: {step:?} of {model:?} gives {answer:?}, {state:?}"
            );
        };
        let whole = bench.deleted || state.is_whole();
        assert!(whole, "step {n}: {step:?} of {model:?} leaves {state:?}");
        if let Step::Acquire(by, _) = step {
            granted[by as usize] += answer.unwrap_or(0);
        }
        model = next;
    }
    println!("{redisson}: {steps} steps agree with the model, (Java, Rust) granted {granted:?}");
    assert!(granted.iter().all(|&granted| granted > 0), "{granted:?}");
}

/// What is used as far as it can be told from outside, where each call happens at some instant
/// between its start and its end.
#[derive(Debug)]
struct Used {
    per_ms: u64,
    /// Grants by their earliest instant, and when they are free again at the earliest.
    surely: VecDeque<(u64, i64)>,
    /// Grants by their latest instant; a permit may come back a fiftieth of a window late.
    perhaps: VecDeque<(u64, i64)>,
}

impl Used {
    fn of(plan: Plan) -> Self {
        Self { per_ms: plan.per_ms, surely: VecDeque::new(), perhaps: VecDeque::new() }
    }

    /// Forgets what is free again: surely for the whole of a call, or perhaps in some of it.
    fn forget(&mut self, start: u64, end: u64) {
        let (per, late) = (self.per_ms, self.per_ms / 50 + 1);
        self.surely.retain(|(at, _)| at + per > end);
        self.perhaps.retain(|(at, _)| at + per + late >= start);
    }

    /// The least and the most that is used.
    fn range(&self) -> (i64, i64) {
        let sum = |grants: &VecDeque<(u64, i64)>| grants.iter().map(|(_, permits)| permits).sum();
        (sum(&self.surely), sum(&self.perhaps))
    }

    /// Takes note of what a step granted or gave back.
    fn follow(&mut self, step: Step, answer: i64, start: u64, end: u64) {
        match (step, answer) {
            (Step::Acquire(_, permits), 1) => {
                self.surely.push_back((start, permits.into()));
                self.perhaps.push_back((end, permits.into()));
            }
            (Step::Release(_), given_back) => {
                give_back(&mut self.surely, given_back);
                give_back(&mut self.perhaps, given_back);
            }
            (Step::Set(..) | Step::Delete(_), _) => {
                self.surely.clear();
                self.perhaps.clear();
            }
            _ => {}
        }
    }
}

fn give_back(grants: &mut VecDeque<(u64, i64)>, mut permits: i64) {
    while let Some((_, taken)) = grants.front_mut() {
        let back = permits.min(*taken);
        (*taken, permits) = (*taken - back, permits - back);
        if *taken > 0 {
            break;
        }
        grants.pop_front();
    }
}

/// A rate at which the log is merged: what was granted is within the limit, what was refused was
/// used, but for what comes back a little late; and counter and log make up the rate.
async fn random_operations_over_merged_logs_keep_the_limit(redisson: Redisson) {
    let mut bench = Bench::start(&redisson, MERGED, RedisServer::start(), None).await;
    let mut model = Model::new(MERGED);
    let (steps, mut used, mut longest) = (steps(), Used::of(MERGED), 0);
    for n in 0..steps {
        let step = bench.next(&model);
        let start = now_ms();
        let answer = bench.run(step).await.unwrap_or_else(|| panic!("{:?}", bench.errors));
        let end = now_ms();
        let rate = i64::from(model.rate);
        used.forget(start, end);
        if let Step::Acquire(_, permits) = step {
            let (surely, perhaps) = used.range();
            let (least, most) = (rate - perhaps, rate - surely);
            let right = if answer == 1 { most >= permits.into() } else { least < permits.into() };
            assert!(
                right,
                "step {n}: {step:?} gives {answer}, {least}..={most} of {rate} are free"
            );
        }
        used.follow(step, answer, start, end);
        model.rate = model.step(step, end).1.rate;
        let state = bench.state();
        longest = longest.max(state.log.len());
        assert!(bench.deleted || state.is_whole(), "step {n}: {step:?} leaves {state:?}");
    }
    println!("{redisson}: {steps} steps keep the limit, the log had up to {longest} members");
    assert!((100..300).contains(&longest), "{longest} members");
}

/// Java's commands reach the server twice now and then, as they do when a reply is lost, and count
/// twice then. Nobody is granted too much meanwhile, and all is well soon afterwards.
async fn with_commands_sent_twice_the_limiter_ends_whole(redisson: Redisson) {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let mut bench = Bench::start(&redisson, EXACT, server, Some(&proxy)).await;
    proxy.repeat_scripts(20);
    let mut model = Model::new(EXACT);
    let (steps, mut used, mut short) = (steps(), Used::of(EXACT), 0);
    for n in 0..steps {
        let step = bench.next(&model);
        let start = now_ms();
        let answer = bench.run(step).await.unwrap_or(0);
        let end = now_ms();
        used.forget(start, end);
        if let Step::Acquire(_, permits) = step {
            let free = i64::from(model.rate) - used.range().0;
            assert!(answer == 0 || free >= permits.into(), "step {n}: {step:?}, {free} are free");
        }
        used.follow(step, answer, start, end);
        model.rate = model.step(step, end).1.rate;
        short += u64::from(!bench.deleted && !bench.state().is_whole());
    }
    proxy.repeat_scripts(0);
    let (repeated, errors) = (proxy.traffic().repeated, bench.errors.len());
    println!(
        "{redisson}: {repeated} commands sent twice in {steps} steps, {short} states short, {errors} errors of Java's"
    );
    assert!(repeated > 0 && short > 0);
    // Java's scripts fail on an empty log beside a short counter, which is the one way.
    let known = |error: &String| error.contains("nil value");
    assert!(bench.errors.iter().all(known), "{:?}", bench.errors);

    bench.rust.acquire_timeout(model.rate, 3 * EXACT.per()).await.expect("a whole window");
    bench.state().assert_whole();
    assert!(bench.java.call::<bool>(&format!("tryAcquire shared {} 2000", model.rate)));
    bench.state().assert_whole();
}
