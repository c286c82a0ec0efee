//! One very hot limiter as several shards, each under a name of its own and so on any node of a
//! cluster.
//!
//! The shards divide the permits. A call asks one of them, and the others only if that one refuses, so
//! no call is refused while any shard has room, and all shards together admit as much as the whole
//! limiter would. The embedded store has no nodes and splits no limiter.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use ratelimit_spec::{check_shards, shard_of};

use super::{Core, Members, Rule};
use crate::{
    Quotas,
    clock::whole_ms,
    limits::{Family, Inner},
    settings::kept_idle,
    store::Config,
};

/// Which shard of a limiter a core is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    index: u32,
    of: u32,
}

impl Share {
    /// The numbers of this shard.
    pub(in crate::limiter) fn of(self, whole: Config) -> Config {
        let part = |number: u32| self.part(number);
        // A rate that was configured is one that a file or an attribute can hold.
        let rate = part(u32::try_from(whole.rate).unwrap_or(u32::MAX)).into();
        // There may be fewer shards one day, so none of them stays for ever.
        let keep_alive_ms = match whole.keep_alive_ms {
            0 => whole_ms(kept_idle(Duration::from_millis(whole.per_ms))),
            ms => ms,
        };
        Config { rate, burst: part(whole.burst), keep_alive_ms, ..whole }
    }

    /// The part of this many permits that is this shard's.
    pub(in crate::limiter) fn part(self, permits: u32) -> u32 {
        shard_of(permits, self.of, self.index)
    }

    fn name(self, whole: &str) -> String {
        format!("{whole}:shard-{}", self.index)
    }
}

/// The shards that a configuration asks for: those of before if there are as many, or `None` if the
/// limiter is not split.
pub(in crate::limiter) fn shards(
    limits: &Inner,
    family: &Arc<Family>,
    (name, share): (&str, Option<Share>),
    given: Option<&Quotas>,
    rule: &Rule,
    before: &Members,
) -> Option<Members> {
    let numbers = rule.numbers.as_ref().ok()?;
    let (of, rate) = (numbers.effective.shards.value, numbers.effective.rate.value);
    let whole = of <= 1 || share.is_some() || rate == 0 || numbers.follow;
    // A limits file that contradicts an annotation is refused at startup; a limiter that exists only
    // at run time stays whole.
    if whole || !limits.store.is_shared() || check_shards(&numbers.effective.splitting()).is_err() {
        return None;
    }
    if let Members::Any(shards) = before
        && shards.len() == of as usize
    {
        return Some(before.clone());
    }
    let shard = |index| {
        let share = Share { index, of };
        let stored_as = share.name(&format!("{}{name}", limits.key_prefix));
        Arc::new(Core::shard(limits, Arc::clone(family), (name, share), given.cloned(), stored_as))
    };
    Some(Members::Any((0..of).map(shard).collect()))
}

impl Core {
    /// All shards, starting with another one each time.
    pub(in crate::limiter) fn in_rotation<'a>(
        &self,
        shards: &'a [Arc<Self>],
    ) -> impl Iterator<Item = &'a Arc<Self>> {
        let first = self.turns.fetch_add(1, Ordering::Relaxed) as usize % shards.len();
        shards[first..].iter().chain(&shards[..first])
    }
}
