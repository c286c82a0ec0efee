//! Reads the YAML of a limits file into a tree of values.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::node::{Node, Value};
use super::problem::{Position, Problem};
use outline::{Inside, Outline};

mod outline;
mod scan;

/// Reads the values and their places.
pub(super) fn read(text: &str) -> Result<Node, Problem> {
    let tokens = scan::scan(text)?;
    let mut root = Node::parse(text)?;
    if let Some(outline) = outline::outline(&tokens) {
        root.place(&outline);
    }
    Ok(root)
}

impl Node {
    /// Reads a text that the guard let through.
    fn parse(text: &str) -> Result<Self, Problem> {
        serde_yaml::from_str(text).map_err(|error: serde_yaml::Error| {
            let position = error
                .location()
                .map(|location| Position { line: location.line(), column: location.column() });
            let message = error.to_string();
            // The position is said in front; what the parser was doing is said in its own terms.
            let what = message.split(" at line ").next().unwrap_or_default();
            Problem { position, message: format!("not valid YAML: {what}"), is_syntax: true }
        })
    }

    /// Gives this node, and all in it, the positions of an outline of the same shape.
    fn place(&mut self, outline: &Outline) {
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

#[cfg(test)]
mod tests;
