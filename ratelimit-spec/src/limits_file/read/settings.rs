//! The fields that a limiter, an override, a prefix and the default have in common.

use crate::duration::format_duration;
use crate::limits_file::Settings;
use crate::limits_file::fields::Field;
use crate::limits_file::problem::{Position, Report};
use crate::quote::either;
use crate::words::{MAX_RATE, Mode, OnDrift, OnStoreError};

/// The names of the fields.
pub(super) const SETTINGS: &[&str] = &[
    "enabled",
    "shadow",
    "rate",
    "per",
    "mode",
    "wait",
    "max_waiters",
    "on_store_error",
    "on_drift",
    "keep_alive",
];

/// Collects settings, and where the two fields stand that have to fit each other.
#[derive(Default)]
pub(super) struct SettingsReader {
    settings: Settings,
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
            }
            "per" => {
                settings.per = report.duration(field);
                self.per_at = field.position;
            }
            "mode" => settings.mode = report.word(field, &either(Mode::WORDS)),
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
}
