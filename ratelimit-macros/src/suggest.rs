//! The end of a message about an unknown name.

use ratelimit_spec::{either, nearest};

/// Returns "did you mean `rate`?" if a known name is close, otherwise the list of known names.
pub(crate) fn did_you_mean<'a>(
    name: &str,
    known: impl IntoIterator<Item = &'a str> + Clone,
) -> String {
    match nearest(name, known.clone()) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => format!("expected {}", either(&known.into_iter().collect::<Vec<_>>())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_close_name_is_suggested_and_a_strange_one_gets_the_list() {
        let known = ["rate", "permits", "per"];
        assert_eq!(did_you_mean("permit", known), "did you mean `permits`?");
        assert_eq!(did_you_mean("colour", known), "expected `rate`, `permits` or `per`");
    }
}
