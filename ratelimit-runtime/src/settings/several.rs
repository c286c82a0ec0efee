//! Which layers decide a key's numbers: one rate and window, or several limits.

use std::sync::Arc;

use ratelimit_spec::{Conflict, Limit, Merged, Per, Sourced, in_order};

use crate::{Quota, Quotas, report::Source};

/// Several limits as a layer has them.
type Limits = Sourced<Arc<[Limit]>, Source>;

/// The reason why a limiter has no quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unresolved {
    /// No layer sets this.
    Missing(&'static str),
    /// Several limits that cannot apply together, or one number over them.
    Several(Vec<Conflict>),
}

impl Unresolved {
    /// What is wrong with the limiter of this key.
    pub(crate) fn complaint(&self, key: &str) -> String {
        match self {
            Self::Missing(what) => {
                format!("`{key}` has no `{what}`; set it in the attribute or in the limits file")
            }
            Self::Several(conflicts) => {
                let conflicts: Vec<String> = conflicts.iter().map(ToString::to_string).collect();
                format!("`{key}`: {}", conflicts.join("; "))
            }
        }
    }
}

/// Makes the settings those of several limits, and returns these in their order.
pub(super) fn settle(set: &mut Merged<Source>, limits: &Limits) -> Quotas {
    let (source, algorithm) = (limits.source, set.algorithm());
    let quotas = in_order(limits.value.iter().map(|limit| limit.quota(algorithm)));
    let quotas = Quotas::stored(quotas.into_iter().map(Quota::of).collect());
    let first = written(&quotas[0]);
    set.rate = Some(Sourced { value: first.rate, source });
    set.per = Some(Sourced { value: Per { length: first.per, unit: None }, source });
    set.algorithm = first.algorithm.map(|value| Sourced { value, source });
    set.burst = first.burst.map(|value| Sourced { value, source });
    (set.warm_up, set.time_zone) = (None, None);
    if quotas.len() > 1 {
        set.limits = Some(Sourced { value: quotas.iter().map(written).collect(), source });
    }
    quotas
}

/// One of several quotas, as a limits file writes it.
pub(crate) fn written(quota: &Quota) -> Limit {
    // A rate beyond the range came from a store; the greatest stands for it.
    let rate = u32::try_from(quota.rate()).unwrap_or(u32::MAX);
    let (algorithm, burst) = (Some(quota.rule().algorithm()), quota.rule().burst());
    Limit { algorithm, burst, ..Limit::new(rate, quota.per()) }
}
