//! Temporary seams.
use super::*;
use crate::limits::AnyStore;
use ratelimit_spec::Algorithm;
#[derive(Clone, Debug)]
pub struct Grant { pub(crate) permits: u32, pub(crate) ends_ms: u64, pub(crate) config: Config }
impl Grant {
    pub fn of(reply: &Reply, permits: u32, _after: u64) -> Self {
        Self { permits, ends_ms: reply.now_ms + reply.reset_after_ms, config: reply.config }
    }
}
pub(crate) struct Charged { pub(crate) taken: u64, pub(crate) debt: u64, pub(crate) excess: u64 }
impl Config { pub(crate) fn is_spaced(&self) -> bool { self.algorithm == Algorithm::LeakyBucket || self.warm_up_ms > 0 } }
impl AnyStore {
    pub(crate) async fn give_back(&self, keys: &StateKeys, grant: &Grant) -> Result<u64, StoreError> { self.release(keys, grant.permits).await }
    pub(crate) fn one_call(&self, _a: &StateKeys, _b: &StateKeys) -> bool { true }
    pub(crate) async fn peek2(&self, r: &Request<'_>, cost: u32) -> Result<Reply, StoreError> { self.peek(&r.permits(cost)).await }
    pub(crate) async fn reserve_all(&self, r: &Request<'_>, costs: &[u32], within: u64) -> Result<Vec<Reservation>, StoreError> {
        let mut all = vec![];
        for c in costs { let one = self.reserve(&r.permits(*c), within).await?; let ok = one.reply.outcome == Outcome::Granted; all.push(one); if !ok { break } }
        Ok(all)
    }
    pub(crate) async fn charge(&self, r: &Request<'_>, permits: u32, _max: u64) -> Result<(Reply, Charged), StoreError> {
        let free = self.peek(r).await?.remaining.min(permits.into());
        let reply = match u32::try_from(free).unwrap() { 0 => self.peek(r).await?, n => self.acquire_all(r, &[n]).await?[0] };
        let debt = u64::from(permits) - free;
        Ok((reply, Charged { taken: free, debt, excess: 0 }))
    }
}
impl MemoryStore {
    pub(crate) fn give_back_counted(&self, keys: &StateKeys, grant: &Grant) -> u64 { self.uncount(keys, grant.config, grant.permits) }
    pub(crate) fn reserve_counted_all(&self, keys: &StateKeys, config: Config, costs: &[u32], within: u64) -> Vec<Reservation> {
        costs.iter().map(|c| self.reserve_counted(keys, config, *c, within)).collect()
    }
    pub(crate) fn charge_counted(&self, keys: &StateKeys, config: Config, permits: u32, _max: u64) -> Charged {
        let free = self.look(keys, config, 1).remaining.min(permits.into());
        if free > 0 { self.count(keys, config, u32::try_from(free).unwrap()); }
        Charged { taken: free, debt: u64::from(permits) - free, excess: 0 }
    }
}
