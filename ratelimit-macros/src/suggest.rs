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

/// The names of our arguments in other tools.
const SYNONYMS: [(&str, &str); 15] = [
    ("capacity", "burst"),
    ("cost", "permits"),
    ("count", "permits"),
    ("duration", "per"),
    ("interval", "per"),
    ("max", "rate"),
    ("max_wait", "wait"),
    ("name", "key"),
    ("on_error", "on_store_error"),
    ("period", "per"),
    ("quota", "rate"),
    ("requests", "rate"),
    ("timeout", "wait"),
    ("weight", "permits"),
    ("window", "per"),
];

/// Returns the argument that was likely meant by an unknown name, if any, and the end of the message about it.
pub(crate) fn argument(name: &str, known: &[&'static str]) -> (Option<&'static str>, String) {
    let beginning = format!("{name}_");
    let synonym = SYNONYMS.iter().find(|(synonym, _)| *synonym == name).map(|(_, meant)| *meant);
    let meant = synonym
        .or_else(|| known.iter().copied().find(|known| known.starts_with(&beginning)))
        .or_else(|| nearest(name, known.iter().copied()));
    match meant {
        Some(meant) => (Some(meant), format!("did you mean `{meant}`?")),
        None => (None, did_you_mean(name, known.iter().copied())),
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
