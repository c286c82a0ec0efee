//! Limiters whose state moves between the table and slots.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

use ratelimit_spec::{Mode, Rule};

use super::Cell;
use crate::{
    Clock,
    algorithm::noise,
    store::{
        Config, Lease, MemoryStore, Outcome::Granted, Rejects, SHARDS, StateKeys, Terms, Whose,
    },
};

const RATE: u32 = 20_000;

/// Threads take permits by name and as holders, alone and jointly, and sweep the table.
#[test]
fn no_permit_is_lost_or_granted_twice_while_the_state_moves() {
    for rule in [Rule::SlidingWindow, Rule::TokenBucket { burst: RATE }] {
        let config = Config::new(RATE.into(), 3_600_000_000, Mode::Overall).rule(rule);
        let (store, clock) = (MemoryStore::new(Clock::system()), Clock::system());
        let names = ["orders:1", "orders:of-a-customer-with-a-long-name"].map(StateKeys::new);
        let rejects = Rejects { calls: true, requests: true };
        let terms = Arc::new(Terms::new((7, 1), 1, config, false, rejects));
        for keys in &names {
            let lease = Lease { terms: Arc::clone(&terms), until_ms: u64::MAX };
            store.slot(keys).admit(lease, || true);
        }
        let taken = [const { AtomicU32::new(0) }; 2];
        let take = &|seed| {
            for random in noise(seed) {
                if random % 1024 < 20 {
                    (0..SHARDS).for_each(|shard| store.forget_idle(shard));
                }
                let (one, other) = if random / 16 % 2 == 0 { (0, 1) } else { (1, 0) };
                let whose =
                    if random / 32 % 2 == 0 { Whose::rule(7, 1) } else { Whose::family(1, 1) };
                let keys = &names[one];
                let by_name = || {
                    let spend = |cell: &mut Cell| cell.spend(&clock, whose, 1);
                    store.with(("", keys.config()), |cell| spend(cell?))
                };
                let granted = match random % 8 {
                    0..4 => by_name().is_some(),
                    4..7 => store.slot(keys).spend(&clock, whose, 1).is_some(),
                    _ => {
                        let both = [(keys, config), (&names[other], config)];
                        let replies = store.count_jointly(&both, &[1, 1]);
                        let all = replies.iter().all(|reply| reply.outcome == Granted);
                        taken[other].fetch_add(all.into(), Ordering::Relaxed);
                        all
                    }
                };
                taken[one].fetch_add(granted.into(), Ordering::Relaxed);
                if !granted && names.iter().all(|keys| store.look(keys, config, 1).remaining == 0) {
                    return;
                }
            }
        };
        thread::scope(|scope| {
            for seed in 1..=3 {
                scope.spawn(move || take(seed));
            }
        });
        let taken = taken.each_ref().map(|taken| taken.load(Ordering::Relaxed));
        assert_eq!(taken, [RATE; 2], "{config:?}");
    }
}
