//! Converts the values of a limits file to settings.

use super::fields::{Field, Section, advice_on_separator};
use super::node::{self, Node};
use super::problem::Report;
use super::program::{DEADLINE, REMEMBERED, REVISION};
use super::shape::Shape;
use super::{LimiterEntry, LimitsFile, MAX_LIMITERS, Unmatched, expand_env};
use crate::key::check_prefix;
use crate::network::Network;
use crate::quote::Quoted;
use crate::settings::Settings;
use crate::template::Template;

mod entries;
mod limits;
mod penalty;
mod settings;
mod value;

pub(super) use limits::FIELDS as LIMIT_FIELDS;
pub(super) use settings::{SettingsReader, settings};
use value::Value;

/// A field of the file.
pub(super) struct FileField {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) shape: Shape,
    /// The default, in JSON.
    pub(super) default: Option<&'static str>,
    read: fn(&Field<'_>, Shape, &mut LimitsFile, &mut Report),
}

pub(super) const FILE_FIELDS: &[FileField] = &[
    FileField {
        name: "store",
        about: "Where state is kept; `${..}` stands for environment variables.",
        shape: Shape::Text("`memory` or a URL such as `redis://127.0.0.1:6379/0`", "memory"),
        default: None,
        read: |field, shape, file, report| file.store = expandable(field, shape, report),
    },
    FileField {
        name: "tls_ca",
        about: "The file with the certificates that a TLS connection trusts; `${..}` stands for environment variables.",
        shape: Shape::Text("the path of a file", "/etc/ssl/redis-ca.pem"),
        default: None,
        read: |field, shape, file, report| file.tls_ca = expandable(field, shape, report),
    },
    FileField {
        name: "key_prefix",
        about: "What the name of every limiter starts with; `${..}` stands for environment variables.",
        shape: Shape::Other(
            "a text such as `\"shop:\"`",
            r#""type": "string", "examples": ["shop:"]"#,
        ),
        default: None,
        read: |field, shape, file, report| file.key_prefix = key_prefix(field, shape, report),
    },
    FileField {
        name: "revision",
        about: "Of two programs with different files, the one with the higher revision decides.",
        shape: REVISION,
        default: None,
        read: |field, shape, file, report| file.revision = report.number(field, shape),
    },
    FileField {
        name: "strict",
        about: "Whether every annotated key must be declared.",
        shape: Shape::Flag,
        default: Some("true"),
        read: |field, _, file, report| file.strict = report.boolean(field).unwrap_or(true),
    },
    FileField {
        name: "unmatched",
        about: "What happens when an entry matches no limiter of the program.",
        shape: Shape::Word(Unmatched::WORDS),
        default: Some("\"warn\""),
        read: |field, shape, file, report| {
            file.unmatched = report.word(field, shape).unwrap_or_default();
        },
    },
    FileField {
        name: "shadow",
        about: "Whether all limiters are in shadow mode.",
        shape: Shape::Flag,
        default: Some("false"),
        read: |field, _, file, report| file.shadow = report.boolean(field).unwrap_or(false),
    },
    FileField {
        name: "deadline",
        about: "How long one decision may take.",
        shape: DEADLINE,
        default: Some("\"100ms\""),
        read: |field, shape, file, report| file.deadline = report.deadline(field, shape),
    },
    FileField {
        name: "instances",
        about: "How many processes share the limits.",
        shape: Shape::Number(1, "", u32::MAX as u64),
        default: None,
        read: |field, shape, file, report| file.instances = report.number(field, shape),
    },
    FileField {
        name: "max_remembered",
        about: "How many limiters a process remembers.",
        shape: REMEMBERED,
        default: Some("100000"),
        read: |field, shape, file, report| file.max_remembered = report.number(field, shape),
    },
    FileField {
        name: "trusted_proxies",
        about: "The proxies whose word about the address of a client counts.",
        shape: Shape::Other(
            "a list of address ranges such as `[10.0.0.0/8]`",
            r#""type": "array", "items": { "type": "string" }"#,
        ),
        default: None,
        read: |field, shape, file, report| file.trusted_proxies = networks(field, shape, report),
    },
    FileField {
        name: "client_ip_header",
        about: "The header in which the trusted proxies name the client.",
        shape: Shape::Text("the name of a header such as `x-forwarded-for`", "x-forwarded-for"),
        default: None,
        read: |field, shape, file, report| {
            file.client_ip_header = report
                .text(field, &shape.expected())
                .and_then(|text| text.parse().map_err(|error| report.refuse(field, &error)).ok());
        },
    },
    FileField {
        name: "default",
        about: "What applies where nothing else does.",
        shape: Shape::Other(
            "fields such as `{ rate: 5, per: 1s }`",
            r##""$ref": "#/definitions/settings""##,
        ),
        default: None,
        read: |field, _, file, report| file.default = default(field, report),
    },
    FileField {
        name: "limiters",
        about: "The limiters, by key.",
        shape: Shape::Other(
            "a map such as `checkout: { rate: 5, per: 1s }`",
            r##""type": ["object", "null"], "additionalProperties": { "$ref": "#/definitions/limiter" }"##,
        ),
        default: None,
        read: |field, shape, file, report| file.limiters = limiters(field, shape, report),
    },
    FileField {
        name: "prefixes",
        about: "Limits for keys built at run time, by how they start.",
        shape: Shape::Other(
            "a list of entries such as `- { prefix: \"test:\", rate: 2, per: 1s }`",
            r##""type": ["array", "null"], "items": { "$ref": "#/definitions/prefix" }"##,
        ),
        default: None,
        read: |field, shape, file, report| file.prefixes = entries::prefixes(field, shape, report),
    },
];

/// Returns the names of all options, for the test that looks for them in the reference.
#[cfg(test)]
pub(super) fn options() -> impl Iterator<Item = &'static str> {
    let names = FILE_FIELDS.iter().map(|field| field.name);
    names.chain(Settings::NAMES.iter().copied()).chain(["overrides"])
}

/// Returns the name of a setting, or `None` if there is no such setting.
pub(super) fn setting(name: &str) -> Option<&'static str> {
    Settings::NAMES.iter().find(|setting| **setting == name).copied()
}

/// Returns the name of a field of the file, or `None` if there is no such field.
pub(super) fn file_field(name: &str) -> Option<&'static str> {
    FILE_FIELDS.iter().map(|field| field.name).find(|field| *field == name)
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
        match FILE_FIELDS.iter().find(|known| known.name == field.name) {
            Some(known) => (known.read)(field, known.shape, &mut file, report),
            None => unknown_file_field(field, &section, report),
        }
    }
    file
}

fn unknown_file_field(field: &Field<'_>, section: &Section<'_>, report: &mut Report) {
    let name = field.name;
    // With an entry, it is a list of limiters.
    let has_limiters = matches!(&field.value.value, node::Value::Map(entries)
        if name == "limits" && !entries.is_empty());
    if Settings::NAMES.contains(&name) && !has_limiters {
        report.add(field.name_position, || {
            format!("`{name}` is not a field of the file; write it under `default` or a limiter")
        });
    } else {
        let names: Vec<_> = FILE_FIELDS.iter().map(|field| field.name).collect();
        report.unknown(field, &names, section);
    }
}

/// Reads a string that may contain `${..}`, which is not expanded here.
fn expandable(field: &Field<'_>, shape: Shape, report: &mut Report) -> Option<String> {
    let text = report.text(field, &shape.expected())?;
    let expanded = expand_env(text, |_| Some(String::new()));
    expanded.map_err(|message| report.refuse(field, &message)).ok()?;
    Some(text.to_owned())
}

fn networks(field: &Field<'_>, shape: Shape, report: &mut Report) -> Vec<Network> {
    let read = |node: &Node| {
        let field = Field { value: node, position: node.position.or(field.position), ..*field };
        let Some(text) = node.text() else {
            let (name, value) = (field.name, &node.value);
            let example = "an address range such as `10.0.0.0/8`";
            report.add(field.position, || {
                format!("an entry of `{name}` cannot be {value}; write {example}")
            });
            return None;
        };
        text.parse().map_err(|error| report.refuse(&field, &error)).ok()
    };
    match &field.value.value {
        node::Value::List(nodes) => nodes.iter().filter_map(read).collect(),
        _ => {
            report.wrong(field, &shape.expected());
            Vec::new()
        }
    }
}

fn key_prefix(field: &Field<'_>, shape: Shape, report: &mut Report) -> Option<String> {
    let Some(prefix) = field.value.text() else {
        report.wrong(field, &shape.expected());
        return None;
    };
    let expanded = expand_env(prefix, |_| Some(String::new()));
    let expanded = expanded.map_err(|message| report.refuse(field, &message)).ok()?;
    check_prefix(&expanded).map_err(|error| report.refuse(field, &error)).ok()?;
    Some(prefix.to_owned())
}

fn default(field: &Field<'_>, report: &mut Report) -> Settings {
    let section = Section { place: " in `default`", entry: "field" };
    let mut reader = SettingsReader::default();
    for field in settings_fields(field, &section, report) {
        if !reader.field(&field, report) {
            report.unknown(&field, Settings::NAMES, &section);
        }
    }
    reader.finish_default(report)
}

fn limiters(field: &Field<'_>, shape: Shape, report: &mut Report) -> Vec<LimiterEntry> {
    let section = Section { place: "", entry: "limiter" };
    let fields = report.fields(field.value, &section).unwrap_or_else(|_| {
        report.wrong(field, &shape.expected());
        Vec::new()
    });
    if let Some(field) = fields.get(MAX_LIMITERS) {
        let n_limiters = fields.len();
        report.add(field.name_position, || {
            format!("there are {n_limiters} limiters; write at most {MAX_LIMITERS}")
        });
    }
    let fields = fields.iter().take(MAX_LIMITERS);
    fields.filter_map(|field| limiter(field, report)).collect()
}

/// Reads a limiter, left out if its key is invalid: no further message about the key would help.
fn limiter(entry: &Field<'_>, report: &mut Report) -> Option<LimiterEntry> {
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
            report.unknown(&field, &[Settings::NAMES, &["overrides"]].concat(), &section);
        }
    }
    if template.as_ref().is_ok_and(Template::is_static) {
        let why = format!("is for keys with placeholders, and {} has none; remove it", Quoted(key));
        reader.without("max_keys", &why, report);
    }
    let settings = reader.finish(&Settings::default(), report);
    let overrides = overrides
        .map(|field| entries::overrides(&field, key, template.as_ref().ok(), &settings, report))
        .unwrap_or_default();
    template.is_ok().then(|| LimiterEntry { key: key.to_owned(), settings, overrides })
}

/// Returns the fields of a limiter or of the default.
fn settings_fields<'a>(
    field: &Field<'a>,
    section: &Section<'_>,
    report: &mut Report,
) -> Vec<Field<'a>> {
    report.fields(field.value, section).unwrap_or_else(|value| {
        report.add(field.position, || {
            let name = Quoted(field.name);
            // The fields are in the column of the key, so YAML takes them for keys.
            if Settings::NAMES.contains(&field.name) {
                return format!("{name} is a field of a limiter; indent it below the key");
            }
            // `default` is read by this function, too.
            if field.name != "default" && file_field(field.name).is_some() {
                return format!("{name} is a field of the file; write it at the start of a line");
            }
            // `per:1s` is a text.
            let advice = match value {
                node::Value::Text(text) => text
                    .split_once([':', '='])
                    .filter(|(name, _)| Settings::NAMES.contains(&name.trim_end()))
                    .and_then(|_| advice_on_separator(text)),
                node::Value::List(_) => {
                    Some(format!("write several limits as `{}`", limits::WHOLE))
                }
                _ => None,
            };
            let hint =
                advice.unwrap_or_else(|| "write fields such as `{ rate: 5, per: 1s }`".to_owned());
            format!("{name} cannot be {value}; {hint}")
        });
        Vec::new()
    })
}
