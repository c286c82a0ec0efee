//! Settings of one limiter outside a limits file, with the same fields and messages.

use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::fields::{Field, Section};
use super::node::Node;
use super::problem::Report;
use super::read::SettingsReader;
use crate::algorithm::Algorithm;
use crate::calendar::TimeZone;
use crate::duration::format_duration;
use crate::limit::Limit;
use crate::penalty::Penalty;
use crate::per::Per;
use crate::settings::Settings;
use crate::words::{Mode, OnDrift, OnStoreError, RefundOn, Wait};

/// Reads a block with some of the settings of a limiter; messages call it by `noun`. It sets the
/// quota; the algorithm is a sliding window by default.
///
/// # Errors
///
/// Returns every problem of the block, a line each.
pub fn settings_block<'de, D: Deserializer<'de>>(
    from: D,
    noun: &str,
    names: &[&str],
) -> Result<Settings, D::Error> {
    let node = Node::deserialize(from)?;
    let mut report = Report::default();
    let settings = read(&node, noun, names, &mut report);
    let problems = report.finish();
    if problems.is_empty() {
        return Ok(settings);
    }
    let lines: Vec<String> = problems.into_iter().map(|problem| problem.message).collect();
    Err(D::Error::custom(lines.join("\n")))
}

fn read(node: &Node, noun: &str, names: &[&str], report: &mut Report) -> Settings {
    const EXAMPLE: &str = "`{ rate: 5, per: 1s }`";
    let place = format!(" in {noun}");
    let section = Section { place: &place, entry: "field" };
    let fields = report.fields(node, &section).unwrap_or_else(|value| {
        report.add(None, || format!("{noun} cannot be {value}; write fields such as {EXAMPLE}"));
        Vec::new()
    });
    let mut reader = SettingsReader::default();
    for field in &fields {
        if Settings::NAMES.contains(&field.name) && !names.contains(&field.name) {
            report.add(None, || {
                let name = field.name;
                format!(
                    "`{name}` cannot be set in {noun}; remove it, or write it in the limits file"
                )
            });
        } else if !reader.field(field, report) {
            report.unknown(field, names, &section);
        }
    }
    let has = |name: &str| fields.iter().any(|field: &Field<'_>| field.name == name);
    if !has("limits") && !report.has_problems() {
        for name in ["rate", "per"].into_iter().filter(|name| !has(name)) {
            report.add(None, || {
                format!("missing `{name}` in {noun}; write fields such as {EXAMPLE}")
            });
        }
    }
    let sliding = Settings { algorithm: Some(Algorithm::default()), ..Settings::default() };
    reader.finish(&sliding, report)
}

/// How a limits file writes a value.
trait Written {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error>;
}

macro_rules! written_as_text {
    ($($ty:ty),+) => {$(
        impl Written for $ty {
            fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    )+};
}

written_as_text!(Per, TimeZone, Mode, Algorithm, Wait, OnStoreError, RefundOn, OnDrift);

impl Written for bool {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(*self)
    }
}

impl Written for u32 {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(*self)
    }
}

impl Written for std::time::Duration {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format_duration(*self))
    }
}

impl Written for Arc<[Limit]> {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl Written for Penalty {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_map(Some(3))?;
        fields.serialize_entry("after", &self.after)?;
        fields.serialize_entry("block", &format_duration(self.block))?;
        fields.serialize_entry("up_to", &format_duration(self.up_to))?;
        fields.end()
    }
}

impl Serialize for Limit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_map(None)?;
        fields.serialize_entry("rate", &self.rate)?;
        fields.serialize_entry("per", &format_duration(self.per))?;
        if let Some(algorithm) = self.algorithm {
            fields.serialize_entry("algorithm", algorithm.as_str())?;
        }
        if let Some(burst) = self.burst {
            fields.serialize_entry("burst", &burst)?;
        }
        fields.end()
    }
}

/// A value as a limits file writes it.
struct AsWritten<'a, T>(&'a T);

impl<T: Written> Serialize for AsWritten<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.write(serializer)
    }
}

macro_rules! serialize {
    ($($(#[$doc:meta])* $name:ident: $ty:ty $(= $default:expr)? => $($kind:ident $more:tt)*;)+) => {
        impl Serialize for Settings {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut fields = serializer.serialize_map(None)?;
                $(
                    if let Some(value) = &self.$name {
                        fields.serialize_entry(stringify!($name), &AsWritten(value))?;
                    }
                )+
                fields.end()
            }
        }
    };
}

crate::settings!(serialize);
