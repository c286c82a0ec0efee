//! One decision for several limiters: the script against the Rust rule on random traces, and what a
//! user of both would notice.
#![allow(clippy::disallowed_methods, reason = "real servers live in real time")]

use std::time::Duration;

use proptest::prelude::*;
use ratelimit_runtime::{
    Algorithm::{FixedWindow, LeakyBucket, SlidingWindow, TokenBucket},
    Mode, OnDrift,
    store::{
        Assertion, Config,
        Outcome::{self, Granted, Refused, Spared},
        RedisStore, Request, StateKeys, Store,
    },
};
use tests::{redis_cluster::RedisCluster, redis_server::RedisServer};
use tokio::time::Instant;

#[path = "joint/world.rs"]
mod world;

use world::World;

const STEADY: Assertion = Assertion::Steady;

#[derive(Clone, Debug)]
enum Step {
    Advance(u64),
    Rewind(u64),
    /// Of the limiters from this one on; a row of costs for each, of which as many are used.
    Jointly {
        first: usize,
        process: usize,
        rows: Vec<Vec<u32>>,
        how: Assertion,
    },
    Acquire {
        limiter: usize,
        process: usize,
        permits: u32,
    },
    Release {
        limiter: usize,
        permits: u32,
    },
}

/// The numbers each of the processes has for a limiter.
fn configs(processes: usize) -> impl Strategy<Value = Vec<Config>> {
    let algorithm =
        prop::sample::select(vec![SlidingWindow, TokenBucket, FixedWindow, LeakyBucket]);
    let mode = prop_oneof![40 => Just(Mode::Overall), 1 => Just(Mode::PerClient)];
    let per = prop::sample::select(vec![7, 100, 1000, 40_000]);
    let keep = prop::sample::select(vec![0, 1 << 40]);
    let config = (1..30_u32, per, mode, algorithm, 1..40_u32, keep).prop_map(
        |(rate, per, mode, algorithm, burst, keep)| {
            let config = Config::new(rate.into(), per, mode).keep_alive_ms(keep);
            match algorithm {
                TokenBucket if burst % 4 == 0 => {
                    config.algorithm(TokenBucket, 0).warm_up_ms(u64::from(burst) * 50)
                }
                TokenBucket => config.algorithm(TokenBucket, burst),
                other => config.algorithm(other, 0),
            }
        },
    );
    // In half of the traces they agree.
    (prop::collection::vec(config, processes), any::<bool>()).prop_map(|(mut configs, agree)| {
        if agree {
            let first = configs[0];
            configs.fill(first);
        }
        configs
    })
}

fn steps(limiters: usize, processes: usize) -> impl Strategy<Value = Vec<Step>> {
    let advance = prop_oneof![
        Just(1),
        Just(20),
        Just(100),
        Just(333),
        Just(1000),
        Just(12_000),
        Just(31_000),
        0..2000_u64
    ];
    let cost = prop_oneof![4 => Just(1_u32), 3 => 1..6_u32, 1 => 1..40_u32];
    let rows = (1..7_usize, any::<bool>()).prop_flat_map({
        let cost = cost.clone();
        move |(callers, equal)| {
            let row = prop::collection::vec(cost.clone(), callers);
            prop::collection::vec(row, limiters).prop_map(move |mut rows| {
                if equal {
                    let first = rows[0].clone();
                    rows.fill(first);
                }
                rows
            })
        }
    });
    let how = prop_oneof![
        20 => Just(STEADY),
        1 => Just(Assertion::First(OnDrift::Reset)),
        1 => Just(Assertion::First(OnDrift::Carry)),
        1 => Just(Assertion::Follow { first: true }),
        1 => Just(Assertion::Follow { first: false }),
    ];
    let step = prop_oneof![
        6 => advance.prop_map(Step::Advance),
        1 => (1..3000_u64).prop_map(Step::Rewind),
        14 => (0..limiters - 1, 0..processes, rows, how)
            .prop_map(|(first, process, rows, how)| Step::Jointly { first, process, rows, how }),
        3 => (0..limiters, 0..processes, cost.clone())
            .prop_map(|(limiter, process, permits)| Step::Acquire { limiter, process, permits }),
        1 => (0..limiters, cost).prop_map(|(limiter, permits)| Step::Release { limiter, permits }),
    ];
    prop::collection::vec(step, 1..80)
}

#[test]
fn the_script_decides_as_the_rules_do_in_any_order() {
    let server = RedisServer::start();
    let trace = (2..5_usize, 1..4_usize).prop_flat_map(|(limiters, processes)| {
        let configs = prop::collection::vec(configs(processes), limiters);
        (configs, steps(limiters, processes))
    });
    let mut runner = tests::random_histories(400);
    let case = std::cell::Cell::new(0);
    let seen = std::cell::RefCell::new(std::collections::HashMap::new());
    runner
        .run(&trace, |(configs, steps)| {
            case.set(case.get() + 1);
            let mut world = World::new(server.connect().unwrap(), case.get(), configs);
            for step in steps {
                match step {
                    Step::Advance(ms) => world.advance(ms),
                    Step::Rewind(ms) => world.rewind(ms),
                    Step::Jointly { first, process, rows, how } => {
                        for outcome in world.jointly(first, process, &rows, how) {
                            *seen.borrow_mut().entry(outcome).or_insert(0) += 1;
                        }
                    }
                    Step::Acquire { limiter, process, permits } => {
                        world.acquire(limiter, process, permits);
                    }
                    Step::Release { limiter, permits } => world.release(limiter, permits),
                }
                world.assert_whole();
            }
            Ok(())
        })
        .unwrap();
    println!("{:?}", seen.borrow());
    let often = |outcome| seen.borrow().get(&outcome).is_some_and(|&times| times > 100);
    assert!([Granted, Refused, Spared, Outcome::PerClient].into_iter().all(often), "{seen:?}");
}

#[test]
fn long_and_short_logs_are_kept_alike() {
    let server = RedisServer::start();
    let sliding = |rate, per| vec![Config::new(rate, per, Mode::Overall)];
    let configs = vec![sliding(90, 60), sliding(1000, 10_000), sliding(5000, 40_000)];
    let mut world = World::new(server.connect().unwrap(), 0, configs);
    let mut granted = 0;
    for round in 0..3000 {
        world.advance(round * 7 % 31);
        let cost = 1 + u32::try_from(round % 3).unwrap();
        let rows = if round % 10 == 0 { vec![cost; 5] } else { vec![cost] };
        let first = usize::from(round % 5 == 0);
        let outcomes = world.jointly(first, 0, &[rows.clone(), rows.clone(), rows], STEADY);
        granted += outcomes.iter().filter(|outcome| **outcome == Granted).count();
        if round % 100 == 0 {
            world.acquire(2, 0, 4000);
        }
    }
    world.assert_whole();
    assert!(granted > 1500, "{granted}");
}

/// Limiters with a store of their own.
struct Shared {
    server: RedisServer,
    store: RedisStore,
    limiters: Vec<(StateKeys, Config)>,
    since: Instant,
}

impl Shared {
    fn start(configs: &[Config]) -> Self {
        let server = RedisServer::start();
        let store = RedisStore::open(&server.url(), Duration::from_secs(2)).unwrap();
        let limiters = configs.iter().enumerate();
        let limiters =
            limiters.map(|(n, config)| (StateKeys::new(format!("{{all}}:{n}")), *config)).collect();
        Self { server, store, limiters, since: Instant::now() }
    }

    async fn ask(&self) -> Result<Vec<Outcome>, ratelimit_runtime::StoreError> {
        let requests: Vec<_> = self
            .limiters
            .iter()
            .map(|(keys, config)| Request::new(keys, *config, self.since))
            .collect();
        let costs: Vec<&[u32]> = requests.iter().map(|_| &[1][..]).collect();
        let replies = self.store.acquire_jointly(&requests, &costs).await?;
        Ok(replies.iter().map(|row| row[0].outcome).collect())
    }

    /// Everything that counts of a limiter.
    fn state(&self, n: usize) -> (Option<String>, Vec<Vec<u8>>) {
        let keys = &self.limiters[n].0;
        let log = self.server.cli(&["ZRANGE", keys.log(), "0", "-1", "WITHSCORES"]);
        (self.server.cli(&["GET", keys.counter()]), log)
    }
}

fn an_hour(rate: u64) -> Config {
    Config::new(rate, 3_600_000, Mode::Overall)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_spared_is_left_as_it_was() {
    let bucket = an_hour(9).algorithm(TokenBucket, 9);
    let shared = Shared::start(&[an_hour(2), an_hour(9), bucket]);
    for _ in 0..2 {
        assert_eq!(shared.ask().await.unwrap(), [Granted; 3]);
    }
    let before = [1, 2].map(|n| shared.state(n));
    for _ in 0..3 {
        assert_eq!(shared.ask().await.unwrap(), [Refused, Spared, Spared]);
    }
    assert_eq!([1, 2].map(|n| shared.state(n)), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_key_of_every_limiter_expires_when_none_is_used() {
    let short = Config::new(5, 40, Mode::Overall).keep_alive_ms(600_000);
    let bucket = short.algorithm(TokenBucket, 9);
    for configs in [vec![short, an_hour(9).keep_alive_ms(600_000)], vec![short, bucket]] {
        let shared = Shared::start(&configs);
        for _ in 0..3 {
            assert_eq!(shared.ask().await.unwrap(), [Granted; 2]);
            // All of the short window is over.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let keys: Vec<String> = shared.server.cli(&["KEYS", "*"]);
        assert!(keys.len() >= 5, "{keys:?}");
        for key in keys {
            let ttl: i64 = shared.server.cli(&["PTTL", &key]);
            assert!(ttl > 0, "{key} is kept for {ttl} ms");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limiter_of_somebody_else_costs_the_others_nothing() {
    let foreign: [&[&str]; 3] = [
        &["SET", "{all}:1", "x"],
        &["SET", "{all}:1:value", "what nobody writes"],
        &["HSET", "{all}:1:permits", "field", "x"],
    ];
    for command in foreign {
        let shared = Shared::start(&[an_hour(2), an_hour(2), an_hour(2)]);
        let _: redis::Value = shared.server.cli(command);
        assert!(shared.ask().await.is_err(), "{command:?}");
        for n in [0, 2] {
            let (keys, config) = &shared.limiters[n];
            let request = Request::new(keys, *config, shared.since);
            let reply = shared.store.acquire(&request).await.unwrap();
            assert_eq!((reply.outcome, reply.remaining), (Granted, 1), "{command:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn limiters_of_different_slots_are_refused() {
    let cluster = RedisCluster::start();
    let url = format!("redis-cluster://{}", cluster.addresses().join(","));
    let store = RedisStore::open(&url, Duration::from_secs(5)).unwrap();
    let keys = ["one", "other"].map(StateKeys::new);
    let since = Instant::now();
    let requests = [&keys[0], &keys[1]].map(|keys| Request::new(keys, an_hour(2), since));
    let error = store.acquire_jointly(&requests, &[&[1], &[1]]).await.unwrap_err().to_string();
    assert!(error.to_lowercase().contains("slot"), "{error}");
    for request in &requests {
        let reply = store.acquire(request).await.unwrap();
        assert_eq!(reply.remaining, 1, "nothing was taken");
    }
}
