//! Splits a heavily used limiter into shards, each under its own name and so on any node of a
//! cluster.
//!
//! Permits are divided among the shards. A call queries one shard, and the others only if that one
//! rejects it, so no call is rejected while any shard has room, and all shards together admit as
//! much as the whole limiter would. The embedded store has no nodes and splits no limiter.

use std::sync::{Arc, atomic::Ordering};

use crate::{
    Quota, Settings, StoreError,
    limiter::{
        core::{Core, Members, Rule},
        services::Services,
        share::{Share, together},
    },
    settings::{Family, Name},
    store::Config,
};

/// Returns the shards that a configuration sets: the previous ones if their number is the same, or
/// `None` if the limiter is not split.
pub(in crate::limiter) fn shards(
    limits: &Services,
    family: &Arc<Family>,
    (name, share): (Name<'_>, Option<Share>),
    given: Option<&Settings>,
    rule: &Rule,
    before: &Members,
) -> Option<Members> {
    let numbers = rule.numbers.as_ref().ok()?;
    let (of, rate) = (numbers.effective.set.shards(), numbers.effective.rate());
    let whole = of <= 1 || share.is_some() || rate == 0 || numbers.follow;
    // A limits file that contradicts an annotation is rejected at startup; a limiter that exists
    // only at run time stays whole.
    if whole || !limits.store.is_shared() || numbers.effective.set.check_shards().is_some() {
        return None;
    }
    if let Members::Any(shards) = before
        && shards.len() == of as usize
    {
        return Some(before.clone());
    }
    let shard = |index| {
        let itself = (name, Some(Share { index, of }));
        Arc::new(Core::part(limits, Arc::clone(family), itself, given.cloned()))
    };
    Some(Members::Any((0..of).map(shard).collect()))
}

impl Core {
    /// Returns the active configuration of all shards together, if the limiter is split.
    pub(in crate::limiter) fn in_force_of_shards(&self) -> Option<Config> {
        let rule = self.rule.load();
        let (shards, own) = (rule.shards()?, rule.numbers.as_ref().ok()?.config);
        let of = |shard: &Arc<Self>| shard.in_force().or_else(|| Some(shard.share()?.of(own)));
        let whole = shards.iter().filter_map(of).reduce(together)?;
        Some(whole.keep_alive_ms(own.keep_alive_ms))
    }

    /// Returns an error if a quota cannot be divided among shards. A rate that is lower than their number can:
    /// some of them then reject every call.
    pub(in crate::limiter) fn divisible(
        &self,
        quota: &Quota,
        shards: usize,
    ) -> Result<(), StoreError> {
        let is_spaced = quota.rule().saved(1) == 0;
        let holds_none = quota.rule().burst().is_some_and(|burst| (burst as usize) < shards);
        let why = match (is_spaced, holds_none) {
            (true, _) => "its permits are spaced; use another algorithm".to_owned(),
            (false, true) => {
                format!("a shard would hold no permits; use a burst of at least {shards}")
            }
            (false, false) => return Ok(()),
        };
        let key = &self.family.key;
        Err(StoreError::misconfigured(format!(
            "`{quota}` cannot be divided among the {shards} shards of `{key}`, because {why}"
        )))
    }

    /// Returns all shards, starting with a different one each time.
    pub(in crate::limiter) fn in_rotation<'a>(
        &self,
        shards: &'a [Arc<Self>],
    ) -> impl Iterator<Item = &'a Arc<Self>> {
        let first = self.rare().turns.fetch_add(1, Ordering::Relaxed) as usize % shards.len();
        shards[first..].iter().chain(&shards[..first])
    }
}
