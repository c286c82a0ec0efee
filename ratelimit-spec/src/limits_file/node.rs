//! A limits file as the YAML parser sees it.
//!
//! The values are read into a tree first and given a meaning later, so that a report can hold every
//! problem rather than the first, and so that an entry that is there twice can be refused: maps
//! here keep all their entries, in order.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::outline::{Inside, Outline};
use super::problem::{Position, Problem, Step};
use crate::quote::Quoted;

/// A value and where it stands, if that is known.
#[derive(Clone, PartialEq)]
pub(super) struct Node {
    pub(super) position: Option<Position>,
    pub(super) value: Value,
}

#[derive(Clone, PartialEq)]
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
    /// Reads a text that the guard let through.
    pub(super) fn parse(text: &str) -> Result<Self, Problem> {
        serde_yaml::from_str(text).map_err(|error: serde_yaml::Error| {
            let position = error
                .location()
                .map(|location| Position { line: location.line(), column: location.column() });
            let message = error.to_string();
            // The position is said in front; what the parser was doing is said in its own terms.
            let what = message.split(" at line ").next().unwrap_or_default();
            Problem { position, message: format!("not valid YAML: {what}") }
        })
    }

    /// Gives this node, and all in it, the positions of an outline of the same shape.
    pub(super) fn place(&mut self, outline: &Outline) {
        self.position = Some(outline.position);
        match (&mut self.value, &outline.inside) {
            (Value::List(nodes), Inside::List(outlines)) if nodes.len() == outlines.len() => {
                for (node, outline) in nodes.iter_mut().zip(outlines) {
                    node.place_if_written(outline.as_ref());
                }
            }
            (Value::Map(entries), Inside::Map(outlines)) if entries.len() == outlines.len() => {
                for ((key, value), (key_outline, value_outline)) in entries.iter_mut().zip(outlines)
                {
                    key.place(key_outline);
                    value.place_if_written(value_outline.as_ref());
                }
            }
            _ => {}
        }
    }

    fn place_if_written(&mut self, outline: Option<&Outline>) {
        if let Some(outline) = outline {
            self.place(outline);
        }
    }

    /// Where a reader looks for this value of a key: at the value, but at the key when it is a list
    /// or a map or not there.
    pub(super) fn position_under(&self, key: &Self) -> Option<Position> {
        match self.value {
            Value::List(_) | Value::Map(_) => key.position,
            _ => self.position.or(key.position),
        }
    }

    /// Follows a path.
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

    pub(super) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Says what a value is, after "cannot be".
impl Value {
    /// What kind of value this is, without the value itself, which may be a password.
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

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = deserializer.deserialize_any(ValueVisitor)?;
        Ok(Self { position: None, value })
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Int(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Int(value.into()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Value, E> {
        Ok(Value::Int(value))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Value, E> {
        // No field takes a number that large; it is only shown.
        Ok(i128::try_from(value).map_or(Value::Float(value as f64), Value::Int))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut nodes = Vec::new();
        while let Some(node) = list.next_element()? {
            nodes.push(node);
        }
        Ok(Value::List(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Value::Map(entries))
    }
}
