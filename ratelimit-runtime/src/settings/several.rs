//! Which layers decide a key's numbers: one rate and window, or several limits.

use std::sync::Arc;

use ratelimit_spec::{Algorithm, Limit, LimitProblem, Settings, check_limits, in_order};

use super::{Source, Sourced};
use crate::Quota;

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
    /// What is wrong, to follow the key.
    pub(crate) fn complaint(&self) -> String {
        match self {
            Self::Missing(what) => {
                format!("has no `{what}`; write it in the attribute or in the limits file")
            }
            Self::Alone(name, other, _) => format!(
                "has `limits`, which `{name}` alone does not change; write `{other}` too, or `limits`"
            ),
            Self::Together(problems, _) => {
                let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
                format!("has limits that cannot hold together: {}", problems.join("; "))
            }
        }
    }
}

/// The layers as they are asked for one setting.
type Layers<'a> = [(Source, &'a Settings)];

/// The several limits of a key, unless a layer before them has one rate and window instead.
pub(super) fn limits(layers: &Layers<'_>) -> Result<Option<Sourced<Arc<[Limit]>>>, Unresolved> {
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

/// The limits in their order, as quotas.
pub(super) fn quotas(
    limits: &Sourced<Arc<[Limit]>>,
    algorithm: Algorithm,
) -> Result<Sourced<Arc<[Quota]>>, Unresolved> {
    let problems = check_limits(&limits.value, algorithm);
    if !problems.is_empty() {
        return Err(Unresolved::Together(problems, limits.source));
    }
    let quotas = in_order(limits.value.iter().map(|limit| limit.quota(algorithm)));
    let quotas = quotas.into_iter().map(Quota::of).collect();
    Ok(Sourced { value: quotas, source: limits.source })
}

/// One of several quotas, as a limits file writes it.
pub(crate) fn written(quota: &Quota) -> Limit {
    // A rate beyond the range came from a store; the greatest stands for it.
    let rate = u32::try_from(quota.rate()).unwrap_or(u32::MAX);
    let (algorithm, burst) = (Some(quota.rule().algorithm()), quota.rule().burst());
    Limit { algorithm, burst, ..Limit::new(rate, quota.per()) }
}
