//! What nothing but a token bucket has, set where the algorithm is another.

use ratelimit_spec::{Algorithm, Settings};

use crate::settings::{Effective, Source};

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
    if effective.algorithm.value == Algorithm::TokenBucket {
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
    found.retain(|(_, source)| effective.algorithm.source >= *source);
    found
}

pub(super) fn complaint(place: &str, key: &str, field: &str, algorithm: Algorithm) -> String {
    let what = match field {
        "burst" => "what a token bucket holds",
        _ => "what a token bucket can do",
    };
    format!(
        "{place}: `{key}` has a `{field}`, which is {what}, and is a `{algorithm}`; write \
         `algorithm: token_bucket`, or remove `{field}`"
    )
}
