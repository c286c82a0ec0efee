//! What the limits file says of keys that exist at run time alone.

use ratelimit_spec::{Algorithm, Settings, Step};

use super::{LoadedFile, Sites, bucket};
use crate::Problem;

/// What no token bucket has. Where rate or window is missing, code gives a quota, and with
/// it the algorithm.
pub(super) fn idle_fields(file: &LoadedFile, by_key: &Sites, problems: &mut Vec<Problem>) {
    let limits = &file.limits;
    let limiters = limits.limiters.iter().filter(|entry| !by_key.contains_key(&*entry.key));
    let limiters = limiters.map(|entry| {
        let path = vec![Step::Key("limiters"), Step::Key(&entry.key)];
        (entry.key.clone(), path, &entry.settings)
    });
    let default = ("default".to_owned(), vec![Step::Key("default")], &limits.default);
    let prefixes = limits.prefixes.iter().enumerate().map(|(n, entry)| {
        let path = vec![Step::Key("prefixes"), Step::Index(n)];
        (format!("{}*", entry.prefix), path, &entry.settings)
    });
    for (name, mut path, settings) in limiters.chain(prefixes).chain([default]) {
        let Some(algorithm) = other_than_bucket(settings, &limits.default) else { continue };
        for field in bucket::fields(settings) {
            path.push(Step::Key(field));
            problems.push(bucket::complaint(file.place(&path), &name, field, algorithm));
            path.pop();
        }
    }
}

/// The algorithm of a limiter that has numbers of its own and is no token bucket.
fn other_than_bucket(settings: &Settings, default: &Settings) -> Option<Algorithm> {
    let all = settings.clone().or(default);
    let algorithm = all.algorithm.unwrap_or_default();
    let numbers = all.rate.is_some() && all.per.is_some();
    (numbers && algorithm != Algorithm::TokenBucket).then_some(algorithm)
}
