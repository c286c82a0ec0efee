//! One decision for several limiters: the script against the Rust rule on random traces, and what a
//! user of both would notice.
#![allow(clippy::disallowed_methods, reason = "real servers live in real time")]

use std::time::Duration;

use proptest::prelude::*;
use ratelimit_runtime::{
    __private::store::{
        Algorithm::{FixedWindow, LeakyBucket, SlidingWindow, TokenBucket},
        Assertion, Config, Group, Mode, OnDrift,
        Outcome::{self, Granted, NotTaken, Refused},
        RedisStore, Request, Rule, StateKeys, Store,
    },
    StoreErrorKind,
};
use tests::{decide::Decide, redis_cluster::RedisCluster, redis_server::RedisServer};
use tokio::time::Instant;

#[path = "joint/world.rs"]
mod world;

use world::World;

const STEADY: Assertion = Assertion::Steady;

#[derive(Clone, Debug)]
enum Step {
    Advance(u64),
    Rewind(u64),
    /// Groups of limiters, each with a row of costs for each of them.
    Decide {
        process: usize,
        groups: Vec<(Vec<usize>, Vec<Vec<u32>>)>,
        how: Assertion,
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
            let rule = match algorithm {
                TokenBucket if burst % 4 == 0 => {
                    Rule::WarmingBucket { warm_up: Duration::from_millis(50) * burst }
                }
                other => other.rule(burst),
            };
            Config::new(rate.into(), per, mode).rule(rule).keep_alive_ms(keep)
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

/// Steps with calls of so many groups.
fn steps(
    limiters: usize,
    processes: usize,
    groups: std::ops::Range<usize>,
) -> impl Strategy<Value = Vec<Step>> {
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
    let callers = prop_oneof![3 => Just(1_usize), 2 => 2..7_usize];
    let all: Vec<_> = (0..limiters).collect();
    let members = prop::sample::subsequence(all, 1..=limiters).prop_shuffle();
    let group = (callers, any::<bool>(), members).prop_flat_map({
        let cost = cost.clone();
        move |(callers, equal, members)| {
            let row = prop::collection::vec(cost.clone(), callers);
            prop::collection::vec(row, members.len()).prop_map(move |mut rows| {
                if equal {
                    let first = rows[0].clone();
                    rows.fill(first);
                }
                (members.clone(), rows)
            })
        }
    });
    let groups = prop::collection::vec(group, groups);
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
        16 => (0..processes, groups, how)
            .prop_map(|(process, groups, how)| Step::Decide { process, groups, how }),
        1 => (0..limiters, cost).prop_map(|(limiter, permits)| Step::Release { limiter, permits }),
    ];
    prop::collection::vec(step, 1..80)
}

/// Random traces with so many groups in each call, against the rules.
fn decides_alike(cases: u32, groups: std::ops::Range<usize>) {
    let server = RedisServer::start();
    let trace = (2..5_usize, 1..4_usize).prop_flat_map(|(limiters, processes)| {
        let configs = prop::collection::vec(configs(processes), limiters);
        (configs, steps(limiters, processes, groups.clone()))
    });
    let mut runner = tests::random_histories(cases);
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
                    Step::Decide { process, groups, how } => {
                        for outcome in world.decide(process, &groups, how) {
                            *seen.borrow_mut().entry(outcome).or_insert(0) += 1;
                        }
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
    assert!([Granted, Refused, NotTaken, Outcome::PerClient].into_iter().all(often), "{seen:?}");
}

#[test]
fn the_script_decides_a_group_as_the_rules_do_in_any_order() {
    decides_alike(400, 1..2);
}

#[test]
fn the_script_decides_several_groups_as_the_rules_do() {
    decides_alike(300, 1..7);
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
        let row = if round % 10 == 0 { vec![cost; 5] } else { vec![cost] };
        let limiters: Vec<_> = (usize::from(round % 5 == 0)..3).collect();
        let rows = vec![row; limiters.len()];
        let outcomes = world.decide(0, &[(limiters, rows)], STEADY);
        granted += outcomes.iter().filter(|outcome| **outcome == Granted).count();
        if round % 100 == 0 {
            world.decide(0, &[(vec![2], vec![vec![4000]])], STEADY);
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
        let log = self.server.cli(&["ZRANGE", &keys.log(), "0", "-1", "WITHSCORES"]);
        (self.server.cli(&["GET", &keys.counter()]), log)
    }
}

fn an_hour(rate: u64) -> Config {
    Config::new(rate, 3_600_000, Mode::Overall)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_spared_is_left_as_it_was() {
    let bucket = an_hour(9).rule(TokenBucket.rule(9));
    let shared = Shared::start(&[an_hour(2), an_hour(9), bucket]);
    for _ in 0..2 {
        assert_eq!(shared.ask().await.unwrap(), [Granted; 3]);
    }
    let before = [1, 2].map(|n| shared.state(n));
    for _ in 0..3 {
        assert_eq!(shared.ask().await.unwrap(), [Refused, NotTaken, NotTaken]);
    }
    assert_eq!([1, 2].map(|n| shared.state(n)), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_key_of_every_limiter_expires_when_none_is_used() {
    let short = Config::new(5, 40, Mode::Overall).keep_alive_ms(600_000);
    let bucket = short.rule(TokenBucket.rule(9)).keep_alive_ms(900_000);
    for configs in [vec![short, an_hour(9).keep_alive_ms(7_200_000)], vec![short, bucket, short]] {
        let shared = Shared::start(&configs);
        for _ in 0..3 {
            assert_eq!(shared.ask().await.unwrap(), vec![Granted; configs.len()]);
            // All of the short window is over.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let keys = shared.server.limiter_keys();
        assert!(keys.len() >= 4, "{keys:?}");
        for key in keys {
            let of = |(limiter, _): &&(StateKeys, Config)| key.contains(limiter.config());
            let (_, config) = shared.limiters.iter().find(of).expect("a key of one of them");
            let (ttl, kept) = (shared.server.cli::<i64>(&["PTTL", &key]), config.keep_alive_ms);
            let (kept, grown) = (kept as i64, kept as i64 * 5 / 4);
            assert!((kept..=grown).contains(&ttl), "{key} is kept for {ttl} ms, not {kept}");
        }
    }
}

/// What a limiter of this name never writes, and what there is to say about it.
const FOREIGN: [(&[&str], &str); 6] = [
    (&["SET", "{all}:1", "x"], "WRONGTYPE"),
    (&["SET", "{all}:1:value", "what no limiter writes"], "delete the limiter"),
    (&["HSET", "{all}:1:value", "field", "x"], "WRONGTYPE"),
    (&["HSET", "{all}:1:permits", "field", "x"], "WRONGTYPE"),
    (&["ZADD", "{all}:1:permits", "1", "nobody's"], "delete the limiter"),
    (&["HSET", "{all}:1", "state", "what nobody writes"], "delete the limiter"),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_limiter_of_somebody_else_costs_the_others_nothing() {
    for (command, why) in FOREIGN {
        let shared = Shared::start(&[an_hour(2), an_hour(2), an_hour(2)]);
        let _: redis::Value = shared.server.cli(command);
        let error = shared.ask().await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{command:?}");
        assert!(error.to_string().contains(why), "{command:?}: {error}");
        for n in [0, 2] {
            let (keys, config) = &shared.limiters[n];
            let request = Request::new(keys, *config, shared.since);
            let reply = shared.store.acquire(&request, 1).await.unwrap();
            assert_eq!((reply.outcome, reply.remaining), (Granted, 1), "{command:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_with_a_foreign_limiter_fails_alone() {
    let rules = [
        [an_hour(3); 5],
        [an_hour(3).rule(TokenBucket.rule(3)); 5],
        [an_hour(3).rule(FixedWindow.rule(0)); 5],
    ];
    for ((command, why), configs) in FOREIGN.into_iter().flat_map(|f| rules.map(|r| (f, r))) {
        if command[0] == "ZADD" && configs[0].rule.algorithm() != SlidingWindow {
            // Their state is made of whatever a log says.
            continue;
        }
        let shared = Shared::start(&configs);
        let _: redis::Value = shared.server.cli(command);
        let limiters = shared.limiters.iter();
        let requests: Vec<_> =
            limiters.map(|(keys, config)| Request::new(keys, *config, shared.since)).collect();
        // Alone, and beside one that is sound; before and after them what fails on its own.
        let groups = [
            Group { requests: &requests[..1], costs: &[&[1]] },
            Group { requests: &requests[1..2], costs: &[&[1, 2]] },
            Group { requests: &[requests[2], requests[1]], costs: &[&[1], &[1]] },
            Group { requests: &[requests[3], requests[3]], costs: &[&[1], &[1]] },
            Group { requests: &requests[3..], costs: &[&[1], &[2]] },
        ];
        for left in [2, 1] {
            let decided = shared.store.decide(&groups).await.unwrap();
            let free = |n: usize| decided[n].as_ref().map(|rows| rows[0][0].remaining);
            assert_eq!(free(0).unwrap(), left, "{command:?}");
            for n in [1, 2] {
                let error = free(n).unwrap_err();
                assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{command:?}");
                assert!(error.to_string().contains(why), "{command:?}: {error}");
            }
            assert!(free(3).unwrap_err().to_string().contains("twice"));
            let last = decided[4].as_ref().unwrap();
            let granted = last.iter().all(|row| row[0].outcome == Granted);
            assert_eq!(granted, left == 2, "{command:?}: {last:?}");
        }
        let spared = shared.store.peek(&requests[2], 1).await.unwrap();
        assert_eq!(spared.remaining, 3, "nothing was taken beside a foreign limiter: {command:?}");
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
        let reply = store.acquire(request, 1).await.unwrap();
        assert_eq!(reply.remaining, 1, "nothing was taken");
    }
}
