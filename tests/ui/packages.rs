//! What shows only in a package of its own: edits of the limits file, which compile the crate again with no build
//! script, other names of the dependency, and a package away from its workspace.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = r#"
#[ratelimit_runtime::rate_limit(key = "orders:{user_id}")]
pub async fn orders(user_id: u64) -> u64 {
    user_id
}
"#;

const DECLARED: &str = "limiters:\n  'orders:{user_id}': { rate: 2, per: 1s }\n";
const RENAMED: &str = "limiters:\n  'order:{user_id}': { rate: 2, per: 1s }\n";

#[test]
fn an_edit_of_the_limits_file_is_noticed() {
    let shop = Shop::new("shop", "ratelimit-runtime");
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
    let shop = Shop::new("renamed", "rl");
    shop.write("src/lib.rs", RENAMED_DEPENDENCY);
    assert_eq!(errors(&shop.does_not_compile()), [include_str!("packages/renamed.stderr").trim()]);

    let named = RENAMED_DEPENDENCY.replace("per = \"1s\"", "per = \"1s\", crate = ::rl");
    let named = named.replace("limiter!(\"quote\"", "limiter!(\"quote\", crate = ::rl");
    shop.write("src/lib.rs", &named);
    shop.compiles();
}

#[test]
fn a_package_away_from_its_workspace_needs_its_numbers() {
    let shop = Shop::new("packaged", "ratelimit-runtime");
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

/// The errors of a package, without their places.
fn errors(told: &str) -> Vec<&str> {
    let errors = told.lines().filter(|line| line.starts_with("error"));
    errors.filter(|line| !line.contains("could not compile")).collect()
}

/// A package of its own, in a workspace of its own.
struct Shop {
    name: &'static str,
    dir: PathBuf,
}

impl Shop {
    /// Depends on the runtime by this name.
    fn new(name: &'static str, dependency: &str) -> Self {
        let shop = Self { name, dir: Path::new(env!("CARGO_TARGET_TMPDIR")).join(name) };
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
        let runtime = workspace.join("ratelimit-runtime");
        let manifest = format!(
            "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
             [dependencies]\n{dependency} = {{ package = \"ratelimit-runtime\", path = {runtime:?} }}\n"
        );
        // What an earlier run has left would decide too.
        let _ = fs::remove_dir_all(&shop.dir);
        fs::create_dir_all(shop.dir.join("src")).unwrap();
        // With the versions of this workspace nothing has to be fetched.
        fs::copy(workspace.join("Cargo.lock"), shop.dir.join("Cargo.lock")).unwrap();
        shop.write("Cargo.toml", &manifest);
        shop.write("src/lib.rs", SOURCE);
        shop
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.dir.join(name), text).unwrap();
    }

    /// What cargo says to this state of the package.
    fn check(&self, limits: Option<&str>) -> String {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["check", "--offline"]).current_dir(&self.dir);
        // Beside the package and not in it, so that a later run finds the dependencies compiled.
        cargo.env("CARGO_TARGET_DIR", self.dir.with_file_name("packages.target"));
        for variable in ["RUSTFLAGS", "RATELIMIT_LIMITS", "CARGO_TERM_QUIET"] {
            cargo.env_remove(variable);
        }
        cargo.envs(limits.map(|limits| ("RATELIMIT_LIMITS", limits)));
        let output = cargo.output().expect("cargo runs");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    fn compiles(&self) {
        let told = self.check(None);
        assert!(told.contains("Finished") && !told.contains("error"), "{told}");
    }

    fn does_not_compile(&self) -> String {
        let told = self.check(None);
        assert!(told.contains(&format!("could not compile `{}`", self.name)), "{told}");
        told
    }
}
