//! The public API of the runtime with all features, as `api.txt` lists it. A change of a line there is a change for users:
//! CONTRIBUTING.md says which are breaking.

use std::{collections::BTreeSet, env, fs, path::Path};

#[test]
#[ignore = "reads the JSON of rustdoc: run `cargo xtask api`"]
fn the_public_api_is_the_listed_one() {
    let json = env::var_os("RATELIMIT_API_JSON").expect("`cargo xtask api` sets the variable");
    // Blanket implementations are those of other crates. Which types can be sent and shared is in `answers.rs`.
    let api = public_api::Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .build()
        .unwrap_or_else(|error| panic!("{error}; compile with the Rust that `.ci/run` pins"));
    let listed: String = api.items().map(|item| format!("{item}\n")).collect();

    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("api.txt");
    if env::var_os("BLESS").is_some() {
        fs::write(file, listed).unwrap();
        return;
    }
    let before = fs::read_to_string(file).unwrap_or_default();
    let (before, now): (BTreeSet<_>, BTreeSet<_>) =
        (before.lines().collect(), listed.lines().collect());
    let removed = before.difference(&now).map(|line| format!("\n- {line}"));
    let added = now.difference(&before).map(|line| format!("\n+ {line}"));
    let changed: String = removed.chain(added).collect();
    assert!(
        changed.is_empty(),
        "the public API changed; if it should, run `cargo xtask api --bless` and add it to the changelog:{changed}"
    );
}
