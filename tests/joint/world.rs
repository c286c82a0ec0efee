//! Limiters in a Redis and in the process, with one time.

use std::{cell::RefCell, time::Duration};

use ratelimit_runtime::{
    ManualClock,
    store::{
        Assertion, Config, MemoryStore, Outcome, Reply, Request, StateKeys, Store, script_call,
        script_joint_call, script_joint_replies, script_release, script_replies,
    },
};
use redis::Connection;
use tokio::{runtime::Runtime, time::Instant};

const START_MS: u64 = 1_700_000_000_000;

pub(crate) struct World {
    runtime: Runtime,
    clock: ManualClock,
    memory: MemoryStore,
    /// The same, asked in the opposite order.
    mirror: MemoryStore,
    now: u64,
    base: Instant,
    redis: RefCell<Connection>,
    /// By limiter and process.
    configs: Vec<Vec<Config>>,
    keys: Vec<StateKeys>,
}

impl World {
    pub(crate) fn new(redis: Connection, case: u32, configs: Vec<Vec<Config>>) -> Self {
        let clock = ManualClock::new();
        let keys = (0..configs.len()).map(|n| StateKeys::new(format!("{{{case}}}:{n}")));
        Self {
            runtime: tokio::runtime::Builder::new_current_thread().build().unwrap(),
            memory: MemoryStore::new(clock.clone().into()),
            mirror: MemoryStore::new(clock.clone().into()),
            clock,
            now: START_MS,
            base: Instant::now() + Duration::from_millis(1),
            redis: RefCell::new(redis),
            keys: keys.collect(),
            configs,
        }
    }

    pub(crate) fn advance(&mut self, ms: u64) {
        self.now += ms;
        self.clock.advance(Duration::from_millis(ms));
    }

    pub(crate) fn rewind(&mut self, ms: u64) {
        self.now -= ms;
        self.clock.step_back(Duration::from_millis(ms));
    }

    fn request(&self, limiter: usize, process: usize, how: Assertion) -> Request<'_> {
        let since = self.base + Duration::from_millis(self.since_ms(process));
        Request::new(&self.keys[limiter], self.configs[limiter][process], since).assertion(how)
    }

    fn since_ms(&self, process: usize) -> u64 {
        10 + process as u64
    }

    /// Asks for these rows of costs, of the limiters from the first one on, and returns what came out.
    pub(crate) fn jointly(
        &self,
        first: usize,
        process: usize,
        rows: &[Vec<u32>],
        how: Assertion,
    ) -> Vec<Outcome> {
        let requests: Vec<_> =
            (first..self.keys.len()).map(|limiter| self.request(limiter, process, how)).collect();
        let costs: Vec<&[u32]> = rows[first..].iter().map(|row| &row[..]).collect();
        let rust = self.runtime.block_on(self.memory.acquire_jointly(&requests, &costs)).unwrap();
        let rust: Vec<_> = rust.into_iter().map(plain).collect();

        let reversed: Vec<_> = requests.iter().rev().copied().collect();
        let reversed_costs: Vec<_> = costs.iter().rev().copied().collect();
        let mirror = self.mirror.acquire_jointly(&reversed, &reversed_costs);
        let mut mirror: Vec<_> =
            self.runtime.block_on(mirror).unwrap().into_iter().map(plain).collect();
        mirror.reverse();
        assert_eq!(mirror, rust, "the order of the limiters makes no difference");

        let since_us = self.since_ms(process) * 1000;
        let mut call = script_joint_call(&requests, &costs, |_| since_us, false);
        let value = call.arg(self.now).query(&mut *self.redis.borrow_mut()).unwrap();
        let lua = script_joint_replies(&value, &requests, &costs).unwrap();
        let lua: Vec<_> = lua.into_iter().map(plain).collect();
        assert_eq!(lua, rust, "(lua, rust) {costs:?} by {requests:?}");
        rust.into_iter().flatten().map(|reply| reply.outcome).collect()
    }

    /// Asks one limiter alone.
    pub(crate) fn acquire(&self, limiter: usize, process: usize, permits: u32) {
        let request = self.request(limiter, process, Assertion::Steady);
        let costs = &[permits];
        let rust = self.runtime.block_on(self.memory.acquire_all(&request, costs)).unwrap();
        self.runtime.block_on(self.mirror.acquire_all(&request, costs)).unwrap();
        let mut call =
            script_call("acquire", &request, costs, self.since_ms(process) * 1000, false);
        let value = call.arg(self.now).query(&mut *self.redis.borrow_mut()).unwrap();
        let lua = script_replies("acquire", &value, &request.config, costs).unwrap();
        assert_eq!(plain(lua), plain(rust), "(lua, rust) {permits} of {limiter}");
    }

    pub(crate) fn release(&self, limiter: usize, permits: u32) {
        let keys = &self.keys[limiter];
        let rust = self.runtime.block_on(self.memory.release(keys, permits)).unwrap();
        self.runtime.block_on(self.mirror.release(keys, permits)).unwrap();
        let mut call = script_release(keys, permits, false);
        let (_, lua, _): (u8, u64, u8) =
            call.arg(self.now).query(&mut *self.redis.borrow_mut()).unwrap();
        assert_eq!(lua, rust, "(lua, rust) release of {permits} of {limiter}");
    }

    /// Counter and log of each limiter add up to the rate in force.
    pub(crate) fn assert_whole(&self) {
        for keys in &self.keys {
            let rate: Option<i64> = redis::cmd("HGET")
                .arg(keys.config())
                .arg("rate")
                .query(&mut *self.redis.borrow_mut())
                .unwrap();
            let counter: Option<String> =
                redis::cmd("GET").arg(keys.counter()).query(&mut *self.redis.borrow_mut()).unwrap();
            let counter = counter.and_then(|counter| counter.parse::<i64>().ok());
            let (Some(rate), Some(counter)) = (rate, counter) else { continue };
            let mut log = redis::cmd("ZRANGE");
            let log: Vec<Vec<u8>> =
                log.arg(keys.log()).arg(0).arg(-1).query(&mut *self.redis.borrow_mut()).unwrap();
            let used: i64 = log.iter().map(|member| permits_of(member)).sum();
            assert_eq!(counter + used, rate, "counter {counter}, log {used}");
        }
    }
}

/// How long a limiter is kept is no part of what a script answers.
fn plain(mut replies: Vec<Reply>) -> Vec<Reply> {
    for reply in &mut replies {
        reply.config.keep_alive_ms = 0;
    }
    replies
}

fn permits_of(member: &[u8]) -> i64 {
    let tail: [u8; 4] = member[member.len() - 4..].try_into().unwrap();
    u32::from_le_bytes(tail).into()
}
