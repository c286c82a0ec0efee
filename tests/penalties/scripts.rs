//! The scripts of penalties against their Rust rule: random traces must give the same decisions.

use std::{cell::Cell, time::Duration};

use proptest::prelude::*;
use ratelimit_runtime::{
    __private::store::{
        CalendarCall, Config, Group, MemoryStore, Mode, Outcome, Penalty, Request, Rule, StateKeys,
        Store, script_decide, script_decisions, script_peek, script_peeked, script_penalize,
        script_penalized, script_reservations, script_reserve,
    },
    test_util::ManualClock,
};
use redis::{Cmd, Connection, Value};
use tests::{decide::OneTime, random_histories, redis_server::RedisServer};
use tokio::{
    runtime::{Builder, Runtime},
    time::Instant,
};

/// Longer than a history takes: a server's keys expire in earnest.
const PER: u64 = 10_000;

#[derive(Clone, Debug)]
enum Step {
    Advance(u64),
    Rewind(u64),
    Refuse(usize),
    /// What callers take, of one limiter or of two.
    Take {
        costs: Vec<(u32, u32)>,
        joint: bool,
    },
    Peek(u32),
    Reserve(Vec<u32>),
    Lift,
}

/// A limiter with a penalty and one without, in both worlds, with one time.
struct Twins {
    runtime: Runtime,
    time: OneTime,
    memory: MemoryStore,
    since: Instant,
    redis: Connection,
    names: [StateKeys; 2],
    configs: [Config; 2],
    blocked: u64,
}

impl Twins {
    fn call(&mut self, call: impl Fn(bool) -> Cmd) -> Value {
        self.time.call(&mut self.redis, call)
    }

    fn run(&mut self, penalties: &[Penalty], step: Step) {
        let names = self.names.clone();
        let of = |n: usize| Request::new(&names[n], self.configs[n], self.since);
        let (guarded, other) = (of(0).penalty(Some(&penalties[0])), of(1));
        match step {
            Step::Advance(ms) => self.time.advance(ms),
            Step::Rewind(ms) => self.time.rewind(ms),
            Step::Refuse(n) => {
                let penalize = self.memory.penalize(&names[0], &penalties[n], PER);
                let rust = self.runtime.block_on(penalize).unwrap();
                let lua =
                    self.call(|by_name| script_penalize(&names[0], &penalties[n], PER, by_name));
                assert_eq!(
                    script_penalized(&lua).unwrap(),
                    rust,
                    "(lua, rust) at {}",
                    self.time.now
                );
                assert!(
                    rust.blocked_for_ms <= u64::try_from(penalties[n].up_to.as_millis()).unwrap()
                );
            }
            Step::Take { costs, joint } => {
                let (one, two): (Vec<u32>, Vec<u32>) = costs.into_iter().unzip();
                let (requests, rows) = ([guarded, other], [&one[..], &two[..]]);
                let (requests, costs) =
                    if joint { (&requests[..], &rows[..]) } else { (&requests[..1], &rows[..1]) };
                let groups = [Group { requests, costs }];
                let rust =
                    self.runtime.block_on(self.memory.decide(&groups)).unwrap().remove(0).unwrap();
                let value = self.call(|by_name| script_decide(&groups, |_| 10, by_name));
                let lua = script_decisions(&value, &groups, &mut CalendarCall::default()).unwrap();
                let lua = lua.into_iter().next().unwrap().unwrap().unwrap();
                assert_eq!(lua, rust, "(lua, rust) {groups:?}");
                let blocked = rust[0].iter().filter(|reply| reply.outcome == Outcome::Blocked);
                self.blocked += blocked.count() as u64;
            }
            Step::Peek(cost) => {
                let rust = self.runtime.block_on(self.memory.peek(&guarded, cost)).unwrap();
                let value = self.call(|by_name| script_peek(&guarded, cost, 10, by_name));
                let lua = script_peeked(&value, &self.configs[0], cost).unwrap();
                assert_eq!(lua, rust, "(lua, rust) peek of {cost}");
            }
            Step::Reserve(costs) => {
                let reserve = self.memory.reserve(&guarded, &costs, PER);
                let rust = self.runtime.block_on(reserve).unwrap();
                let mut call = script_reserve(&guarded, &costs, PER, 10);
                let value = call.arg(self.time.now).query(&mut self.redis).unwrap();
                let lua = script_reservations(&value, &guarded, &costs).unwrap();
                let told = |all: &[_]| format!("{all:?}");
                if rust[0].reply.outcome == Outcome::Blocked {
                    assert_eq!(told(&lua), told(&rust), "(lua, rust) {costs:?} reserved");
                } else {
                    let granted = rust.iter().zip(&lua).all(|(rust, lua)| {
                        (rust.reply.outcome, rust.wait_ms) == (lua.reply.outcome, lua.wait_ms)
                    });
                    assert!(granted, "(lua, rust) {lua:?} {rust:?}");
                }
            }
            Step::Lift => {
                let rust = self.runtime.block_on(self.memory.lift(&names[0])).unwrap();
                let lua: u64 =
                    redis::cmd("DEL").arg(names[0].penalty()).query(&mut self.redis).unwrap();
                assert_eq!(lua > 0, rust);
            }
        }
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let advance =
        prop_oneof![Just(0), Just(PER - 1), Just(PER), Just(PER), Just(PER + 1), 0..PER * 8];
    let costs = prop::collection::vec((1..6_u32, 1..4_u32), 1..5);
    let step = prop_oneof![
        6 => advance.prop_map(Step::Advance),
        1 => (1..PER * 3).prop_map(Step::Rewind),
        8 => prop_oneof![9 => Just(0_usize), 1 => Just(1)].prop_map(Step::Refuse),
        6 => (costs, any::<bool>()).prop_map(|(costs, joint)| Step::Take { costs, joint }),
        2 => (1..7_u32).prop_map(Step::Peek),
        2 => prop::collection::vec(1..4_u32, 1..4).prop_map(Step::Reserve),
        1 => Just(Step::Lift),
    ];
    prop::collection::vec(step, 1..80)
}

/// ```sh
/// cargo test -p tests --test penalties scripts
/// ```
#[test]
fn scripts_and_rule_block_alike() {
    let server = RedisServer::start();
    let penalty = (1..4_u32, 1..40_u64, 1..9_u64).prop_map(|(after, block, times)| Penalty {
        after,
        block: Duration::from_millis(block * PER / 4),
        up_to: Duration::from_millis(block * PER / 4 * times),
    });
    let rules = vec![
        Rule::SlidingWindow,
        Rule::TokenBucket { burst: 4 },
        Rule::FixedWindow { calendar: None },
        Rule::LeakyBucket,
    ];
    let trace = (prop::collection::vec(penalty, 2), prop::sample::select(rules), steps());
    let (case, blocked) = (Cell::new(0), Cell::new(0));
    random_histories(250)
        .run(&trace, |(penalties, rule, trace)| {
            case.set(case.get() + 1);
            let clock = ManualClock::new();
            let config = |rate| Config::new(rate, PER, Mode::Overall);
            let mut twins = Twins {
                runtime: Builder::new_current_thread().build().unwrap(),
                memory: MemoryStore::new(clock.clone().into()),
                time: OneTime::new(clock),
                since: Instant::now(),
                redis: server.connect().unwrap(),
                names: ["{twins}:one", "{twins}:two"]
                    .map(|name| StateKeys::new(format!("{name}:{}", case.get()))),
                configs: [config(5).rule(rule), config(6)],
                blocked: 0,
            };
            for step in trace {
                twins.run(&penalties, step);
            }
            blocked.set(blocked.get() + twins.blocked);
            Ok(())
        })
        .unwrap();
    assert!(blocked.get() > 100, "{} calls were blocked", blocked.get());
}
