//! Groups of callers of the same limiters: the checks that every store makes, and the joint
//! outcome.

use std::sync::Arc;

use super::{Outcome, Reply, Request};
use crate::StoreError;

/// Callers that request permits of the same limiters, in order; each takes from all of them or from none.
#[derive(Clone, Copy, Debug)]
pub struct Group<'a> {
    /// Different limiters, at least one.
    pub requests: &'a [Request<'a>],
    /// One row per limiter, with one cost per caller. Costs are at least 1, and those of a row sum to less than 2^31.
    pub costs: &'a [&'a [u32]],
}

impl Group<'_> {
    /// Rejects what cannot be decided in one step: no limiter, a limiter named twice, or rows of different lengths.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        let Self { requests, costs } = self;
        if let ([_], [_]) = (requests, costs) {
            return Ok(());
        }
        let callers = self.callers();
        if requests.is_empty()
            || requests.len() != costs.len()
            || costs.iter().any(|row| row.len() != callers)
        {
            return Err(StoreError::misconfigured(
                "a group needs a limiter, and one cost for each caller and limiter",
            ));
        }
        for (n, request) in requests.iter().enumerate() {
            if requests[..n].iter().any(|other| other.keys == request.keys) {
                return Err(StoreError::misconfigured(
                    "a group names a limiter twice; combine its permits",
                ));
            }
        }
        Ok(())
    }

    /// Returns the number of callers.
    pub(super) fn callers(&self) -> usize {
        self.costs.first().map_or(0, |row| row.len())
    }
}

/// The combined reply of all limits of a key, and the reply of each if there are several.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    pub(crate) reply: Reply,
    /// The strictest limit first.
    pub(crate) parts: Option<Arc<[Reply]>>,
}

impl From<Reply> for Heard {
    fn from(reply: Reply) -> Self {
        Self { reply, parts: None }
    }
}

impl Outcome {
    /// Returns whether the store has a configuration of the limiter and counts it.
    pub(crate) fn is_counted(self) -> bool {
        !matches!(self, Self::PerClient | Self::Unknown)
    }

    /// Combines a limiter's own outcome with whether all limiters `granted`; `NotTaken` if the
    /// group may not `admit` at all.
    pub(super) fn jointly(self, granted: bool, admit: bool) -> Self {
        match self {
            Self::PerClient | Self::Unknown => self,
            Self::Granted if granted => self,
            Self::Granted => Self::NotTaken,
            _ if admit => self,
            _ => Self::NotTaken,
        }
    }
}
