//! Reads the YAML of a limits file into a tree of values.

use super::node::{Node, Value};
use super::problem::{Position, Problem};
use outline::{Inside, Outline};

mod outline;
mod scan;

/// Reads the values and their positions.
pub(super) fn read(text: &str) -> Result<Node, Problem> {
    let tokens = scan::scan(text)?;
    let mut root = Node::parse(text)?;
    if let Some(outline) = outline::outline(&tokens) {
        root.place(&outline);
    }
    Ok(root)
}

impl Node {
    /// Parses a text that the guard accepted.
    fn parse(text: &str) -> Result<Self, Problem> {
        serde_yaml::from_str(text).map_err(|error: serde_yaml::Error| {
            let position = error
                .location()
                .map(|location| Position { line: location.line(), column: location.column() });
            let message = error.to_string();
            // `Problem` shows the position; the context after it is in the parser's own terms.
            let what = message.split(" at line ").next().unwrap_or_default();
            Problem { position, message: format!("not valid YAML: {what}"), is_syntax: true }
        })
    }

    /// Sets the positions of this node and its contents from an outline of the same shape.
    fn place(&mut self, outline: &Outline) {
        self.position = Some(outline.position);
        match (&mut self.value, &outline.inside) {
            (Value::List(nodes), Inside::List(outlines)) if nodes.len() == outlines.len() => {
                for (node, outline) in nodes.iter_mut().zip(outlines) {
                    node.place(outline);
                }
            }
            (Value::Map(entries), Inside::Map(outlines)) if entries.len() == outlines.len() => {
                for ((key, value), (key_outline, value_outline)) in entries.iter_mut().zip(outlines)
                {
                    key.place(key_outline);
                    if let Some(outline) = value_outline {
                        value.place(outline);
                    }
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
