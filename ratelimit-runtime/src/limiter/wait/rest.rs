//! The limiters of a call for which it does not wait: it takes from them when it has the permits of all others.

use std::{mem, sync::Arc};

use super::{Blocked, Delay, Granted, Outcome, chair::Received, driver, first_try, until};
use crate::{
    Reason,
    limiter::{plan::Claim, services::Services},
};

/// What a caller received of its limiters. Dropping it gives it back.
pub(super) struct Partial {
    limits: Arc<Services>,
    received: Vec<Received>,
}

impl Partial {
    pub(super) fn new(limits: Arc<Services>, received: Vec<Received>) -> Self {
        Self { limits, received }
    }

    /// Returns whether permits of this claim are among it.
    fn has(&self, position: usize) -> bool {
        self.received.iter().any(|received| received.position == position)
    }

    /// Returns all permits by the position of their claims.
    fn keep(mut self) -> Vec<(usize, Granted)> {
        let received = mem::take(&mut self.received).into_iter();
        received.map(|received| (received.position, received.granted)).collect()
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        driver::give_back(&self.limits, mem::take(&mut self.received));
    }
}

/// Takes from the limiters for which a call that `began` then does not wait, now that it has the permits of the others.
pub(super) async fn take(
    limits: &Arc<Services>,
    claims: &[Claim],
    began: u64,
    partial: Partial,
) -> Outcome {
    let open: Vec<usize> = (0..claims.len()).filter(|n| !partial.has(*n)).collect();
    let asked: Vec<Claim> = open.iter().map(|n| claims[*n].clone()).collect();
    let now = limits.clock.now_ms();
    let rest = match asked.is_empty() {
        true => Ok(Vec::new()),
        false => first_try(limits, &asked, now).await,
    };
    let rest = rest.map_err(|blocked| match blocked {
        Blocked::By(position, rejection) => (open[position], rejection),
        Blocked::For(Delay { position, at, .. }) => {
            let Claim { core, permits, wait, .. } = &asked[position];
            let permits = u32::try_from(*permits).unwrap_or(u32::MAX);
            // If others wait for it already, `at` is only when this was found.
            let behind = core.earliest(limits, permits, now, None);
            let after = at.saturating_sub(now).max(behind).max(1);
            let is_late = |until| now.saturating_add(after) > until;
            let reason = match until(*wait, began).is_some_and(is_late) {
                true => Reason::WaitTooLong,
                false => Reason::QueueFull,
            };
            (open[position], core.not_before(limits, reason, after))
        }
    })?;
    let mut all = partial.keep();
    all.extend(open.into_iter().zip(rest));
    all.sort_unstable_by_key(|(position, _)| *position);
    Ok(all.into_iter().map(|(_, granted)| granted).collect())
}
