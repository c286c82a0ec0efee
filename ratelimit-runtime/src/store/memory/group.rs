//! Decisions for groups of callers, with each limiter of a group under its lock.

use std::sync::{Arc, MutexGuard};

use ratelimit_spec::Mode;

use super::{MemoryStore, Slot, UnknownAt, state::State};
use crate::{
    algorithm::{Verdict, decide_jointly, reconcile::Reconciliation},
    store::{Config, Group, Outcome, Reply, Request, StateKeys},
};

/// How one limiter is counted.
#[derive(Clone, Copy)]
enum InForce {
    Counted(Config, Reconciliation),
    PerClient(Config, Reconciliation),
    Unknown,
}

impl MemoryStore {
    pub(super) fn decide_group(&self, group: &Group<'_>) -> Vec<Vec<Reply>> {
        let penalty = |request: &Request<'_>| request.penalty.is_some();
        if group.requests.iter().any(penalty)
            && let Some(replies) = self.decide_if_blocked(group)
        {
            return replies;
        }
        match (group.requests, group.costs) {
            ([_], [[]]) => vec![Vec::new()],
            ([request], [[cost]]) => vec![vec![self.decide_one(request, *cost)]],
            ([request], [costs]) => vec![self.decide_alone(request, costs)],
            (requests, costs) => self.decide_jointly(requests, costs),
        }
    }

    /// Decides for limiters of which one is blocked: no call takes from any of them, as if it requested more
    /// than the capacity of the blocked one.
    fn decide_if_blocked(&self, group: &Group<'_>) -> Option<Vec<Vec<Reply>>> {
        let blocked: Vec<_> =
            group.requests.iter().map(|request| self.blocked_for(request)).collect();
        if blocked.iter().all(Option::is_none) {
            return None;
        }
        let all = vec![u32::MAX; group.callers()];
        let rows = group.costs.iter().zip(&blocked);
        let costs: Vec<&[u32]> =
            rows.map(|(row, blocked)| if blocked.is_some() { &all } else { *row }).collect();
        let mut replies = self.decide_jointly(group.requests, &costs);
        let admit = replies.iter().flatten().all(|reply| reply.outcome.is_counted());
        let rows = replies.iter_mut().zip(group.requests).zip(group.costs).zip(blocked);
        for (((row, request), costs), ms) in rows.filter(|(_, ms)| ms.is_some()) {
            for (reply, cost) in row.iter_mut().zip(*costs) {
                let wait_ms = self.wait_blocked(request.keys, reply.config, *cost);
                let own = reply.blocked(ms, *cost, wait_ms);
                *reply = Reply { outcome: own.outcome.jointly(false, admit), ..own };
            }
        }
        Some(replies)
    }

    /// Decides for one caller of one limiter.
    fn decide_one(&self, request: &Request<'_>, cost: u32) -> Reply {
        self.replied(request, |used, config, now| {
            let acquire = |permits| used.acquire(&config, permits, now);
            let reply = Reply::decided(cost, config, now, acquire);
            (reply, reply.outcome == Outcome::Granted)
        })
    }

    /// Decides for several callers of one limiter.
    fn decide_alone(&self, request: &Request<'_>, costs: &[u32]) -> Vec<Reply> {
        let decided = self.reconciled(request, |used, config, now| {
            let reply = |cost, verdict| Reply::decided(cost, config, now, |_| verdict);
            if config.mode == Mode::PerClient {
                let replies = costs.iter().map(|&cost| reply(cost, Verdict::default()));
                return (replies.collect(), false);
            }
            let each = costs.iter().copied().map(u64::from);
            let verdicts = used.acquire_all(&config, each, now);
            let granted = verdicts.iter().any(|verdict| verdict.granted);
            let replies = costs.iter().zip(verdicts).map(|(&cost, verdict)| reply(cost, verdict));
            (replies.collect(), granted)
        });
        match decided {
            Ok((replies, outcome)) => report_once(replies, outcome),
            Err(UnknownAt(now)) => vec![Reply::unknown(now); costs.len()],
        }
    }

    /// Decides requests for several limiters, which are all different.
    fn decide_jointly(&self, requests: &[Request<'_>], costs: &[&[u32]]) -> Vec<Vec<Reply>> {
        let slots: Vec<_> = requests.iter().map(|request| self.slot(request.keys)).collect();
        let (mut states, now) = self.enter_all(&slots);
        let reconcile = |(state, request): (&mut MutexGuard<'_, State>, &Request<'_>)| {
            let in_force = state.reconcile(request, self.epoch(request), now, &self.configs);
            in_force.map_or(InForce::Unknown, InForce::new)
        };
        let in_force: Vec<_> = states.iter_mut().zip(requests).map(reconcile).collect();
        decide(&mut states, &in_force, costs, now)
    }

    /// Counts this many permits on each limiter, on all of them or on none, under configurations that are
    /// reconciled elsewhere. If a limiter is named twice, every reply is unknown.
    pub(crate) fn count_jointly(
        &self,
        limiters: &[(&StateKeys, Config)],
        permits: &[u32],
    ) -> Vec<Reply> {
        let known = |n: usize| limiters[..n].iter().any(|(keys, _)| *keys == limiters[n].0);
        if (1..limiters.len()).any(known) {
            return vec![Reply::unknown(self.clock.now_ms()); limiters.len()];
        }
        let slots: Vec<_> = limiters.iter().map(|(keys, _)| self.slot(keys)).collect();
        let (mut states, now) = self.enter_all(&slots);
        for (state, (_, config)) in states.iter_mut().zip(limiters) {
            state.used.keep_for(config);
        }
        let in_force: Vec<_> = limiters
            .iter()
            .map(|(_, config)| InForce::new((*config, Reconciliation::default())))
            .collect();
        let costs: Vec<_> = permits.chunks(1).collect();
        decide(&mut states, &in_force, &costs, now).into_iter().flatten().collect()
    }

    /// Returns the current states of different slots, and the time, read when all are locked.
    fn enter_all<'a>(&self, slots: &'a [Arc<Slot>]) -> (Vec<MutexGuard<'a, State>>, u64) {
        let mut order: Vec<_> = slots.iter().enumerate().collect();
        // All callers lock in the same order, which prevents deadlocks.
        order.sort_by_key(|(_, slot)| Arc::as_ptr(slot));
        let mut states: Vec<_> = order.into_iter().map(|(n, slot)| (n, slot.lock())).collect();
        states.sort_by_key(|(n, _)| *n);
        let now = self.clock.now_ms();
        let current = |(_, mut state): (usize, MutexGuard<'a, State>)| {
            state.end_if_expired(now);
            state
        };
        (states.into_iter().map(current).collect(), now)
    }
}

impl InForce {
    fn new((config, outcome): (Config, Reconciliation)) -> Self {
        match config.mode {
            Mode::PerClient => Self::PerClient(config, outcome),
            Mode::Overall => Self::Counted(config, outcome),
        }
    }
}

/// Decides for each caller in order. No caller is granted anything while one limiter is not counted here.
fn decide(
    states: &mut [MutexGuard<'_, State>],
    in_force: &[InForce],
    costs: &[&[u32]],
    now: u64,
) -> Vec<Vec<Reply>> {
    let (mut open, mut rows) = (Vec::new(), Vec::new());
    for ((state, in_force), row) in states.iter_mut().zip(in_force).zip(costs) {
        if let InForce::Counted(config, _) = in_force {
            let each = row.iter().copied().map(u64::from);
            open.push(state.used.open(config, each, now));
            rows.push(*row);
        }
    }
    let admit = open.len() == in_force.len();
    let verdicts = decide_jointly(&mut open, &rows, admit);
    open.into_iter().for_each(|open| open.close(now));

    let room = |caller: usize| verdicts.iter().all(|row: &Vec<Verdict>| row[caller].granted);
    let granted: Vec<bool> =
        (0..costs.first().map_or(0, |row| row.len())).map(|caller| admit && room(caller)).collect();
    if granted.contains(&true) {
        for (state, in_force) in states.iter_mut().zip(in_force) {
            if let InForce::Counted(config, _) = in_force {
                state.keep_alive(*config, now);
            }
        }
    }
    let mut decided = verdicts.iter();
    let replies = in_force.iter().zip(costs).map(|(in_force, row)| match in_force {
        InForce::Unknown => vec![Reply::unknown(now); row.len()],
        InForce::PerClient(config, outcome) => {
            let silent = Reply::decided(1, *config, now, |_| Verdict::default());
            report_once(vec![silent; row.len()], *outcome)
        }
        InForce::Counted(config, outcome) => {
            let verdicts = decided.next().into_iter().flatten().zip(&granted).zip(*row);
            let reply = |((verdict, granted), cost): ((&Verdict, &bool), &u32)| {
                let own = Reply::decided(*cost, *config, now, |_| *verdict);
                Reply { outcome: own.outcome.jointly(*granted, admit), ..own }
            };
            report_once(verdicts.map(reply).collect(), *outcome)
        }
    });
    replies.collect()
}

/// Adds the outcome of reconciliation to the first reply.
fn report_once(mut replies: Vec<Reply>, outcome: Reconciliation) -> Vec<Reply> {
    if let Some(first) = replies.first_mut() {
        *first = first.after(outcome);
    }
    replies
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        clock::ManualClock,
        store::Outcome::{Granted, NotTaken, Refused, Unknown},
    };

    #[test]
    fn what_is_counted_elsewhere_is_counted_on_all_or_none() {
        let time = ManualClock::new();
        let store = MemoryStore::new(time.clone().into());
        let names = ["second", "minute"].map(StateKeys::new);
        let second = Config::new(1, 1000, Mode::Overall);
        let minute = Config::new(2, 60_000, Mode::Overall);
        let limiters = [(&names[0], second), (&names[1], minute)];
        let told = |permits: &[u32]| {
            let replies = store.count_jointly(&limiters, permits);
            replies.iter().map(|reply| reply.outcome).collect::<Vec<_>>()
        };
        assert_eq!(told(&[1, 1]), [Granted, Granted]);
        assert_eq!(told(&[1, 1]), [Refused, NotTaken]);
        time.advance(Duration::from_secs(1));
        assert_eq!(told(&[1, 1]), [Granted, Granted]);
        time.advance(Duration::from_secs(1));
        assert_eq!(told(&[1, 1]), [NotTaken, Refused]);
        let twice = store.count_jointly(&[limiters[0], limiters[0]], &[1, 1]);
        assert!(twice.iter().all(|reply| reply.outcome == Unknown));
        assert_eq!(store.look(&names[0], second, 1).remaining, 1);
    }
}
