//! The features a manifest declares.

/// Returns the features of a `Cargo.toml` that users choose, without `default` and the shared
/// features, whose names start with `_`.
///
/// Reads only the form that manifests here use, `name = [..` at the start of a line below
/// `[features]`, which does not justify a TOML parser.
pub(crate) fn of(manifest: &str) -> Vec<&str> {
    manifest
        .lines()
        .skip_while(|line| line.trim() != "[features]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| {
            let (name, value) = line.split_once('=')?;
            let is_feature = !name.starts_with([' ', '#']) && value.trim_start().starts_with('[');
            is_feature.then(|| name.trim().trim_matches('"'))
        })
        .filter(|name| *name != "default" && !name.starts_with('_'))
        .collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn features_are_those_of_the_section() {
        let manifest = "\
[package]
keywords = [\"a\"]

[features]
default = []
# Comment = [with an equals sign]
one = [\"dep:x\"]
two = [
    \"y/z\",
]
_shared = [\"dep:y\"]

[dependencies]
list = [\"b\"]
";
        assert_eq!(super::of(manifest), ["one", "two"]);
    }

    #[test]
    fn a_manifest_without_the_section_has_none() {
        assert!(super::of("[package]\nname = \"x\"\n").is_empty());
    }
}
