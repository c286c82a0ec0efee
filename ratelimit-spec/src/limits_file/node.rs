//! The values of a limits file and their positions.
//!
//! The values are first read into a tree and interpreted later, so that a report can contain every
//! problem rather than the first, and so that duplicate entries can be rejected: maps here keep all
//! their entries, in order.

use std::fmt;

use super::problem::{Position, Step};
use crate::quote::Quoted;

/// A value and its position, if known.
#[derive(Clone, PartialEq)]
pub(super) struct Node {
    pub(super) position: Option<Position>,
    pub(super) value: Value,
}

#[derive(Clone, PartialEq)]
#[cfg_attr(
    not(any(feature = "limits-file", feature = "serde")),
    expect(dead_code, reason = "every value is read through serde")
)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
}

impl Node {
    /// Returns the position to report for this value of a key: that of the value, or that of the key if
    /// the value is a list, a map or absent.
    pub(super) fn position_under(&self, key: &Self) -> Option<Position> {
        match self.value {
            Value::List(_) | Value::Map(_) => key.position,
            _ => self.position.or(key.position),
        }
    }

    /// Returns the position at the end of a path.
    pub(super) fn find(&self, path: &[Step<'_>]) -> Option<Position> {
        let mut node = self;
        let mut position = self.position;
        for step in path {
            match (step, &node.value) {
                (Step::Key(name), Value::Map(entries)) => {
                    let (key, value) = entries.iter().find(|(key, _)| key.text() == Some(name))?;
                    position = value.position_under(key);
                    node = value;
                }
                (Step::Index(index), Value::List(nodes)) => {
                    node = nodes.get(*index)?;
                    position = node.position;
                }
                _ => return None,
            }
        }
        position
    }

    /// Returns the keys on the path to the value at a position, the outermost first.
    pub(super) fn keys_to(&self, position: Position) -> Option<Vec<&str>> {
        match &self.value {
            Value::Map(entries) => entries.iter().find_map(|(key, value)| {
                let here = [key.position, value.position].contains(&Some(position));
                let inside = if here { Some(Vec::new()) } else { value.keys_to(position) };
                let mut keys = inside?;
                keys.insert(0, key.text()?);
                Some(keys)
            }),
            Value::List(nodes) => nodes.iter().find_map(|node| {
                let here = node.position == Some(position);
                if here { Some(Vec::new()) } else { node.keys_to(position) }
            }),
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Text(_) => None,
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl Value {
    /// Describes the kind of this value, without the value itself, which may be a password.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "empty",
            Self::Bool(_) | Self::Int(_) | Self::Float(_) | Self::Text(_) => "a single value",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }
}

impl fmt::Display for Value {
    /// Describes a value, after "cannot be".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("empty"),
            Self::Bool(value) => write!(f, "`{value}`"),
            Self::Int(value) => write!(f, "`{value}`"),
            Self::Float(value) => write!(f, "`{value:?}`"),
            Self::Text(text) => write!(f, "the text {}", Quoted(text)),
            Self::List(_) => f.write_str("a list"),
            Self::Map(_) => f.write_str("a map"),
        }
    }
}
