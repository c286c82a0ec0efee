//! What a limits file means.

use super::fields::{Field, Section};
use super::node::{Node, Value};
use super::problem::Report;
use super::{LimiterEntry, LimitsFile, MAX_LIMITERS, Settings, Unmatched, expand_env};
use crate::key::check_prefix;
use crate::network::Network;
use crate::quote::{Quoted, either};
use crate::template::Template;

mod entries;
mod limits;
mod settings;

use settings::{SETTINGS, SettingsReader};

const FILE_FIELDS: &[&str] = &[
    "store",
    "tls_ca",
    "key_prefix",
    "revision",
    "strict",
    "unmatched",
    "shadow",
    "deadline",
    "instances",
    "trusted_proxies",
    "default",
    "limiters",
    "prefixes",
];

/// The names of all options, for the test that looks for them in the reference.
#[cfg(test)]
pub(super) fn options() -> impl Iterator<Item = &'static str> {
    let others = ["overrides"];
    FILE_FIELDS.iter().chain(SETTINGS).copied().chain(others)
}

/// Reads the whole file.
pub(super) fn file(root: &Node, report: &mut Report) -> LimitsFile {
    let mut file = LimitsFile::default();
    let section = Section { place: "", entry: "field" };
    let fields = report.fields(root, &section).unwrap_or_else(|value| {
        report.add(root.position, || {
            format!("a limits file cannot be {}; write fields such as `limiters:`", value.kind())
        });
        Vec::new()
    });
    for field in &fields {
        if !file_field(field, &mut file, report) {
            unknown_file_field(field, &section, report);
        }
    }
    file
}

/// Reads a field of the file. Returns false when there is no such field.
fn file_field(field: &Field<'_>, file: &mut LimitsFile, report: &mut Report) -> bool {
    match field.name {
        "store" => {
            let expected = "`memory` or a URL such as `redis://127.0.0.1:6379/0`";
            file.store = expandable(field, expected, report);
        }
        "tls_ca" => file.tls_ca = expandable(field, "the path of a file", report),
        "key_prefix" => file.key_prefix = key_prefix(field, report),
        "revision" => {
            let range = (0, u64::MAX.into());
            file.revision = report.number(field, range, "a whole number such as `7`");
        }
        "strict" => file.strict = report.boolean(field).unwrap_or(true),
        "unmatched" => {
            let word = report.word(field, &either(Unmatched::WORDS));
            file.unmatched = word.unwrap_or_default();
        }
        "shadow" => file.shadow = report.boolean(field).unwrap_or(false),
        "deadline" => file.deadline = report.duration(field),
        "instances" => {
            let range = (1, u32::MAX.into());
            file.instances = report.number(field, range, "a whole number from 1");
        }
        "trusted_proxies" => file.trusted_proxies = networks(field, report),
        "default" => file.default = default(field, report),
        "limiters" => file.limiters = limiters(field, report),
        "prefixes" => file.prefixes = entries::prefixes(field, report),
        _ => return false,
    }
    true
}

fn unknown_file_field(field: &Field<'_>, section: &Section<'_>, report: &mut Report) {
    let name = field.name;
    if SETTINGS.contains(&name) {
        report.add(field.name_position, || {
            format!("`{name}` is not a field of the file; write it under `default` or a limiter")
        });
    } else {
        report.unknown(field, FILE_FIELDS, section);
    }
}

/// A text in which `${..}` stands for something, which is not looked up here.
fn expandable(field: &Field<'_>, expected: &str, report: &mut Report) -> Option<String> {
    let text = report.text(field, expected)?;
    if let Err(message) = expand_env(text, |_| Some(String::new())) {
        report.refuse(field, &message);
    }
    Some(text.to_owned())
}

fn networks(field: &Field<'_>, report: &mut Report) -> Vec<Network> {
    let expected = "a list of address ranges such as `[10.0.0.0/8]`";
    let read = |node: &Node| {
        let field = Field { value: node, position: node.position.or(field.position), ..*field };
        let Some(text) = node.text() else {
            report.wrong(&field, expected);
            return None;
        };
        text.parse().map_err(|error| report.refuse(&field, &error)).ok()
    };
    match &field.value.value {
        Value::List(nodes) => nodes.iter().filter_map(read).collect(),
        _ => {
            report.wrong(field, expected);
            Vec::new()
        }
    }
}

fn key_prefix(field: &Field<'_>, report: &mut Report) -> Option<String> {
    let Some(prefix) = field.value.text() else {
        report.wrong(field, "a text such as `\"shop:\"`");
        return None;
    };
    if let Err(error) = check_prefix(prefix) {
        report.refuse(field, &error);
    }
    Some(prefix.to_owned())
}

fn default(field: &Field<'_>, report: &mut Report) -> Settings {
    let section = Section { place: " in `default`", entry: "field" };
    let mut reader = SettingsReader::default();
    for field in settings_fields(field, &section, report) {
        if !reader.field(&field, report) {
            report.unknown(&field, SETTINGS, &section);
        }
    }
    reader.finish_default(report)
}

fn limiters(field: &Field<'_>, report: &mut Report) -> Vec<LimiterEntry> {
    let section = Section { place: "", entry: "limiter" };
    let fields = report.fields(field.value, &section).unwrap_or_else(|_| {
        report.wrong(field, "a map such as `checkout: { rate: 5, per: 1s }`");
        Vec::new()
    });
    if let Some(field) = fields.get(MAX_LIMITERS) {
        let n_limiters = fields.len();
        report.add(field.name_position, || {
            format!("there are {n_limiters} limiters; write at most {MAX_LIMITERS}")
        });
    }
    let fields = fields.iter().take(MAX_LIMITERS);
    fields.map(|field| limiter(field, report)).collect()
}

fn limiter(entry: &Field<'_>, report: &mut Report) -> LimiterEntry {
    let key = entry.name;
    let template = Template::parse(key);
    if let Err(error) = &template {
        report.add(entry.name_position, || format!("in the key {}: {error}", Quoted(key)));
    }
    let place = format!(" in limiter {}", Quoted(key));
    let section = Section { place: &place, entry: "field" };
    let mut reader = SettingsReader::default();
    let mut overrides = None;
    for field in settings_fields(entry, &section, report) {
        if field.name == "overrides" {
            overrides = Some(field);
        } else if !reader.field(&field, report) {
            report.unknown(&field, &[SETTINGS, &["overrides"]].concat(), &section);
        }
    }
    let settings = reader.finish(&Settings::default(), report);
    let overrides = overrides
        .map(|field| entries::overrides(&field, key, template.ok().as_ref(), &settings, report))
        .unwrap_or_default();
    LimiterEntry { key: key.to_owned(), settings, overrides }
}

/// The fields of a limiter or of the default.
fn settings_fields<'a>(
    field: &Field<'a>,
    section: &Section<'_>,
    report: &mut Report,
) -> Vec<Field<'a>> {
    report.fields(field.value, section).unwrap_or_else(|value| {
        report.add(field.position, || {
            let name = Quoted(field.name);
            format!("{name} cannot be {value}; write fields such as `{{ rate: 5, per: 1s }}`")
        });
        Vec::new()
    })
}
