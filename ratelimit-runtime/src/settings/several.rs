//! Which layers decide a key's numbers: one rate and window, or several limits.

use std::sync::Arc;

use ratelimit_spec::{Limit, LimitProblem, Merged, Per, Sourced, check_limits, in_order};

use super::Layers;
use crate::{Quota, Quotas, report::Source};

/// Several limits as a layer has them.
type Limits = Sourced<Arc<[Limit]>, Source>;

/// What kept a limiter from having numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unresolved {
    /// Nobody says what this is.
    Missing(&'static str),
    /// One number of two, over limits that it does not change: the one, the other, and who says it.
    Alone(&'static str, &'static str, Source),
    /// Limits that cannot hold together, and who says them.
    Together(Vec<LimitProblem>, Source),
}

impl Unresolved {
    /// What is wrong with the limiter of this key.
    pub(crate) fn complaint(&self, key: &str) -> String {
        match self {
            Self::Missing(what) => {
                format!("`{key}` has no `{what}`; set it in the attribute or in the limits file")
            }
            Self::Alone(name, other, _) => format!(
                "`{name}` alone cannot replace the `limits` of `{key}`; write `{other}` too, or write \
                 `limits`"
            ),
            Self::Together(problems, _) => {
                let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
                format!("`{key}` has conflicting limits: {}", problems.join("; "))
            }
        }
    }

    /// The setting at fault.
    pub(crate) fn setting(&self) -> &'static str {
        match self {
            Self::Missing(name) | Self::Alone(name, ..) => name,
            Self::Together(..) => "limits",
        }
    }
}

/// The several limits of a key, unless a layer before them has one rate and window instead.
pub(super) fn limits(layers: &Layers<'_>) -> Result<Option<Limits>, Unresolved> {
    let (mut rate, mut per) = (None, None);
    for (source, said) in layers {
        if let Some(limits) = &said.limits {
            return match (rate, per) {
                (None, None) => Ok(Some(Sourced { value: Arc::clone(limits), source: *source })),
                (Some((1.., source)), None) => Err(Unresolved::Alone("rate", "per", source)),
                (None, Some(source)) => Err(Unresolved::Alone("per", "rate", source)),
                // A rate of 0 is nobody, in whatever window.
                (Some(_), _) => Ok(None),
            };
        }
        rate = rate.or(said.rate.map(|rate| (rate, *source)));
        per = per.or(said.per.map(|_| *source));
    }
    Ok(None)
}

/// Makes the settings those of several limits, and returns these in their order.
pub(super) fn settle(set: &mut Merged<Source>, limits: &Limits) -> Result<Quotas, Unresolved> {
    let (source, algorithm) = (limits.source, set.algorithm());
    let problems = check_limits(&limits.value, algorithm);
    if !problems.is_empty() {
        return Err(Unresolved::Together(problems, source));
    }
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
    Ok(quotas)
}

/// One of several quotas, as a limits file writes it.
pub(crate) fn written(quota: &Quota) -> Limit {
    // A rate beyond the range came from a store; the greatest stands for it.
    let rate = u32::try_from(quota.rate()).unwrap_or(u32::MAX);
    let (algorithm, burst) = (Some(quota.rule().algorithm()), quota.rule().burst());
    Limit { algorithm, burst, ..Limit::new(rate, quota.per()) }
}
