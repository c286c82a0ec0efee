//! Forgets limiters that are no longer used, once a minute.

use std::{sync::Arc, time::Duration};

use super::Limits;
use crate::store::SHARDS;

const EVERY: Duration = Duration::from_secs(60);

/// Starts when there are many limiters, and goes on as long as the limits exist. Sweeps one shard after the other, with
/// other tasks of the engine in between.
pub(super) fn forget_when_many(limits: &Limits) {
    let (services, registry) =
        (Arc::downgrade(limits.services()), Arc::downgrade(&limits.made.registry));
    limits.services().crowd.prepare(async move {
        loop {
            let Some(this) = services.upgrade() else { return };
            let minute = this.clock.sleep_in_engine(EVERY);
            drop(this);
            minute.await;
            for shard in 0..SHARDS {
                let (Some(services), Some(registry)) = (services.upgrade(), registry.upgrade())
                else {
                    return;
                };
                services.forget_idle(shard);
                registry.forget_idle(&services, shard);
                drop((services, registry));
                tokio::task::yield_now().await;
            }
        }
    });
}
