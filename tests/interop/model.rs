//! What a limiter is to answer, and to hold.

use std::collections::{BTreeMap, VecDeque};

use crate::{
    bench::{By, Plan, Step},
    state::State,
};

/// What a limiter is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Model {
    plan: Plan,
    pub(crate) rate: u32,
    /// Permits by the time at which they were taken.
    pub(crate) taken: BTreeMap<u64, u64>,
}

impl Model {
    pub(crate) fn new(plan: Plan) -> Self {
        Self { plan, rate: plan.rate, taken: BTreeMap::new() }
    }

    /// What a step at this time answers, and what it leaves. Grants and numbers alike are numbers.
    pub(crate) fn step(&self, step: Step, now: u64) -> (i64, Self) {
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

/// The permits in a log, by their time, that are not free again at this time.
pub(crate) fn live(state: &State, per_ms: u64, now: u64) -> BTreeMap<u64, u64> {
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

/// What is used as far as it can be told from outside, where each call happens at some instant
/// between its start and its end.
#[derive(Debug)]
pub(crate) struct Used {
    per_ms: u64,
    /// Grants by their earliest instant, and when they are free again at the earliest.
    surely: VecDeque<(u64, i64)>,
    /// Grants by their latest instant; a permit may come back a fiftieth of a window late.
    perhaps: VecDeque<(u64, i64)>,
}

impl Used {
    pub(crate) fn of(plan: Plan) -> Self {
        Self { per_ms: plan.per_ms, surely: VecDeque::new(), perhaps: VecDeque::new() }
    }

    /// Forgets what is free again: surely for the whole of a call, or perhaps in some of it.
    pub(crate) fn forget(&mut self, start: u64, end: u64) {
        let (per, late) = (self.per_ms, self.per_ms / 50 + 1);
        self.surely.retain(|(at, _)| at + per > end);
        self.perhaps.retain(|(at, _)| at + per + late >= start);
    }

    /// The least and the most that is used.
    pub(crate) fn range(&self) -> (i64, i64) {
        let sum = |grants: &VecDeque<(u64, i64)>| grants.iter().map(|(_, permits)| permits).sum();
        (sum(&self.surely), sum(&self.perhaps))
    }

    /// Takes note of what a step granted or gave back.
    pub(crate) fn follow(&mut self, step: Step, answer: i64, start: u64, end: u64) {
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
