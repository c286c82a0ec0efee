//! A limiter in use by both sides, one step after another.

use std::time::Duration;

use ratelimit_runtime::__private::store::{Expiry, KeepState, Store, WriteWhen};
use redis::Connection;
use tests::{proxy::Proxy, redis_server::RedisServer};

use crate::{
    direct::Direct,
    quota,
    redisson::{Client, Redisson},
    state::State,
};

/// What our process is configured with, and what is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) rate: u32,
    pub(crate) per_ms: u64,
    /// The most permits of most requests.
    pub(crate) permits: u64,
}

/// Each member of the log is one grant.
pub(crate) const EXACT: Plan = Plan { rate: 60, per_ms: 50, permits: 8 };
/// Grants share members, also of a busy machine, where a window has fewer of them.
pub(crate) const MERGED: Plan = Plan { rate: 2_000, per_ms: 2_000, permits: 12 };

impl Plan {
    pub(crate) fn per(&self) -> Duration {
        Duration::from_millis(self.per_ms)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Java,
    Rust,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
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

/// A limiter in use by both.
pub(crate) struct Bench {
    redisson: Redisson,
    _server: RedisServer,
    redis: Connection,
    pub(crate) java: Client,
    pub(crate) rust: Direct,
    plan: Plan,
    random: u64,
    /// There is none at the moment.
    pub(crate) deleted: bool,
    /// Errors of Java's.
    pub(crate) errors: Vec<String>,
}

impl Bench {
    /// A limiter that nobody has used; Java uses it through the proxy, if there is one.
    pub(crate) async fn start(
        redisson: &Redisson,
        plan: Plan,
        server: RedisServer,
        proxy: Option<&Proxy>,
    ) -> Self {
        let java = redisson.connect_with(&proxy.map_or(server.address(), Proxy::address));
        let rust = Direct::of(&server, &quota(plan.rate, plan.per()));
        assert!(rust.write(plan.rate, WriteWhen::Absent, KeepState::Reset).await);
        Self {
            redisson: redisson.clone(),
            redis: server.connect().expect("the server accepts"),
            _server: server,
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

    pub(crate) fn next(&mut self) -> Step {
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
            // Java forgets what is used above the new rate, so it only sets the highest there is.
            903..908 if by == By::Java && self.redisson.since(4, 4) => Step::Update(by, rate + 8),
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
    pub(crate) async fn run(&mut self, step: Step) -> Option<i64> {
        self.deleted = matches!(step, Step::Delete(_));
        let rust = &self.rust;
        Some(match step {
            Step::Acquire(By::Rust, permits) => rust.try_acquire(permits).await.into(),
            Step::Available(By::Rust) => signed(rust.available_permits().await),
            Step::Release(permits) => signed(rust.release(permits).await),
            Step::Set(By::Rust, rate) => {
                rust.write(rate, WriteWhen::Always, KeepState::Reset).await.into()
            }
            Step::Update(By::Rust, rate) => {
                rust.write(rate, WriteWhen::Present, KeepState::Keep).await.into()
            }
            Step::Config(By::Rust) => {
                signed(rust.store.read(&rust.keys).await.unwrap().unwrap().config.rate)
            }
            Step::Expire(By::Rust) => {
                rust.store.expire(&rust.keys, Expiry::At(3_600_000)).await.unwrap().into()
            }
            Step::ClearExpire(By::Rust) => {
                rust.store.expire(&rust.keys, Expiry::Cleared).await.unwrap();
                0
            }
            Step::Delete(By::Rust) => rust.store.delete(&rust.keys).await.unwrap().into(),
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

    pub(crate) fn state(&mut self) -> State {
        State::read(&mut self.redis, &self.rust.keys)
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).expect("permits of a test")
}
