//! Limiters in a Redis and in the process, with one time.

use std::{cell::RefCell, time::Duration};

use ratelimit_runtime::{
    __private::store::{
        Assertion, CalendarCall, Config, Group, MemoryStore, Outcome, Reply, Request, StateKeys,
        Store, script_decide, script_decisions, script_release,
    },
    test_util::ManualClock,
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

    /// Decides groups of limiters and costs in one call, and returns what came out.
    pub(crate) fn decide(
        &self,
        process: usize,
        groups: &[(Vec<usize>, Vec<Vec<u32>>)],
        how: Assertion,
    ) -> Vec<Outcome> {
        let requests: Vec<Vec<_>> = groups
            .iter()
            .map(|(limiters, _)| limiters.iter().map(|&n| self.request(n, process, how)).collect())
            .collect();
        let costs: Vec<Vec<&[u32]>> =
            groups.iter().map(|(_, rows)| rows.iter().map(|row| &row[..]).collect()).collect();
        let asked = requests.iter().zip(&costs);
        let asked: Vec<_> = asked.map(|(requests, costs)| Group { requests, costs }).collect();
        let rust = self.runtime.block_on(self.memory.decide(&asked)).unwrap();
        let rust: Vec<_> = rust.into_iter().map(|group| plain(group.unwrap())).collect();
        self.decide_in_the_mirror(&asked, &rust);

        let since_us = self.since_ms(process) * 1000;
        let call = |by_name| {
            let mut call = script_decide(&asked, |_| since_us, by_name);
            call.arg(self.now).query(&mut *self.redis.borrow_mut())
        };
        let value = match call(true) {
            Err(error) if error.code() == Some("NOSCRIPT") => call(false),
            value => value,
        };
        let lua = script_decisions(&value.unwrap(), &asked, &mut CalendarCall::default()).unwrap();
        let lua: Vec<_> = lua.into_iter().map(|group| plain(group.unwrap().unwrap())).collect();
        assert_eq!(lua, rust, "(lua, rust) {asked:?}");
        rust.into_iter().flatten().flatten().map(|reply| reply.outcome).collect()
    }

    /// The order of the limiters makes no difference.
    fn decide_in_the_mirror(&self, groups: &[Group<'_>], expected: &[Vec<Vec<Reply>>]) {
        for (group, expected) in groups.iter().zip(expected) {
            let requests: Vec<_> = group.requests.iter().rev().copied().collect();
            let costs: Vec<_> = group.costs.iter().rev().copied().collect();
            let group = Group { requests: &requests, costs: &costs };
            let decided = self.runtime.block_on(self.mirror.decide(&[group])).unwrap().remove(0);
            let mut decided = plain(decided.unwrap());
            decided.reverse();
            assert_eq!(decided, *expected, "the order of the limiters makes no difference");
        }
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
fn plain(mut replies: Vec<Vec<Reply>>) -> Vec<Vec<Reply>> {
    for reply in replies.iter_mut().flatten() {
        reply.config.keep_alive_ms = 0;
    }
    replies
}

fn permits_of(member: &[u8]) -> i64 {
    let tail: [u8; 4] = member[member.len() - 4..].try_into().unwrap();
    u32::from_le_bytes(tail).into()
}
