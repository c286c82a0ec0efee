//! The form of a value in the file, for the reader, its messages and the JSON schema.

use crate::{calendar::CalendarUnit, duration::pattern, quote::either, words::Wait};

/// The form of a value.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    Flag,
    /// The minimum, a note on it, and the maximum.
    Number(u64, &'static str, u64),
    /// One of these words.
    Word(&'static [&'static str]),
    /// A string that is not empty: its description in messages, and an example.
    Text(&'static str, &'static str),
    /// A duration or one of some words: its description in messages, an example, and the words.
    Duration(&'static str, &'static str, &'static [&'static str]),
    /// The description in messages, and the schema.
    Other(&'static str, &'static str),
}

impl Shape {
    /// Returns the description of a valid value in messages.
    pub(super) fn expected(self) -> String {
        match self {
            Self::Flag => "`true` or `false`".to_owned(),
            Self::Number(least, note, most) => {
                format!("a whole number from {least}{note} to {most}")
            }
            Self::Word(words) => either(words),
            Self::Text(expected, _) | Self::Duration(expected, ..) | Self::Other(expected, _) => {
                expected.to_owned()
            }
        }
    }

    /// Returns a valid value, as a report shows it, in JSON.
    pub(super) fn json(self, shown: &str) -> String {
        match self {
            Self::Flag | Self::Number(..) => shown.to_owned(),
            _ => format!("{shown:?}"),
        }
    }

    /// Returns its members in the JSON schema.
    pub(super) fn schema(self) -> String {
        match self {
            Self::Flag => r#""type": "boolean""#.to_owned(),
            Self::Number(least, _, most) => {
                format!(r#""type": "integer", "minimum": {least}, "maximum": {most}"#)
            }
            Self::Word(words) => format!(r#""enum": {words:?}"#),
            Self::Text(_, example) => {
                format!(r#""type": "string", "minLength": 1, "examples": [{example:?}]"#)
            }
            Self::Duration(_, example, words) => {
                let (text, pattern) = (Self::Text("", example).schema(), pattern(words));
                format!(r#"{text}, "pattern": {pattern:?}"#)
            }
            Self::Other(_, schema) => schema.to_owned(),
        }
    }
}

pub(super) const DURATION: Shape = Shape::Duration(LENGTH, "1h30m", &[]);
pub(super) const PER: Shape = Shape::Duration(LENGTH, "1h30m", CalendarUnit::WORDS);
pub(super) const WAIT: Shape =
    Shape::Duration("`forever`, `none` or a duration such as `250ms`", "250ms", Wait::WORDS);

const LENGTH: &str = "a duration such as `500ms`, `1s` or `1h30m`";
