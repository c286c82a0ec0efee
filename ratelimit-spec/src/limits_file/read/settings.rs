//! The fields that a limiter, an override, a prefix and the default have in common.

use crate::algorithm::Algorithm;
use crate::check::Conflict;
use crate::limits_file::MAX_SHARDS;
use crate::limits_file::fields::Field;
use crate::limits_file::problem::{Position, Report};
use crate::limits_file::read::{limits, setting};
use crate::quote::either;
use crate::settings::{Merged, Settings};
use crate::words::{MAX_RATE, Mode, OnDrift, OnStoreError, RefundOn};

/// Collects settings, and where each of them stands.
#[derive(Default)]
pub(super) struct SettingsReader {
    settings: Settings,
    places: Vec<(&'static str, Option<Position>)>,
    limits_at: Vec<Option<Position>>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Layer {
    Own,
    Inherited,
}

impl SettingsReader {
    /// Reads a field. Returns false when it is not one of [`Settings::NAMES`].
    pub(super) fn field(&mut self, field: &Field<'_>, report: &mut Report) -> bool {
        let settings = &mut self.settings;
        self.places.extend(setting(field.name).map(|name| (name, field.position)));
        match field.name {
            "enabled" => settings.enabled = report.boolean(field),
            "shadow" => settings.shadow = report.boolean(field),
            "rate" => {
                let expected = "a whole number from 0 (nobody) to 2147483647";
                settings.rate = report.number(field, (0, MAX_RATE.into()), expected);
            }
            "per" => {
                settings.per = report.per(field);
            }
            "time_zone" => {
                let expected = "a name of the IANA database such as `Europe/Vienna`";
                settings.time_zone = report.word(field, expected);
            }
            "limits" => {
                let read = limits::limits(field, report);
                (settings.limits, self.limits_at) = (Some(read.0.into()), read.1);
            }
            "mode" => settings.mode = report.word(field, &either(Mode::WORDS)),
            "algorithm" => {
                settings.algorithm = report.word(field, &either(Algorithm::WORDS));
            }
            "burst" => {
                let expected = "a whole number from 1 to 2147483647";
                settings.burst = report.number(field, (1, MAX_RATE.into()), expected);
            }
            "warm_up" => {
                settings.warm_up = report.duration(field);
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
            }
            "shards" => {
                let expected = "a whole number from 1 to 256";
                settings.shards = report.number(field, (1, MAX_SHARDS.into()), expected);
            }
            _ => return false,
        }
        true
    }

    /// Checks what was read for all limiters: a zone is for those with a calendar window.
    pub(super) fn finish_default(mut self, report: &mut Report) -> Settings {
        let time_zone = self.settings.time_zone.take();
        Settings { time_zone, ..self.finish(&Settings::default(), report) }
    }

    /// Checks what was read, together with what it inherits. What the annotation says is unknown here.
    pub(super) fn finish(self, inherited: &Settings, report: &mut Report) -> Settings {
        let set = Merged::of(&[(Layer::Own, &self.settings), (Layer::Inherited, inherited)]);
        for conflict in set.check() {
            // What no setting of this layer takes part in is reported where it is written.
            if let Some(position) = self.place_of(&conflict) {
                report.add(position, || conflict.to_string());
            }
        }
        self.settings
    }

    fn place_of(&self, conflict: &Conflict) -> Option<Option<Position>> {
        let limit = conflict.limit.and_then(|limit| self.limits_at.get(limit));
        let place = |name: &&str| self.places.iter().find(|(known, _)| known == name);
        let first = || conflict.settings.iter().find_map(place).map(|(_, position)| *position);
        limit.copied().or_else(first)
    }
}
