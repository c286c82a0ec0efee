//! One very hot limiter in several parts, each under a name of its own and so on whichever node of a
//! cluster that name belongs to.
//!
//! The parts share out the permits. A call asks one of them, in turn, and the others only where that
//! one refuses; so nothing is refused while any part has room, and all together admit what the whole
//! would. The embedded store has no nodes, and splits nothing.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use ratelimit_spec::{check_shards, shard_of};

use super::{Core, Numbers, numbers::Rule};
use crate::{
    Answer, Limits, Quotas, Reason, Rejection,
    clock::whole_ms,
    limits::{Family, Inner},
    settings::kept_idle,
    store::Config,
};

/// Which part of a limiter a core is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    index: u32,
    of: u32,
}

impl Share {
    /// The numbers of this part.
    pub(super) fn of(self, whole: Config) -> Config {
        let part = |number: u32| shard_of(number, self.of, self.index);
        // A rate that was configured is one that a file or an attribute can hold.
        let rate = part(u32::try_from(whole.rate).unwrap_or(u32::MAX)).into();
        // There may be fewer parts one day, so none of them stays for ever.
        let keep_alive_ms = match whole.keep_alive_ms {
            0 => whole_ms(kept_idle(Duration::from_millis(whole.per_ms))),
            ms => ms,
        };
        Config { rate, burst: part(whole.burst), keep_alive_ms, ..whole }
    }

    fn name(self, whole: &str) -> String {
        format!("{whole}:shard-{}", self.index)
    }
}

/// The parts of a limiter; none when it is whole.
pub(super) type Shards = Option<Arc<[Arc<Core>]>>;

/// The parts these numbers ask for: those there are, where they are as many.
pub(super) fn shards(
    limits: &Inner,
    family: &Arc<Family>,
    (name, share): (&str, Option<Share>),
    given: Option<&Quotas>,
    rule: &Rule,
    before: &Shards,
) -> Shards {
    let numbers = rule.numbers.as_ref().ok()?;
    let (of, rate) = (numbers.effective.shards.value, numbers.effective.rate.value);
    let whole = of <= 1 || share.is_some() || rate == 0 || numbers.follow;
    // What the limits file cannot tell from an annotation is refused at startup; what only exists at
    // run time is counted whole.
    if whole || !limits.store.is_shared() || check_shards(&numbers.effective.splitting()).is_err() {
        return None;
    }
    if let Some(before) = before.as_ref().filter(|before| before.len() == of as usize) {
        return Some(Arc::clone(before));
    }
    let part = |index| {
        let share = Share { index, of };
        let stored_as = share.name(&format!("{}{name}", limits.key_prefix));
        Arc::new(Core::part(limits, Arc::clone(family), (name, share), given.cloned(), stored_as))
    };
    Some((0..of).map(part).collect())
}

impl Core {
    pub(super) fn shards(&self, limits: &Inner) -> Shards {
        self.rule(limits).shards.clone()
    }

    /// Takes permits from the first part that has them.
    pub(super) async fn decide_by_any(
        &self,
        limits: &Limits,
        shards: &[Arc<Self>],
        numbers: &Numbers,
        permits: u32,
    ) -> Result<Answer, Rejection> {
        let quota = numbers.config.quota();
        self.check_largest(shards, numbers, permits)?;
        let (mut refusal, mut error) = (None::<Answer>, None);
        for shard in self.in_turn_of(shards) {
            match shard.decide(limits, permits).await {
                Ok(decision) if decision.allowed => return Ok(Answer { quota, ..decision }),
                Ok(other) => refusal = Some(sooner(refusal, other)),
                Err(rejection) => error = error.or(Some(rejection)),
            }
        }
        match (refusal, error) {
            (Some(refusal), _) => Ok(Answer { quota, ..refusal }),
            (None, Some(error)) => Err(error),
            (None, None) => Err(self.unknown()),
        }
    }

    /// Refuses what no part can ever grant at once.
    fn check_largest(
        &self,
        shards: &[Arc<Self>],
        numbers: &Numbers,
        permits: u32,
    ) -> Result<(), Rejection> {
        let quota = numbers.config.quota();
        let largest = numbers.config.capacity() / shards.len() as u64;
        if u64::from(permits) <= largest {
            return Ok(());
        }
        let detail = format!("requested {permits}, quota {quota} in {} shards", shards.len());
        Err(self.rejection(Reason::ExceedsCapacity).with_quota(quota).with_detail(detail))
    }

    /// What a request would get from any of them.
    pub(super) async fn peek_any(
        &self,
        limits: &Inner,
        shards: &[Arc<Self>],
        numbers: &Numbers,
        permits: u32,
    ) -> Result<Answer, Rejection> {
        self.check_largest(shards, numbers, permits)?;
        let mut all = None::<Answer>;
        for shard in shards {
            let decision = Box::pin(shard.peek(limits, permits)).await?;
            let Some(before) = all else {
                all = Some(decision);
                continue;
            };
            let remaining = before.remaining + decision.remaining;
            let reset_after = before.reset_after.max(decision.reset_after);
            all = Some(Answer { remaining, reset_after, ..sooner(Some(before), decision) });
        }
        let decision = all.ok_or_else(|| self.unknown())?;
        Ok(Answer { quota: numbers.config.quota(), ..decision })
    }

    /// All parts, another one first each time.
    fn in_turn_of<'a>(&self, shards: &'a [Arc<Self>]) -> impl Iterator<Item = &'a Arc<Self>> {
        let first = self.turns.fetch_add(1, Ordering::Relaxed) as usize % shards.len();
        shards[first..].iter().chain(&shards[..first])
    }
}

/// The one of two decisions that lets a call go sooner.
fn sooner(one: Option<Answer>, other: Answer) -> Answer {
    let wait = |decision: &Answer| match decision.allowed {
        true => Duration::ZERO,
        false => decision.retry_after.unwrap_or(Duration::MAX),
    };
    match one {
        Some(one) if wait(&one) <= wait(&other) => one,
        _ => other,
    }
}
