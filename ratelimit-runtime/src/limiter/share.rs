//! One call to the store for all who ask at the same time.

use std::{pin::pin, sync::Arc};

use tokio::{runtime::Handle, task::yield_now, time::timeout_at};

use super::{Core, Numbers, numbers::Rule};
use crate::{
    Limits, StoreError,
    coalesce::{Batch, Entry},
    limits::Inner,
    store::Heard,
};

impl Core {
    /// Asks the store in turn with the other callers of this process.
    pub(super) async fn share(
        self: &Arc<Self>,
        limits: &Limits,
        rule: &Rule,
        numbers: &Numbers,
        permits: u32,
    ) -> Result<Heard, StoreError> {
        loop {
            match self.lane.enter(permits) {
                Entry::Free => {
                    let _turn = Turn { core: self, limits };
                    return Box::pin(self.call(limits.inner(), rule, numbers, &[permits])).await;
                }
                Entry::Queued(heard) => {
                    if let Ok(answer) = heard.await {
                        return answer;
                    }
                }
            }
        }
    }

    /// Makes one call for a batch. No caller waits for longer than the deadline, although a call
    /// that others waited for before may take as long again.
    async fn serve(&self, limits: &Inner, rule: &Rule, numbers: &Numbers, mut batch: Batch) {
        let costs = batch.costs();
        let mut call = pin!(self.call_for_all(limits, rule, numbers, &costs));
        let replies = loop {
            let Some(since) = batch.since() else { break call.await };
            match timeout_at(since + limits.deadline, &mut call).await {
                Ok(replies) => break replies,
                Err(_) => batch.give_up_first(StoreError::timeout(format!(
                    "no answer within {:?}",
                    limits.deadline
                ))),
            }
        };
        batch.tell(replies);
    }
}

/// The lane while one caller calls for itself; passed on to those who queued meanwhile, also when
/// the caller is dropped.
struct Turn<'a> {
    core: &'a Arc<Core>,
    limits: &'a Limits,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.core.lane.leave() {
            return;
        }
        let relay = Relay { core: Arc::clone(self.core), limits: self.limits.clone(), done: false };
        // Outside any runtime, or in one that ends, it is dropped.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(relay.run());
        }
    }
}

/// The lane while a task calls for those who queued. Dropped before its time, those call for
/// themselves.
struct Relay {
    core: Arc<Core>,
    limits: Limits,
    done: bool,
}

impl Relay {
    /// Calls for those who are queued, until nobody is.
    async fn run(mut self) {
        loop {
            let limits = self.limits.inner();
            let rule = self.core.rule(limits);
            // A reload may have taken the numbers away: each caller finds that out by itself.
            let Ok(numbers) = &rule.numbers else { return };
            let Some(batch) = self.core.lane.next() else { break };
            self.core.serve(limits, &rule, numbers, batch).await;
            // Whoever was just told may be back at once: one more call for all of them is better
            // than one for the first and one for the rest.
            yield_now().await;
        }
        self.done = true;
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if !self.done {
            self.core.lane.abandon();
        }
    }
}
