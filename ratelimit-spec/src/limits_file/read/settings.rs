//! The fields that a limiter, an override, a prefix and the default have in common.

use crate::algorithm::Algorithm;
use crate::duration::format_duration;
use crate::limit::check_limits;
use crate::limits_file::fields::Field;
use crate::limits_file::problem::{Position, Report};
use crate::limits_file::read::limits;
use crate::limits_file::{MAX_SHARDS, Settings, check_shards};
use crate::quote::either;
use crate::rule::check_warm_up;
use crate::words::{MAX_RATE, Mode, OnDrift, OnStoreError, RefundOn};

/// The names of the fields.
pub(super) const SETTINGS: &[&str] = &[
    "enabled",
    "shadow",
    "rate",
    "per",
    "time_zone",
    "limits",
    "mode",
    "algorithm",
    "burst",
    "warm_up",
    "wait",
    "max_waiters",
    "max_debt",
    "on_store_error",
    "refund_on",
    "on_drift",
    "keep_alive",
    "shards",
];

/// Collects settings, and where the fields stand that have to fit each other.
#[derive(Default)]
pub(super) struct SettingsReader {
    settings: Settings,
    rate_at: Option<Position>,
    burst_at: Option<Position>,
    warm_up_at: Option<Position>,
    per_at: Option<Position>,
    time_zone_at: Option<Position>,
    algorithm_at: Option<Position>,
    keep_alive_at: Option<Position>,
    shards_at: Option<Position>,
    limits_at: Vec<Option<Position>>,
}

impl SettingsReader {
    /// Reads a field. Returns false when it is not one of [`SETTINGS`].
    pub(super) fn field(&mut self, field: &Field<'_>, report: &mut Report) -> bool {
        let settings = &mut self.settings;
        match field.name {
            "enabled" => settings.enabled = report.boolean(field),
            "shadow" => settings.shadow = report.boolean(field),
            "rate" => {
                let expected = "a whole number from 0 (nobody) to 2147483647";
                settings.rate = report.number(field, (0, MAX_RATE.into()), expected);
                self.rate_at = field.position;
            }
            "per" => {
                let per = report.per(field);
                settings.per = per.map(|per| per.length);
                settings.unit = per.and_then(|per| per.unit);
                self.per_at = field.position;
            }
            "time_zone" => {
                let expected = "a name of the IANA database such as `Europe/Vienna`";
                settings.time_zone = report.word(field, expected);
                self.time_zone_at = field.position;
            }
            "limits" => {
                let read = limits::limits(field, report);
                (settings.limits, self.limits_at) = (Some(read.0.into()), read.1);
            }
            "mode" => settings.mode = report.word(field, &either(Mode::WORDS)),
            "algorithm" => {
                settings.algorithm = report.word(field, &either(Algorithm::WORDS));
                self.algorithm_at = field.position;
            }
            "burst" => {
                let expected = "a whole number from 1 to 2147483647";
                settings.burst = report.number(field, (1, MAX_RATE.into()), expected);
                self.burst_at = field.position;
            }
            "warm_up" => {
                settings.warm_up = report.duration(field);
                self.warm_up_at = field.position;
            }
            "wait" => {
                let expected = "`forever`, `none` or a duration such as `250ms`";
                settings.wait = report.word(field, expected);
            }
            "max_waiters" => {
                let expected = "a whole number from 0 (nobody waits) to 4294967295";
                settings.max_waiters = report.number(field, (0, u32::MAX.into()), expected);
            }
            "max_debt" => {
                let expected = "a whole number from 0 (nothing is owed) to 4294967295";
                settings.max_debt = report.number(field, (0, u32::MAX.into()), expected);
            }
            "on_store_error" => {
                settings.on_store_error = report.word(field, &either(OnStoreError::WORDS));
            }
            "refund_on" => settings.refund_on = report.word(field, &either(RefundOn::WORDS)),
            "on_drift" => settings.on_drift = report.word(field, &either(OnDrift::WORDS)),
            "keep_alive" => {
                settings.keep_alive = report.duration(field);
                self.keep_alive_at = field.position;
            }
            "shards" => {
                let expected = "a whole number from 1 to 256";
                settings.shards = report.number(field, (1, MAX_SHARDS.into()), expected);
                self.shards_at = field.position;
            }
            _ => return false,
        }
        true
    }

    /// Checks what was read for all limiters: a zone is for those whose windows are a calendar's.
    pub(super) fn finish_default(mut self, report: &mut Report) -> Settings {
        let time_zone = self.settings.time_zone.take();
        Settings { time_zone, ..self.finish(&Settings::default(), report) }
    }

    /// Checks what was read, together with what it inherits.
    pub(super) fn finish(self, inherited: &Settings, report: &mut Report) -> Settings {
        let all = self.settings.clone().or(inherited);
        self.check_bucket(&all, report);
        self.check_warm_up(&all, report);
        self.check_shards(&all, report);
        self.check_calendar(&all, report);
        self.check_limits(inherited, &all, report);
        // Without a position neither field is set here, and what is inherited is checked there.
        let limits_at = self.limits_at.first().copied().flatten();
        let position = self.keep_alive_at.or(self.per_at).or(limits_at);
        let several = all.limits.iter().flat_map(|limits| limits.iter());
        let per = several.map(|limit| limit.per).max().or(all.per);
        if let (Some(per), Some(keep_alive), Some(_)) = (per, all.keep_alive, position)
            && keep_alive < per
        {
            // A limiter forgotten within its window would admit that window's permits again.
            report.add(position, || {
                format!(
                    "`keep_alive` of `{}` is shorter than `per`; write at least `{}`",
                    format_duration(keep_alive),
                    format_duration(per),
                )
            });
        }
        self.settings
    }

    /// Of a `burst` and a `warm_up` in different places the nearer one counts.
    fn check_warm_up(&self, all: &Settings, report: &mut Report) {
        let Some(warm_up) = self.settings.warm_up.filter(|_| self.settings.limits.is_none()) else {
            return;
        };
        if self.settings.burst.is_some() {
            report.add(self.warm_up_at, || {
                "`warm_up` says how much a token bucket stores, and so does `burst`; remove one of \
                 the two"
                    .to_owned()
            });
        } else if let Some(algorithm) = all.algorithm
            && algorithm != Algorithm::TokenBucket
        {
            report.add(self.warm_up_at, || {
                format!(
                    "`warm_up` is what a token bucket can do, and this is a `{algorithm}`; write \
                     `algorithm: token_bucket`, or remove `warm_up`"
                )
            });
        } else if let Some(rate) = all.rate
            && let Err(error) = check_warm_up(rate.into(), warm_up)
        {
            report.add(self.warm_up_at, || error.to_string());
        }
    }

    fn check_shards(&self, all: &Settings, report: &mut Report) {
        let limits_at = self.limits_at.first().copied().flatten();
        let position =
            self.shards_at.or(self.rate_at).or(self.burst_at).or(self.warm_up_at).or(limits_at);
        if position.is_some()
            && let Err(error) = check_shards(all)
        {
            report.add(position, || error.to_string());
        }
    }

    /// As for a bucket, what the annotation says of it is left to the start of the program.
    fn check_calendar(&self, all: &Settings, report: &mut Report) {
        let Some(per) = all.window() else { return };
        let position = self.per_at.or(self.algorithm_at);
        if let (Some(algorithm), Some(_)) = (all.algorithm, position)
            && let Err(error) = per.check(algorithm)
        {
            report.add(position, || error.to_string());
        }
        if self.settings.time_zone.is_some()
            && let Err(error) = per.check_zoned()
        {
            report.add(self.time_zone_at, || error.to_string());
        }
    }

    /// Whether several limits can hold together, and nothing is beside them that only one can have.
    fn check_limits(&self, inherited: &Settings, all: &Settings, report: &mut Report) {
        let beside = [("rate", self.rate_at), ("per", self.per_at), ("burst", self.burst_at)];
        let written = |name: &str| match name {
            "rate" => self.settings.rate.is_some(),
            "per" => self.settings.per.is_some(),
            _ => self.settings.burst.is_some(),
        };
        if let Some(limits) = &self.settings.limits {
            for (name, position) in beside.into_iter().filter(|(name, _)| written(name)) {
                report.add(position, || {
                    format!(
                        "`{name}` cannot stand beside `limits`; write it in one of the limits, or \
                         remove `limits`"
                    )
                });
            }
            if self.settings.warm_up.is_some() {
                report.add(self.warm_up_at, || {
                    "`warm_up` cannot stand beside `limits`, none of which warms up; remove one of the two"
                        .to_owned()
                });
            }
            for problem in check_limits(limits, all.algorithm.unwrap_or_default()) {
                let position = self.limits_at.get(problem.index).copied().flatten();
                report.add(position, || problem.to_string());
            }
        } else if inherited.limits.is_some() {
            self.check_over_limits(report);
        }
    }

    /// One number does not say which of the limits around it is meant. A rate of 0 is all of them.
    fn check_over_limits(&self, report: &mut Report) {
        let (name, other, position) = match (self.settings.rate, self.settings.per) {
            (Some(1..), None) => ("rate", "per", self.rate_at),
            (None, Some(_)) => ("per", "rate", self.per_at),
            _ => return,
        };
        report.add(position, || {
            format!(
                "`{name}` alone does not change the `limits` of the limiter; write `{other}` too, or \
                 `limits`"
            )
        });
    }

    /// What the annotation says of them is only known at startup, so it is left to that.
    fn check_bucket(&self, all: &Settings, report: &mut Report) {
        let Some(algorithm) = all.algorithm else { return };
        if self.settings.burst.is_some() && algorithm != Algorithm::TokenBucket {
            report.add(self.burst_at, || {
                format!(
                    "`burst` is what a token bucket holds, and this is a `{algorithm}`; write \
                     `algorithm: token_bucket`, or remove `burst`"
                )
            });
            return;
        }
        let position = self.burst_at.or(self.rate_at).or(self.per_at);
        if let (Some(rate), Some(per), Some(_)) = (all.rate, all.per, position)
            && let Err(error) = algorithm.rule(all.burst.unwrap_or(rate)).check(rate.into(), per)
        {
            report.add(position, || error.to_string());
        }
    }
}
