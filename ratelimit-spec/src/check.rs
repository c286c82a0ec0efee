//! The rules across settings, each written once. The macro, the limits file and code only add the location.

use crate::algorithm::Algorithm;
use crate::calendar::Calendar;
use crate::conflict::{Conflict, requires_a_bucket};
use crate::duration::{MIN_PER, format_duration};
use crate::limit::{Limit, check_limits};
use crate::rule::Rule;
use crate::settings::Merged;
use crate::words::Mode;

/// The smaller a source, the nearer its layer.
impl<S: Copy + Ord> Merged<S> {
    /// Returns whether both are set, and `one` in a nearer layer, so that it can replace `other`.
    fn is_nearer(&self, one: &str, other: &str) -> bool {
        self.is_beside(one, other) && !self.is_beside(other, one)
    }

    /// Returns whether both are set, and `other` in no nearer layer, so that it does not replace `one`.
    fn is_beside(&self, one: &str, other: &str) -> bool {
        match (self.source_of(one), self.source_of(other)) {
            (Some(one), Some(other)) => one <= other,
            _ => false,
        }
    }

    /// Leaves out what nearer settings replace: several limits and one rate and window are alternatives, and so
    /// are the `burst` and the `warm_up` of a token bucket. A limiter that is not counted as one has no penalty.
    #[must_use]
    pub fn in_force(mut self) -> Self {
        if self.is_nearer("rate", "limits") || self.is_nearer("per", "limits") {
            self.limits = None;
        } else if self.limits.is_some() {
            (self.rate, self.per, self.burst, self.warm_up) = (None, None, None, None);
        }
        if self.is_beside("warm_up", "burst") {
            self.burst = None;
        } else if self.burst.is_some() {
            self.warm_up = None;
        }
        if self.shards() > 1 || self.mode() == Mode::PerClient {
            self.penalty = None;
        }
        self
    }

    /// Returns how permits are counted, or `None` if that is unknown.
    #[must_use]
    pub fn rule(&self) -> Option<Rule> {
        let (algorithm, rate) = (self.algorithm?.value, self.rate?.value);
        Some(match (algorithm, self.warm_up) {
            (Algorithm::TokenBucket, Some(warm_up)) => {
                Rule::WarmingBucket { warm_up: warm_up.value }
            }
            (Algorithm::FixedWindow, _) => {
                let zone = self.time_zone.map(|zone| zone.value).unwrap_or_default();
                let unit = self.per.and_then(|per| per.value.unit);
                Rule::FixedWindow { calendar: unit.map(|unit| Calendar { unit, zone }) }
            }
            _ => algorithm.rule(self.burst.map_or(rate, |burst| burst.value)),
        })
    }

    /// Checks all rules across settings. A setting that is absent is unknown and conflicts with none.
    #[must_use]
    pub fn check(&self) -> Vec<Conflict> {
        if let Some(conflict) = self.one_number_over_limits() {
            return vec![conflict];
        }
        let set = self.clone().in_force();
        let mut conflicts = self.check_alternatives(&set);
        conflicts
            .extend(["burst", "warm_up"].into_iter().filter_map(|name| self.check_bucket(name)));
        conflicts.extend(
            set.limits.iter().flat_map(|limits| check_limits(&limits.value, set.algorithm())),
        );
        let others = [
            set.check_exactness(),
            set.check_calendar(),
            set.check_time_zone(),
            set.check_shards(),
            self.check_penalty(),
            set.check_keep_alive(),
        ];
        conflicts.extend(others.into_iter().flatten());
        conflicts
    }

    /// Checks that a call that costs `permits` can succeed. A rate of 0 is meant to reject all calls.
    #[must_use]
    pub fn check_cost(&self, permits: u32) -> Option<Conflict> {
        let set = self.clone().in_force();
        let never = |why: String, raise: &str| {
            format!(
                "`permits` is {permits}, but {why}, so no call can succeed; lower `permits`, or raise {raise}"
            )
        };
        if let Some(limits) = &set.limits {
            let mut quotas = limits.value.iter().map(|limit| limit.quota(set.algorithm()));
            let limit = quotas.position(|quota| u64::from(permits) > quota.capacity())?;
            let Limit { rate, per, .. } = limits.value[limit];
            let message =
                never(format!("one limit is {rate} per `{}`", format_duration(per)), "the limit");
            return Some(Conflict::of_limit(limit, message));
        }
        let rate = set.rate.filter(|rate| rate.value > 0)?.value;
        let whole = set.rule()?.burst().unwrap_or(rate);
        let shards = set.shards();
        let is_burst = set.burst.is_some() && set.algorithm() == Algorithm::TokenBucket;
        let (settings, splits): (&[_], &[_]) = if is_burst {
            (&["burst"], &["shards", "burst"])
        } else {
            (&["rate"], &["shards", "rate"])
        };
        let name = settings[0];
        let raise = format!("`{name}`");
        if permits > whole {
            Some(Conflict::new(settings, never(format!("`{name}` is {whole}"), &raise)))
        } else if permits > whole / shards {
            let why = format!("{shards} shards split a `{name}` of {whole}");
            Some(Conflict::new(splits, never(why, &raise)))
        } else {
            None
        }
    }

    /// One number does not identify which of several limits it replaces. A rate of 0 replaces all of them.
    fn one_number_over_limits(&self) -> Option<Conflict> {
        let rate = self.rate.filter(|_| self.is_nearer("rate", "limits"));
        let (settings, other): (&[_], _) = match (rate, self.is_nearer("per", "limits")) {
            (Some(rate), false) if rate.value > 0 => (&["rate", "limits"], "per"),
            (None, true) => (&["per", "limits"], "rate"),
            _ => return None,
        };
        let name = settings[0];
        let advice = format!("write `{other}` too, or write `limits`");
        Some(Conflict::new(settings, format!("`{name}` alone cannot replace `limits`; {advice}")))
    }

    fn check_alternatives(&self, set: &Self) -> Vec<Conflict> {
        const OF_ONE: [&[&str; 2]; 5] = [
            &["rate", "limits"],
            &["per", "limits"],
            &["time_zone", "limits"],
            &["burst", "limits"],
            &["warm_up", "limits"],
        ];
        let mut conflicts = Vec::new();
        if set.limits.is_some() {
            let beside = OF_ONE.iter().filter(|[name, limits]| self.is_beside(name, limits));
            conflicts.extend(beside.map(|settings| Conflict::combined(settings)));
        } else if self.is_beside("warm_up", "burst") && self.is_beside("burst", "warm_up") {
            conflicts.push(Conflict::combined(&["warm_up", "burst"]));
        }
        conflicts
    }

    /// Only a token bucket stores permits. A nearer `algorithm` leaves what it stores without effect.
    fn check_bucket(&self, name: &'static str) -> Option<Conflict> {
        let algorithm = self.algorithm?.value;
        let is_idle = algorithm != Algorithm::TokenBucket && self.is_beside(name, "algorithm");
        let settings: &[_] =
            if name == "burst" { &["burst", "algorithm"] } else { &["warm_up", "algorithm"] };
        is_idle.then(|| Conflict::new(settings, requires_a_bucket(name, algorithm)))
    }

    fn check_exactness(&self) -> Option<Conflict> {
        // Numbers too large for the shortest window are too large for an unknown one.
        let per = self.per.map_or(MIN_PER, |per| per.value.length);
        self.rule()?.check(self.rate?.value.into(), per).err()
    }

    fn check_calendar(&self) -> Option<Conflict> {
        let (unit, algorithm) = (self.per?.value.unit?, self.algorithm?.value);
        (algorithm != Algorithm::FixedWindow).then(|| Conflict::of_calendar(unit, algorithm))
    }

    fn check_time_zone(&self) -> Option<Conflict> {
        let per = self.per.filter(|per| per.value.unit.is_none())?.value;
        self.is_beside("time_zone", "per").then(|| {
            let message = format!(
                "`time_zone` has no effect, because `per` is the fixed length `{per}`; write a calendar unit \
                 such as `day`, or remove `time_zone`"
            );
            Conflict::new(&["time_zone", "per"], message)
        })
    }

    /// Checks that the limiter can be split: a shard counts like the whole limiter, with permits of its own.
    #[must_use]
    pub fn check_shards(&self) -> Option<Conflict> {
        let shards = self.shards();
        if shards <= 1 {
            return None;
        }
        let too_many = |number| number > 0 && number < shards;
        let conflict = |settings, message: &str| Some(Conflict::new(settings, message));
        if self.limits.is_some() {
            return conflict(
                &["shards", "limits"],
                "`shards` cannot be combined with `limits`, which are decided together on one server; remove one of \
                 them",
            );
        }
        if self.mode() == Mode::PerClient {
            return conflict(
                &["shards", "mode"],
                "`shards` cannot be combined with mode `per_client`, which counts in each process; remove `shards`",
            );
        }
        if self.algorithm() == Algorithm::LeakyBucket {
            return conflict(
                &["shards", "algorithm"],
                "`shards` cannot be combined with `leaky_bucket`, which spaces permits evenly; remove `shards`, or \
                 write another algorithm",
            );
        }
        if self.algorithm() == Algorithm::TokenBucket && self.warm_up.is_some() {
            return conflict(
                &["shards", "warm_up", "algorithm"],
                "`shards` cannot be combined with `warm_up`, which spaces permits; remove one of them",
            );
        }
        let burst = self.burst.filter(|_| self.algorithm() == Algorithm::TokenBucket);
        let (settings, number): (&[_], _) = match (self.rate, burst) {
            (Some(rate), _) if too_many(rate.value) => (&["shards", "rate"], rate.value),
            (_, Some(burst)) if too_many(burst.value) => (&["shards", "burst"], burst.value),
            _ => return None,
        };
        let name = settings[1];
        let advice = format!("write at most {number}, which is the `{name}`");
        Some(Conflict::new(
            settings,
            format!("`shards: {shards}` leaves a shard without permits; {advice}"),
        ))
    }

    /// The store that counts a limiter blocks it, as a whole. A nearer setting leaves a penalty without
    /// effect.
    fn check_penalty(&self) -> Option<Conflict> {
        let (settings, message): (&[_], _) = if self.shards() > 1
            && self.is_beside("penalty", "shards")
        {
            (
                &["penalty", "shards"],
                "`penalty` cannot be combined with `shards`, because each shard rejects calls on its own; remove one of \
                 them",
            )
        } else if self.mode() == Mode::PerClient && self.is_beside("penalty", "mode") {
            (
                &["penalty", "mode"],
                "`penalty` cannot be combined with mode `per_client`, which counts in each process; remove \
                 `penalty`",
            )
        } else {
            return None;
        };
        Some(Conflict::new(settings, message))
    }

    /// A limiter that expires within its window would grant that window's permits again.
    fn check_keep_alive(&self) -> Option<Conflict> {
        let keep_alive = self.keep_alive?.value;
        let limits =
            self.limits.iter().flat_map(|limits| limits.value.iter().map(|limit| limit.per));
        let (settings, per): (&[_], _) = match limits.max() {
            Some(per) if self.is_beside("keep_alive", "limits") => (&["keep_alive", "limits"], per),
            None if self.is_beside("keep_alive", "per") => {
                (&["keep_alive", "per"], self.per?.value.length)
            }
            _ => return None,
        };
        let (this, least) = (format_duration(keep_alive), format_duration(per));
        let message =
            format!("`keep_alive` of `{this}` is shorter than `per`; write at least `{least}`");
        (keep_alive < per).then(|| Conflict::new(settings, message))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::settings::Settings;

    const BUCKET: Option<Algorithm> = Some(Algorithm::TokenBucket);

    fn conflicts(layers: &[Settings]) -> Vec<String> {
        let layers: Vec<_> = layers.iter().enumerate().collect();
        Merged::of(&layers).check().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_cannot_be_split_says_why() {
        let shards =
            |said: Settings| conflicts(&[Settings { shards: said.shards.or(Some(8)), ..said }]);
        let none = Settings::default;
        for said in [
            none(),
            Settings { rate: Some(8), burst: Some(2), ..none() },
            Settings { rate: Some(0), ..none() },
            Settings { shards: Some(1), mode: Some(Mode::PerClient), rate: Some(1), ..none() },
        ] {
            assert_eq!(shards(said), [""; 0]);
        }
        let warm_up = Some(Duration::from_secs(4));
        for (said, expected) in [
            (
                Settings { mode: Some(Mode::PerClient), ..none() },
                "`shards` cannot be combined with mode",
            ),
            (
                Settings { algorithm: BUCKET, warm_up, ..none() },
                "`shards` cannot be combined with `warm_up`",
            ),
            (
                Settings { limits: Some([].into()), ..none() },
                "`shards` cannot be combined with `limits`",
            ),
            (
                Settings { rate: Some(7), ..none() },
                "`shards: 8` leaves a shard without permits; write at most 7",
            ),
            (
                Settings { algorithm: BUCKET, rate: Some(9), burst: Some(6), ..none() },
                "`shards: 8` leaves a shard without permits; write at most 6, which is the `burst`",
            ),
        ] {
            let found = shards(said);
            assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?}");
        }
    }

    #[test]
    fn a_nearer_setting_replaces_what_it_conflicts_with() {
        let burst = Settings { algorithm: BUCKET, burst: Some(5), ..Settings::default() };
        let warm_up = Settings { warm_up: Some(Duration::from_secs(4)), ..Settings::default() };
        let leaky = Settings { algorithm: Some(Algorithm::LeakyBucket), ..Settings::default() };
        let set = |near: &Settings, far: &Settings| conflicts(&[near.clone(), far.clone()]);
        assert_eq!(set(&leaky, &burst), [""; 0]);
        assert_eq!(set(&warm_up, &burst), [""; 0]);
        let burst_alone = Settings { algorithm: None, ..burst };
        assert_eq!(set(&burst_alone, &leaky), [requires_a_bucket("burst", Algorithm::LeakyBucket)]);
        let both = warm_up.filled_from(&burst_alone);
        assert_eq!(
            conflicts(&[both]),
            ["`warm_up` cannot be combined with `burst`; remove one of them"]
        );
    }
}
