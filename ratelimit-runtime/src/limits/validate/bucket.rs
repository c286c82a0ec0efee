//! What nothing but a token bucket has, set where the algorithm is another.

use ratelimit_spec::{Algorithm, Settings};

use super::refused;
use crate::{Problem, error::Place, report::Source, settings::Effective};

/// What settings say of a token bucket.
pub(super) fn fields(said: &Settings) -> impl Iterator<Item = &'static str> {
    let burst = said.burst.map(|_| "burst");
    let warm_up = said.warm_up.map(|_| "warm_up");
    burst.into_iter().chain(warm_up)
}

/// The fields that mean nothing, where the algorithm is said as near or nearer, with who sets them.
pub(super) fn idle(
    layers: &[(Source, &Settings)],
    effective: &Effective,
) -> Vec<(&'static str, Source)> {
    if effective.set.algorithm() == Algorithm::TokenBucket {
        return Vec::new();
    }
    let mut found: Vec<(&'static str, Source)> = Vec::new();
    // Several limits take the place of what is said of one further away.
    for (source, said) in layers.iter().take_while(|(_, said)| said.limits.is_none()) {
        for field in fields(said) {
            if found.iter().all(|(known, _)| *known != field) {
                found.push((field, *source));
            }
        }
    }
    let algorithm = effective.set.algorithm.map_or(Source::BuiltIn, |algorithm| algorithm.source);
    found.retain(|(_, source)| algorithm >= *source);
    found
}

pub(super) fn complaint(
    place: Place,
    key: &str,
    field: &'static str,
    algorithm: Algorithm,
) -> Problem {
    let message = format!(
        "`{field}` of `{key}` requires `token_bucket`, but the algorithm is `{algorithm}`; write \
         `algorithm: token_bucket`, or remove `{field}`"
    );
    refused(place, key, field, message)
}
