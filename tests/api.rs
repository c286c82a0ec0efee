//! The public API of the runtime with all features, as `api.txt` lists it. A change of a line there is a change for users:
//! CONTRIBUTING.md says which are breaking.

use std::{collections::BTreeSet, env, ffi::OsString, fs, path::Path};

use public_api::PublicApi;
use serde_json::Value;

fn json() -> OsString {
    env::var_os("RATELIMIT_API_JSON").expect("`cargo xtask api` sets the variable")
}

fn public_api() -> PublicApi {
    // Blanket implementations are those of other crates. Which types can be sent and shared is in `answers.rs`.
    public_api::Builder::from_rustdoc_json(json())
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .build()
        .unwrap_or_else(|error| panic!("{error}; compile with the Rust that `.ci/run` pins"))
}

#[test]
#[ignore = "reads the JSON of rustdoc: run `cargo xtask api`"]
fn every_public_item_has_an_example() {
    let docs: Value = serde_json::from_slice(&fs::read(json()).unwrap()).unwrap();
    let api = public_api();
    let mut shown = 0;
    let without: BTreeSet<String> = api
        .items()
        .filter(|item| {
            let item = &docs["index"][item.id().0.to_string()];
            let is_of_kind = |kind: &&str| item["inner"].get(kind).is_some();
            // Methods of a trait's implementation have no visibility of their own.
            let is_shown = item["visibility"] == "public"
                && ["enum", "function", "struct", "trait"].iter().any(is_of_kind);
            shown += usize::from(is_shown);
            is_shown && !item["docs"].as_str().unwrap_or_default().contains("```")
        })
        .map(|item| format!("\n{item}"))
        .collect();
    assert!(shown > 100, "few of the items are in the JSON: {shown}");
    let without: String = without.into_iter().collect();
    assert!(without.is_empty(), "add an example that compiles to the docs of:{without}");
}

#[test]
#[ignore = "reads the JSON of rustdoc: run `cargo xtask api`"]
fn the_public_api_is_the_listed_one() {
    let listed: String = public_api().items().map(|item| format!("{item}\n")).collect();

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
