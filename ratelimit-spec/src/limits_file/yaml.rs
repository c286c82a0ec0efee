//! Reads the YAML of a limits file into a tree of values.

use super::node::{Node, Value};
use super::problem::{Position, Problem};
use outline::{Inside, Outline};

mod outline;
mod scan;

/// What to write instead of what only the parser rejects, by a part of its message.
const ADVICE: &[(&str, &str)] = &[
    ("'-' indicator", BESIDE_A_LIST),
    ("node content", BESIDE_A_LIST),
    ("expected key", "write a list (`- `) below a key of its own, such as `overrides:`"),
    ("sequence entries", "begin the list on the next line"),
    ("escape", NO_ESCAPES),
    ("hexadecimal", NO_ESCAPES),
    ("mapping values", LONG_KEY),
    ("find expected ':'", LONG_KEY),
];

const BESIDE_A_LIST: &str =
    "write each field inside an entry of the list (`- `), or align it with the key above the list";
const NO_ESCAPES: &str = "write text with backslashes in single quotes";
const LONG_KEY: &str = "write the key at the start of a line, with at most 1024 characters";

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
            let advice = ADVICE.iter().find(|(part, _)| what.contains(part));
            let advice = advice.map_or("quote text with special characters", |(_, advice)| advice);
            let message = format!("not valid YAML: {what}; {advice}");
            Problem { position, message, is_syntax: true }
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
