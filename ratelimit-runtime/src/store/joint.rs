//! What every store asks of requests for several limiters, and makes of what each of them says.

use std::sync::Arc;

use super::{Outcome, Reply, Request};
use crate::StoreError;

/// Refuses what cannot be decided in one step: a limiter that is there twice, and rows of costs of
/// different lengths.
pub(super) fn check_joint(requests: &[Request<'_>], costs: &[&[u32]]) -> Result<(), StoreError> {
    let callers = costs.first().map_or(0, |row| row.len());
    if requests.len() != costs.len() || costs.iter().any(|row| row.len() != callers) {
        return Err(StoreError::misconfigured(
            "a joint request needs one cost for each caller and limiter",
        ));
    }
    for (n, request) in requests.iter().enumerate() {
        if requests[..n].iter().any(|other| other.keys == request.keys) {
            return Err(StoreError::misconfigured(
                "a joint request names a limiter twice; add its permits up",
            ));
        }
    }
    Ok(())
}

impl Outcome {
    /// What a limiter's own answer comes down to when others had a say, which `granted` or not; unless
    /// it may `admit` at all, it is spared whatever it said.
    pub(super) fn jointly(self, granted: bool, admit: bool) -> Self {
        match self {
            Self::PerClient | Self::Unknown => self,
            Self::Granted if granted => self,
            Self::Granted => Self::Spared,
            _ if admit => self,
            _ => Self::Spared,
        }
    }
}

/// One answer for all limits of a key, and that of each if there are several.
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
