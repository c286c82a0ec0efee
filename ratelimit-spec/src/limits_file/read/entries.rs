//! Lists of settings for some names: overrides and prefixes.

use super::settings::SettingsReader;
use crate::limits_file::fields::{Field, Section};
use crate::limits_file::node::Node;
use crate::limits_file::problem::{Position, Report};
use crate::limits_file::reach::unreachable;
use crate::limits_file::shape::Shape;
use crate::limits_file::{Match, Override, PrefixEntry};
use crate::quote::{Quoted, either};
use crate::settings::Settings;
use crate::{key::MAX_NAME, template::Template};

/// An entry of either list, and the position of the field with its names.
struct Entry {
    matches: Match,
    position: Option<Position>,
    settings: Settings,
}

/// The properties of the entries of a list.
struct Kind<'a> {
    /// The noun for an entry in messages.
    noun: &'a str,
    /// The fields that select its names; an entry has one of them.
    matchers: &'a [&'a str],
    /// A setting that has no effect in an entry, and the message about it, after its name.
    useless: (&'a str, &'a str),
    /// The settings that an entry inherits.
    inherited: &'a Settings,
}

/// Reads the overrides of a limiter.
pub(super) fn overrides(
    field: &Field<'_>,
    limiter: &str,
    template: Option<&Template>,
    inherited: &Settings,
    report: &mut Report,
) -> Vec<Override> {
    let noun = format!("an override of limiter {}", Quoted(limiter));
    let kind = Kind {
        noun: &noun,
        matchers: &["key", "prefix"],
        useless: ("max_keys", "is for all keys of a limiter; write it outside of `overrides`"),
        inherited,
    };
    let example = "a list of entries such as `- { key: \"orders:42\", rate: 0 }`";
    let entries = entries(field, &kind, example, report);
    if let Some(template) = template {
        for entry in &entries {
            check_template(entry, template, report);
        }
    }
    let overrides = entries
        .into_iter()
        .map(|entry| Override { matches: entry.matches, settings: entry.settings });
    overrides.collect()
}

/// Reads the settings of keys built at run time.
pub(super) fn prefixes(field: &Field<'_>, shape: Shape, report: &mut Report) -> Vec<PrefixEntry> {
    let kind = Kind {
        noun: "an entry of `prefixes`",
        matchers: &["prefix"],
        useless: (
            "refund_on",
            "is for annotated functions, and a prefix for names that are built at run time; remove it",
        ),
        inherited: &Settings::default(),
    };
    let entries = entries(field, &kind, &shape.expected(), report);
    let prefixes = entries.into_iter().map(|entry| PrefixEntry {
        prefix: match entry.matches {
            Match::Key(text) | Match::Prefix(text) => text,
        },
        settings: entry.settings,
    });
    prefixes.collect()
}

fn entries(field: &Field<'_>, kind: &Kind<'_>, example: &str, report: &mut Report) -> Vec<Entry> {
    let nodes = report.list(field, example).iter();
    let entries: Vec<Entry> = nodes
        .filter_map(|node| entry(node, node.position.or(field.position), kind, report))
        .collect();
    check_reach(&entries, report);
    entries
}

fn entry(
    node: &Node,
    position: Option<Position>,
    kind: &Kind<'_>,
    report: &mut Report,
) -> Option<Entry> {
    let Kind { noun, matchers, useless: (useless, why), inherited } = *kind;
    let place = format!(" in {noun}");
    let section = Section { place: &place, entry: "field" };
    let fields = match report.fields(node, &section) {
        Ok(fields) => fields,
        Err(value) => {
            report.add(position, || {
                let example = "{ prefix: \"vip-\", rate: 50 }";
                format!("{noun} cannot be {value}; write fields such as `{example}`")
            });
            return None;
        }
    };
    let mut reader = SettingsReader::default();
    let mut names = Vec::new();
    for field in &fields {
        if matchers.contains(&field.name) {
            names.push(*field);
        } else if !reader.field(field, report) {
            let mut known = [matchers, Settings::NAMES].concat();
            known.retain(|name| *name != useless);
            report.unknown(field, &known, &section);
        }
    }
    reader.without(useless, why, report);
    let settings = reader.finish(inherited, report);
    match names[..] {
        [] => report.add(position, || {
            format!("{noun} needs {}; write which names it is for", either(matchers))
        }),
        [field] => {
            return names_of(&field, report).map(|matches| Entry {
                matches,
                position: field.position,
                settings,
            });
        }
        [_, second, ..] => report.add(second.name_position, || {
            format!("{noun} has either {}; remove one of them", either(matchers))
        }),
    }
    None
}

fn names_of(field: &Field<'_>, report: &mut Report) -> Option<Match> {
    let (expected, matches): (_, fn(String) -> Match) = match field.name {
        "key" => ("one name, such as `key: \"orders:42\"`", Match::Key),
        _ => ("what names start with, such as `prefix: \"orders:vip-\"`", Match::Prefix),
    };
    let text = report.text(field, expected)?;
    if text.len() > MAX_NAME {
        report.add(field.position, || {
            let (name, n_bytes) = (field.name, text.len());
            format!("`{name}` is {n_bytes} bytes long; write at most {MAX_NAME}")
        });
        // It is no name of any limiter, and its text is too long for a message.
        return None;
    }
    Some(matches(text.to_owned()))
}

/// An override for names that the limiter never has would silently limit no call.
fn check_template(entry: &Entry, template: &Template, report: &mut Report) {
    let (key, start) = (Quoted(template.text()), &template.literals()[0]);
    let has_values = |text: &str| !template.is_static() && text.starts_with(start);
    let escape = "escape characters of values other than letters, digits, `_`, `.` and `-`, such as `@` by `%40`";
    // A name that ends in a wildcard was meant as a prefix.
    let no_wildcard = |text: &str| {
        let start = text.trim_end_matches('*');
        let is_one = start != text && !start.is_empty() && template.can_start_with(start);
        is_one.then(|| format!("write no wildcard, as in `prefix: {start:?}`"))
    };
    match &entry.matches {
        Match::Key(name) if !template.can_render(name) => report.add(entry.position, || {
            if let Some(write) = no_wildcard(name) {
                return format!("{} is never a name of limiter {key}; {write}", Quoted(name));
            }
            let also = if has_values(name) { format!(", and {escape}") } else { String::new() };
            let example = template.literals().join("42");
            let (name, example) = (Quoted(name), Quoted(&example));
            format!("{name} is never a name of limiter {key}; write one such as {example}{also}")
        }),
        Match::Prefix(prefix) if !template.can_start_with(prefix) => {
            report.add(entry.position, || {
                let write = match no_wildcard(prefix) {
                    Some(write) => write,
                    None if has_values(prefix) => escape.to_owned(),
                    None => format!("they start with {}", Quoted(start)),
                };
                format!("no name of limiter {key} starts with {}; {write}", Quoted(prefix))
            });
        }
        _ => {}
    }
}

/// An entry after one that matches all its names would silently do nothing.
fn check_reach(entries: &[Entry], report: &mut Report) {
    let matches: Vec<&Match> = entries.iter().map(|entry| &entry.matches).collect();
    let text = |index: usize| match matches[index] {
        Match::Key(text) | Match::Prefix(text) => Quoted(text),
    };
    for (later, earlier) in unreachable(&matches) {
        report.add(entries[later].position, || {
            let at = entries[earlier].position.map(|at| format!(" on line {}", at.line));
            let at = at.unwrap_or_default();
            let (this, other) = (text(later), text(earlier));
            if matches[later] == matches[earlier] {
                return format!("duplicate entry {this}, first set{at}; remove one");
            }
            format!("{this} is never reached, because {other}{at} matches first; move it before that entry")
        });
    }
}
