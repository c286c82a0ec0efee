//! The form of a value in the file, for the reader, its messages and the JSON schema.

use crate::quote::either;

/// The form of a value.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    Flag,
    /// The minimum, a note on it, and the maximum.
    Number(u64, &'static str, u64),
    /// One of these words.
    Word(&'static [&'static str]),
    /// A string: its description in messages, and an example.
    Text(&'static str, &'static str),
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
            Self::Text(expected, _) | Self::Other(expected, _) => expected.to_owned(),
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
            Self::Text(_, example) => format!(r#""type": "string", "examples": [{example:?}]"#),
            Self::Other(_, schema) => schema.to_owned(),
        }
    }
}

pub(super) const DURATION: Shape =
    Shape::Text("a duration such as `500ms`, `1s` or `1h30m`", "1h30m");
