//! The entries of a map in a limits file, and the values they can have.

use std::collections::HashMap;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use super::env::WHERE;
use super::node::{Node, Value};
use super::problem::{Position, Report};
use super::program::check_deadline;
use super::shape::{DURATION, Shape};
use crate::duration::{parse_any, parse_duration};
use crate::per::Per;
use crate::quote::{Quoted, either};
use crate::rate::{quota_in, whole_rate};
use crate::suggest::nearest_setting;

/// Returns the advice for `per:1s` or `per=1s`, which YAML takes for a text.
pub(super) fn advice_on_separator(text: &str) -> Option<String> {
    let (name, value) = text.split_at(text.find([':', '='])?);
    let quota = if name.trim_end() == "rate" { advice_on_quota(&value[1..]) } else { None };
    let advice = match value.starts_with('=') {
        true => "write `: ` instead of `=`",
        false => "write a space after the `:`",
    };
    Some(quota.unwrap_or_else(|| advice.to_owned()))
}

/// Returns the advice for a rate of `10/s`.
fn advice_on_quota(text: &str) -> Option<String> {
    quota_in(text).map(|(rate, per)| format!("write `rate: {rate}` and `per: {per}`"))
}

fn advice_on_fraction(rate: f64) -> Option<String> {
    let (rate, times) = whole_rate(rate)?;
    Some(format!("write `{rate}` and a `per` that is {times} times as long"))
}

/// Arguments of the attribute that are code.
const OF_THE_ATTRIBUTE: [&str; 6] =
    ["permits", "refund_if", "actual", "bind", "fallback", "skip_if"];

/// A map in a limits file, as messages name it and its entries.
pub(super) struct Section<'a> {
    /// `` in limiter `x` ``, or nothing for the file itself.
    pub(super) place: &'a str,
    /// `field` or `limiter`.
    pub(super) entry: &'a str,
}

/// A map entry with a string key.
#[derive(Clone, Copy)]
pub(super) struct Field<'a> {
    pub(super) name: &'a str,
    pub(super) name_position: Option<Position>,
    pub(super) value: &'a Node,
    /// The position to report if the value is wrong.
    pub(super) position: Option<Position>,
}

impl Report {
    /// Returns the entries of a map, each once. An absent value is an empty map: it is what remains
    /// when all entries are commented out.
    ///
    /// Returns the value as an error if it is not a map.
    pub(super) fn fields<'a>(
        &mut self,
        node: &'a Node,
        section: &Section<'_>,
    ) -> Result<Vec<Field<'a>>, &'a Value> {
        let mut fields = Vec::new();
        let mut seen: HashMap<&str, Option<Position>> = HashMap::new();
        let entries = match &node.value {
            Value::Null => return Ok(fields),
            Value::Map(entries) => entries,
            other => return Err(other),
        };
        for (key, value) in entries {
            let Some(name) = key.text() else {
                self.add(key.position, || match &key.value {
                    Value::Null => "empty key; write a name before `:`".to_owned(),
                    other => {
                        // `{ rate: 1,234 }` has a key `234`.
                        let is_rest = matches!(other, Value::Int(_)) && value.value == Value::Null;
                        let or = if is_rest { ", or write numbers without commas" } else { "" };
                        format!("expected a string as key, found {other}; quote it{or}")
                    }
                });
                continue;
            };
            if let Some(first) = seen.get(name) {
                self.add(key.position, || duplicate(name, *first, section));
                continue;
            }
            seen.insert(name, key.position);
            let position = value.position_under(key);
            fields.push(Field { name, name_position: key.position, value, position });
        }
        Ok(fields)
    }

    /// Reports a field that does not exist.
    pub(super) fn unknown(&mut self, field: &Field<'_>, known: &[&str], section: &Section<'_>) {
        // `per:1s` is a key without a value, and so is the end of `rate: 1,000`.
        let is_number = field.name.bytes().all(|byte| byte.is_ascii_digit());
        let no_commas = || is_number.then(|| "write numbers without commas".to_owned());
        let advice = advice_on_separator(field.name).or_else(no_commas);
        let advice = advice.filter(|_| field.value.value == Value::Null);
        let is_limiter = section.place.is_empty() && matches!(field.value.value, Value::Map(_));
        if OF_THE_ATTRIBUTE.contains(&field.name) && !is_limiter {
            self.add(field.name_position, || {
                format!("`{}` is not a field of the file; set it in the attribute", field.name)
            });
            return;
        }
        self.add(field.name_position, || {
            let has_number = matches!(field.value.value, Value::Int(_));
            let hint = match (advice, nearest_setting(field.name, has_number, known)) {
                (Some(advice), _) => advice,
                _ if field.name == "<<" => {
                    "merge keys are not supported, so write the fields out".to_owned()
                }
                (None, Some(known)) => format!("did you mean `{known}`?"),
                (None, None) => {
                    let place =
                        if is_limiter { "; a limiter belongs under `limiters`" } else { "" };
                    format!("expected {}{place}", either(known))
                }
            };
            format!("unknown field {}{}; {hint}", Quoted(field.name), section.place)
        });
    }

    /// Reports a value of the wrong kind.
    pub(super) fn wrong(&mut self, field: &Field<'_>, expected: &str) {
        self.add(field.position, || match &field.value.value {
            Value::Null => format!("`{}` has no value; write {expected}, or remove it", field.name),
            value => {
                let note = note_on_variables(field);
                format!("`{}` cannot be {value}; write {expected}{note}", field.name)
            }
        });
    }

    /// Reports a value of the right kind that is not valid.
    pub(super) fn refuse(&mut self, field: &Field<'_>, error: &dyn Display) {
        self.add(field.position, || format!("{error}{}", note_on_variables(field)));
    }

    pub(super) fn boolean(&mut self, field: &Field<'_>) -> Option<bool> {
        if let Value::Bool(value) = field.value.value {
            return Some(value);
        }
        let is_quoted = field.value.text().is_some_and(|text| text.parse::<bool>().is_ok());
        self.wrong(field, &unquoted(Shape::Flag, is_quoted));
        None
    }

    /// Reads an integer in the range of the shape.
    pub(super) fn number<T: TryFrom<i128>>(
        &mut self,
        field: &Field<'_>,
        shape: Shape,
    ) -> Option<T> {
        let in_range = |number: i128| match shape {
            Shape::Number(least, _, most) => (least.into()..=most.into()).contains(&number),
            _ => false,
        };
        match &field.value.value {
            Value::Int(number) if in_range(*number) => return T::try_from(*number).ok(),
            // `5.0` and `1e3` are displayed as integers.
            Value::Float(number) if number.to_string().parse().is_ok_and(in_range) => {
                let name = field.name;
                let message =
                    format!("`{name}` has a decimal point or an exponent; write `{number}`");
                self.refuse(field, &message);
            }
            value => {
                let text = if let Value::Text(text) = value { text } else { "" };
                let is_quoted = text.parse().is_ok_and(|number: i128| number.to_string() == text);
                let plain = text.replace([',', '_', ' '], "");
                let is_plain = || plain != text && plain.parse().is_ok_and(in_range);
                let advice = match value {
                    Value::Float(number) if field.name == "rate" => advice_on_fraction(*number),
                    _ if field.name == "rate" => advice_on_quota(text),
                    _ => None,
                };
                let advice = advice.or_else(|| is_plain().then(|| format!("write `{plain}`")));
                if let Some(advice) = advice {
                    let message = format!("`{}` cannot be {value}; {advice}", field.name);
                    self.refuse(field, &message);
                    return None;
                }
                let is_quota =
                    field.name == "rate" && (text.contains('/') || text.contains(" per "));
                let window = if is_quota { ", and the window as `per`" } else { "" };
                self.wrong(field, &(unquoted(shape, is_quoted) + window));
            }
        }
        None
    }

    pub(super) fn duration(&mut self, field: &Field<'_>) -> Option<Duration> {
        let text = self.span(field, DURATION)?;
        parse_duration(&text).map_err(|error| self.refuse(field, &error)).ok()
    }

    pub(super) fn deadline(&mut self, field: &Field<'_>, shape: Shape) -> Option<Duration> {
        let text = self.span(field, shape)?;
        let deadline = parse_any(&text).map_err(|error| match error.lacks_unit() {
            // Few of the units are within the bounds.
            true => format!("missing unit in {}; write {}", Quoted(&text), shape.expected()),
            false => error.to_string(),
        });
        let checked = deadline.and_then(|deadline| check_deadline(deadline).map(|()| deadline));
        checked.map_err(|error| self.refuse(field, &error)).ok()
    }

    pub(super) fn per(&mut self, field: &Field<'_>) -> Option<Per> {
        let text = self.span(field, DURATION)?;
        text.parse().map_err(|error| self.refuse(field, &error)).ok()
    }

    /// Reads the window of one of several limits.
    pub(super) fn length(&mut self, field: &Field<'_>) -> Option<Duration> {
        let text = self.span(field, DURATION)?;
        Per::parse_length(&text).map_err(|error| self.refuse(field, &error)).ok()
    }

    /// Reads the text of a possible duration.
    fn span(&mut self, field: &Field<'_>, shape: Shape) -> Option<String> {
        // A number is parsed too, so that the error names the missing unit.
        match &field.value.value {
            Value::Text(text) => Some(text.clone()),
            Value::Int(number) => Some(number.to_string()),
            Value::Float(number) => Some(number.to_string()),
            _ => {
                self.wrong(field, &shape.expected());
                None
            }
        }
    }

    /// Reads one of several words, or for `wait` a duration.
    pub(super) fn word<T: FromStr<Err: Display>>(
        &mut self,
        field: &Field<'_>,
        shape: Shape,
    ) -> Option<T> {
        let text = match &field.value.value {
            Value::Text(text) => text.clone(),
            Value::Int(number) => number.to_string(),
            _ => {
                self.wrong(field, &shape.expected());
                return None;
            }
        };
        text.parse().map_err(|error| self.refuse(field, &error)).ok()
    }

    /// Reads a string that is not empty.
    pub(super) fn text<'a>(&mut self, field: &Field<'a>, expected: &str) -> Option<&'a str> {
        match field.value.text() {
            Some("") => self.add(field.position, || {
                format!("`{}` is empty; write {expected}, or remove it", field.name)
            }),
            Some(text) => return Some(text),
            None => self.wrong(field, expected),
        }
        None
    }

    /// Returns the elements of a list; an absent value is an empty list.
    pub(super) fn list<'a>(&mut self, field: &Field<'a>, expected: &str) -> &'a [Node] {
        match &field.value.value {
            Value::Null => &[],
            Value::List(nodes) => nodes,
            _ => {
                self.wrong(field, expected);
                &[]
            }
        }
    }
}

/// Returns the description of a valid value, for one that may have been quoted.
fn unquoted(shape: Shape, is_quoted: bool) -> String {
    shape.expected() + if is_quoted { ", without quotes" } else { "" }
}

/// Returns what to add to an error if the value contains a variable that is not expanded.
fn note_on_variables(field: &Field<'_>) -> &'static str {
    match field.name {
        "store" | "tls_ca" | "key_prefix" => "",
        _ if field.value.text().is_some_and(|text| text.contains("${")) => WHERE,
        _ => "",
    }
}

fn duplicate(name: &str, first: Option<Position>, section: &Section<'_>) -> String {
    let Section { place, entry } = section;
    let at = first.map(|first| format!(", first set on line {}", first.line)).unwrap_or_default();
    format!("duplicate {entry} {}{place}{at}; remove one", Quoted(name))
}
