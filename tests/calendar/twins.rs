//! The script against the Rust rule, at times that a test chooses.

use std::time::{Duration, UNIX_EPOCH};

use ratelimit_runtime::{
    __private::store::{
        Assertion, Calendar, CalendarCall, Charge, Config, MemoryStore, OnDrift, Reply, Request,
        StateKeys, Store, script_charge, script_charged, script_peek, script_peeked,
        script_release,
    },
    test_util::ManualClock,
};
use redis::{Connection, Value};
use tests::{
    decide::{self, Decide},
    redis_server::RedisServer,
};
use tokio::{runtime::Runtime, time::Instant};

/// A limiter in both worlds, with one time.
pub(crate) struct Twins {
    runtime: Runtime,
    clock: ManualClock,
    memory: MemoryStore,
    pub(crate) now: u64,
    /// How far the processes believe the server's time to be ahead of what it is, in milliseconds.
    pub(crate) skew: i64,
    base: Instant,
    redis: Connection,
    pub(crate) keys: StateKeys,
}

/// What the script said, and how often it was asked.
pub(crate) struct Answer {
    pub(crate) replies: Vec<Reply>,
    pub(crate) attempts: u32,
}

impl Twins {
    pub(crate) fn new(server: &RedisServer, name: &str, now: u64) -> Self {
        let clock = ManualClock::at(UNIX_EPOCH + Duration::from_millis(now));
        Self {
            runtime: Runtime::new().unwrap(),
            memory: MemoryStore::new(clock.clone().into()),
            clock,
            now,
            skew: 0,
            base: Instant::now() + Duration::from_millis(1),
            redis: server.connect().unwrap(),
            keys: StateKeys::new(name),
        }
    }

    pub(crate) fn go_to(&mut self, now: u64) {
        match now.checked_sub(self.now) {
            Some(later) => self.clock.advance(Duration::from_millis(later)),
            None => self.clock.step_back(Duration::from_millis(self.now - now)),
        }
        self.now = now;
    }

    fn request(&self, config: Config, process: u64, assertion: Assertion) -> Request<'_> {
        let since = self.base + Duration::from_millis(10 + process);
        Request::new(&self.keys, config, since).assertion(assertion)
    }

    /// What the script says; asked anew where it lacks our windows, and again for those of others.
    pub(crate) fn ask(
        &mut self,
        name: &str,
        (config, process): (Config, u64),
        costs: &[u32],
        assertion: Assertion,
        in_force: Option<Calendar>,
    ) -> Answer {
        let mut windows = CalendarCall::new(config.calendar(), in_force);
        let mut attempts = 0;
        loop {
            let request = self.request(config, process, assertion);
            let since_us = (10 + process) * 1000;
            let mut call = match name {
                "peek" => script_peek(&request, costs[0], since_us, false),
                _ => decide::call(&request, costs, since_us, false),
            };
            windows.append(&mut call, self.now, self.now.saturating_add_signed(self.skew));
            let value: Value = call.query(&mut self.redis).unwrap();
            attempts += 1;
            let own = config.keep_alive_ms(0);
            let replies = if name != "peek" {
                decide::replies(&value, &own, costs, &mut windows).unwrap()
            } else if windows.lacks(&value, Some(&config)).unwrap() {
                None
            } else {
                Some(vec![script_peeked(&value, &own, costs[0]).unwrap()])
            };
            if let Some(replies) = replies {
                return Answer { replies, attempts };
            }
            assert!(attempts < 3, "{value:?} again");
        }
    }

    fn rust(&self, name: &str, request: &Request<'_>, costs: &[u32]) -> Vec<Reply> {
        let replies = self.runtime.block_on(async {
            match name {
                "acquire" => self.memory.acquire_all(request, costs).await,
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

    /// What both say, which is the same.
    #[track_caller]
    pub(crate) fn agree(
        &mut self,
        name: &str,
        (config, process): (Config, u64),
        costs: &[u32],
        assertion: Assertion,
    ) -> Reply {
        let rust = self.rust(name, &self.request(config, process, assertion), costs);
        let lua = self.ask(name, (config, process), costs, assertion, None).replies;
        let now = self.now;
        assert_eq!(
            lua, rust,
            "(lua, rust) {name} of {costs:?} at {now} by {config:?}, {assertion:?}"
        );
        lua[0]
    }

    #[track_caller]
    pub(crate) fn acquire(&mut self, config: Config, permits: u32) -> Reply {
        self.agree("acquire", (config, 0), &[permits], Assertion::Steady)
    }

    pub(crate) fn restart(&mut self, config: Config, process: u64, on_drift: OnDrift) -> Reply {
        self.agree("acquire", (config, process), &[1], Assertion::First(on_drift))
    }

    /// Charges, and returns what is owed then.
    #[track_caller]
    pub(crate) fn charge(&mut self, config: Config, permits: u32) -> u64 {
        let keys = self.keys.clone();
        let since = self.base + Duration::from_millis(10);
        let request = Request::new(&keys, config, since);
        let charge = Charge::new(permits, Some(1_000));
        let (mut reply, rust) =
            self.runtime.block_on(self.memory.charge(&request, charge)).unwrap();
        reply.config.keep_alive_ms = 0;
        let mut call = script_charge(&request, charge, 10_000, false);
        CalendarCall::new(config.calendar(), None).append(&mut call, self.now, self.now);
        let value = call.query(&mut self.redis).unwrap();
        let own = Request::new(&keys, config.keep_alive_ms(0), since);
        let lua = script_charged(&value, &own).unwrap();
        assert_eq!(lua, (reply, rust), "(lua, rust) {permits} charged at {}", self.now);
        rust.debt
    }

    pub(crate) fn release(&mut self, permits: u32) -> u64 {
        let rust = self.runtime.block_on(self.memory.release(&self.keys, permits)).unwrap();
        let mut windows = CalendarCall::default();
        let lua = loop {
            let mut call = script_release(&self.keys, permits, false);
            windows.append(&mut call, self.now, 0);
            let value: Value = call.query(&mut self.redis).unwrap();
            if !windows.lacks(&value, None).unwrap() {
                let (_, released, _): (u8, u64, u8) = redis::from_redis_value(value).unwrap();
                break released;
            }
        };
        assert_eq!(lua, rust, "(lua, rust) release of {permits} at {}", self.now);
        lua
    }

    pub(crate) fn state(&mut self) -> Vec<u8> {
        redis::cmd("HGET").arg(self.keys.config()).arg("state").query(&mut self.redis).unwrap()
    }

    pub(crate) fn keys_stored(&mut self) -> u64 {
        redis::cmd("DBSIZE").query(&mut self.redis).unwrap()
    }
}
