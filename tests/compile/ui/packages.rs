//! What shows only in a package of its own: edits of the limits file, which compile the crate again with no build
//! script, other names of the dependency, and a package away from its workspace.

use std::{fs, path::Path};

use crate::shop::{SOURCE, Shop, errors};

/// The same for all, so that the runtime is compiled once.
const FEATURES: &str = ", default-features = false, features = [\"calendar\", \"limits-file\"]";

const DECLARED: &str = "limiters:\n  'orders:{user_id}': { rate: 2, per: 1s }\n";
const RENAMED: &str = "limiters:\n  'order:{user_id}': { rate: 2, per: 1s }\n";

/// The first annotation of the crate, which states the dependency on the limits file for all.
const FIRST: &str = r#"
#[ratelimit_runtime::rate_limit(key = "orders:{user_id}", rate = 2, per = "1s")]
pub async fn cancelled(user_id: u64) {}
"#;

#[test]
fn an_edit_of_the_limits_file_is_noticed() {
    let shop = Shop::new("shop", "ratelimit-runtime", FEATURES);
    shop.write("src/lib.rs", &format!("{FIRST}{SOURCE}"));
    shop.write("ratelimit.yaml", DECLARED);
    shop.compiles();
    assert!(!shop.check(None).contains("Checking shop"), "an untouched file compiles nothing");

    shop.write("ratelimit.yaml", RENAMED);
    let told = shop.does_not_compile();
    assert!(told.contains("is not declared in `ratelimit.yaml`; did you mean `order:{user_id}` (`ratelimit.yaml:2`)?"), "{told}");

    shop.write("ratelimit.yaml", DECLARED);
    shop.compiles();

    // So is the variable that names another file.
    shop.write("other.yaml", RENAMED);
    let told = shop.check(Some("other.yaml"));
    assert!(told.contains("is not declared in `other.yaml`"), "{told}");
    shop.compiles();
}

#[test]
fn what_is_right_compiles() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("ui");
    for folder in ["passing", "limits_file/passing", "limits_file/loose"] {
        let shop = Shop::new("passing", "ratelimit-runtime", FEATURES);
        for case in fs::read_dir(cases.join(folder)).unwrap() {
            let case = case.unwrap();
            let (name, text) =
                (case.file_name().into_string().unwrap(), fs::read_to_string(case.path()).unwrap());
            let is_program = name.ends_with(".rs");
            shop.write(&if is_program { format!("src/bin/{name}") } else { name }, &text);
        }
        shop.write("src/lib.rs", "");
        shop.compiles();
    }
}

const RENAMED_DEPENDENCY: &str = r#"
#[rl::rate_limit(key = "orders:{user_id}", rate = 2, per = "1s", wait = "none", fallback = none)]
pub async fn orders(user_id: u64) -> u64 {
    user_id
}

#[rl::rate_limit(key = "quote", rate = 2, per = "1s")]
pub async fn quote() {}

pub fn none(_: rl::Rejection) -> u64 {
    0
}

pub fn handle() -> rl::Limiter {
    rl::limiter!("quote")
}
"#;

#[test]
fn a_renamed_dependency_needs_its_name() {
    let shop = Shop::new("renamed", "rl", FEATURES);
    shop.write("src/lib.rs", RENAMED_DEPENDENCY);
    assert_eq!(errors(&shop.does_not_compile()), [include_str!("packages/renamed.stderr").trim()]);

    let named = RENAMED_DEPENDENCY.replace("per = \"1s\"", "per = \"1s\", crate = ::rl");
    let named = named.replace("limiter!(\"quote\"", "limiter!(\"quote\", crate = ::rl");
    shop.write("src/lib.rs", &named);
    shop.compiles();
}

#[test]
fn a_re_exported_macro_needs_the_path_of_the_runtime() {
    let middle = Shop::new("middle", "ratelimit-runtime", FEATURES);
    middle.write("src/lib.rs", "pub use ratelimit_runtime::{self, rate_limit};");

    let shop = Shop::new("re-exported", "ratelimit-runtime", FEATURES);
    shop.depends_on(&middle);
    let source = SOURCE
        .replace("ratelimit_runtime::", "middle::")
        .replace("\")]", "\", rate = 2, per = \"1s\")]");
    shop.write("src/lib.rs", &source);
    let expected = include_str!("packages/re_exported.stderr").trim();
    assert_eq!(errors(&shop.does_not_compile()), [expected]);

    shop.write(
        "src/lib.rs",
        &source.replace("\"1s\"", "\"1s\", crate = middle::ratelimit_runtime"),
    );
    shop.compiles();
}

#[test]
fn a_package_away_from_its_workspace_needs_its_numbers() {
    let shop = Shop::new("packaged", "ratelimit-runtime", FEATURES);
    shop.write("ratelimit.yaml", DECLARED);
    shop.compiles();

    // What cargo leaves in the packages that it unpacks.
    shop.write(".cargo-ok", "");
    shop.write("src/lib.rs", &format!("{SOURCE}\n"));
    let expected = include_str!("packages/packaged.stderr").trim();
    assert_eq!(errors(&shop.does_not_compile()), [expected]);

    shop.write("src/lib.rs", &SOURCE.replace("\")]", "\", rate = 2, per = \"1s\")]"));
    shop.compiles();
}
