//! Decides which layers set a key's quota: one rate and window, or several limits.

use std::sync::Arc;

use ratelimit_spec::{Conflict, Limit, Merged, Per, Sourced, in_order};

use crate::{Quota, Quotas, report::Source};

/// Several limits of one layer.
type Limits = Sourced<Arc<[Limit]>, Source>;

/// The reason why a limiter has no quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unresolved {
    /// No layer sets this field.
    Missing(&'static str),
    /// Several limits that cannot apply together, or a single value that overrides them.
    Several(Vec<Conflict>),
}

impl Unresolved {
    /// Returns the error message for the limiter of this key.
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

/// Changes the settings to those of several limits, and returns these in order.
pub(super) fn resolve(set: &mut Merged<Source>, limits: &Limits) -> Quotas {
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

/// Returns one of several quotas as written in a limits file.
pub(crate) fn written(quota: &Quota) -> Limit {
    // A rate beyond the range came from a store; it is replaced by the maximum.
    let rate = u32::try_from(quota.rate()).unwrap_or(u32::MAX);
    let (algorithm, burst) = (Some(quota.rule().algorithm()), quota.rule().burst());
    Limit { algorithm, burst, ..Limit::new(rate, quota.per()) }
}
