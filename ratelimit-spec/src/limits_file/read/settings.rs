//! The fields that a limiter, an override, a prefix and the default have in common.

use crate::algorithm::Algorithm;
use crate::duration::format_duration;
use crate::limits_file::Settings;
use crate::limits_file::fields::Field;
use crate::limits_file::problem::{Position, Report};
use crate::quote::either;
use crate::warm_up::check_warm_up;
use crate::words::{MAX_RATE, Mode, OnDrift, OnStoreError};

/// The names of the fields.
pub(super) const SETTINGS: &[&str] = &[
    "enabled",
    "shadow",
    "rate",
    "per",
    "mode",
    "algorithm",
    "burst",
    "warm_up",
    "wait",
    "max_waiters",
    "on_store_error",
    "on_drift",
    "keep_alive",
];

/// Collects settings, and where the fields stand that have to fit each other.
#[derive(Default)]
pub(super) struct SettingsReader {
    settings: Settings,
    rate_at: Option<Position>,
    burst_at: Option<Position>,
    warm_up_at: Option<Position>,
    per_at: Option<Position>,
    keep_alive_at: Option<Position>,
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
                settings.per = report.duration(field);
                self.per_at = field.position;
            }
            "mode" => settings.mode = report.word(field, &either(Mode::WORDS)),
            "algorithm" => settings.algorithm = report.word(field, &either(Algorithm::WORDS)),
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
            "on_store_error" => {
                settings.on_store_error = report.word(field, &either(OnStoreError::WORDS));
            }
            "on_drift" => settings.on_drift = report.word(field, &either(OnDrift::WORDS)),
            "keep_alive" => {
                settings.keep_alive = report.duration(field);
                self.keep_alive_at = field.position;
            }
            _ => return false,
        }
        true
    }

    /// Checks what was read, together with what it inherits.
    pub(super) fn finish(self, inherited: &Settings, report: &mut Report) -> Settings {
        let all = self.settings.clone().or(inherited);
        self.check_bucket(&all, report);
        self.check_warm_up(&all, report);
        // Without a position neither field is set here, and what is inherited is checked there.
        let position = self.keep_alive_at.or(self.per_at);
        if let (Some(per), Some(keep_alive), Some(_)) = (all.per, all.keep_alive, position)
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
        let Some(warm_up) = self.settings.warm_up else { return };
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
            && let Err(error) = check_warm_up(rate, warm_up)
        {
            report.add(self.warm_up_at, || error.to_string());
        }
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
            && let Err(error) = algorithm.check(rate, per, all.burst)
        {
            report.add(position, || error.to_string());
        }
    }
}
