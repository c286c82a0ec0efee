//! What every store asks of requests for several limiters, and makes of what each of them says.

use super::{Outcome, Request};
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
            Self::Granted => Self::NotTaken,
            _ if admit => self,
            _ => Self::NotTaken,
        }
    }
}
