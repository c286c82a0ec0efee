//! Stands in for the YAML reader without the feature `limits-file`.

use super::node::Node;
use super::problem::Problem;

/// Rejects every text.
pub(super) fn read(_: &str) -> Result<Node, Problem> {
    let message =
        "limits files require the crate feature `limits-file`; enable it, or remove the file";
    Err(Problem { position: None, message: message.to_owned(), is_syntax: false })
}
