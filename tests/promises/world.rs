//! A limiter in one store, with a time of its own.

use std::time::Duration;

use ratelimit_runtime::{
    __private::store::{
        Assertion, Config, MemoryStore, Reply, Request, StateKeys, Store, script_peek,
        script_peeked,
    },
    test_util::ManualClock,
};
use redis::Connection;
use tests::{
    decide::{self, Decide},
    redis_server::RedisServer,
};
use tokio::{
    runtime::{Builder, Runtime},
    time::Instant,
};

const START_MS: u64 = 1_700_000_000_000;

/// Where limiters are counted, with the server's clock, and time as it goes on in earnest.
pub(crate) struct World {
    store: Where,
    keys: StateKeys,
    limiters: u32,
    since: Instant,
    clock_ms: u64,
    elapsed_ms: u64,
}

enum Where {
    Embedded { runtime: Runtime, clock: ManualClock, store: MemoryStore },
    Redis(Connection),
}

impl World {
    /// The embedded store, unless there is a server.
    pub(crate) fn new(redis: Option<&RedisServer>) -> Self {
        let clock = ManualClock::new();
        let store = match redis {
            Some(server) => Where::Redis(server.connect().unwrap()),
            None => Where::Embedded {
                runtime: Builder::new_current_thread().build().unwrap(),
                store: MemoryStore::new(clock.clone().into()),
                clock,
            },
        };
        Self {
            store,
            keys: StateKeys::new("promise"),
            limiters: 0,
            since: Instant::now(),
            clock_ms: START_MS,
            elapsed_ms: 0,
        }
    }

    /// Goes on with a limiter that nobody used.
    pub(crate) fn next_limiter(&mut self) {
        self.limiters += 1;
        self.keys = StateKeys::new(format!("promise:{}", self.limiters));
    }

    /// Milliseconds since the start, whatever the clock did.
    pub(crate) fn elapsed_ms(&self) -> u64 {
        self.elapsed_ms
    }

    pub(crate) fn advance(&mut self, ms: u64) {
        self.elapsed_ms += ms;
        self.clock_ms += ms;
        if let Where::Embedded { clock, .. } = &self.store {
            clock.advance(Duration::from_millis(ms));
        }
    }

    pub(crate) fn step_back(&mut self, ms: u64) {
        self.clock_ms -= ms;
        if let Where::Embedded { clock, .. } = &self.store {
            clock.step_back(Duration::from_millis(ms));
        }
    }

    pub(crate) fn acquire(&mut self, config: Config, permits: u32) -> Reply {
        self.ask("acquire", config, permits)
    }

    pub(crate) fn peek(&mut self, config: Config, permits: u32) -> Reply {
        self.ask("peek", config, permits)
    }

    fn ask(&mut self, name: &str, config: Config, permits: u32) -> Reply {
        let request = Request::new(&self.keys, config, self.since).assertion(Assertion::Steady);
        match &mut self.store {
            Where::Embedded { runtime, store, .. } => runtime.block_on(async {
                match name {
                    "acquire" => store.acquire(&request, permits).await.unwrap(),
                    _ => store.peek(&request, permits).await.unwrap(),
                }
            }),
            Where::Redis(redis) => {
                let mut run = |by_name| {
                    let mut call = match name {
                        "acquire" => decide::call(&request, &[permits], 1, by_name),
                        _ => script_peek(&request, permits, 1, by_name),
                    };
                    call.arg(self.clock_ms).query(redis)
                };
                let value = match run(true) {
                    Err(error) if error.code() == Some("NOSCRIPT") => run(false),
                    value => value,
                };
                let value = value.unwrap();
                match name {
                    "acquire" => decide::all_replies(&value, &config, &[permits]).unwrap()[0],
                    _ => script_peeked(&value, &config, permits).unwrap(),
                }
            }
        }
    }
}
