//! Editing the limits file compiles the crate again, with no build script.

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
    let shop = Shop::new();
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

/// A package of its own, in a workspace of its own.
struct Shop(PathBuf);

impl Shop {
    fn new() -> Self {
        let shop = Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join("shop"));
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
        let runtime = workspace.join("ratelimit-runtime");
        let manifest = format!(
            "[package]\nname = \"shop\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
             [dependencies]\nratelimit-runtime = {{ path = {runtime:?} }}\n"
        );
        fs::create_dir_all(shop.0.join("src")).unwrap();
        // With the versions of this workspace nothing has to be fetched.
        fs::copy(workspace.join("Cargo.lock"), shop.0.join("Cargo.lock")).unwrap();
        shop.write("Cargo.toml", &manifest);
        shop.write("src/lib.rs", SOURCE);
        shop
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).unwrap();
    }

    /// What cargo says to this state of the package.
    fn check(&self, limits: Option<&str>) -> String {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["check", "--offline"]).current_dir(&self.0);
        // Beside the package and not in it, so that a later run finds the dependencies compiled.
        cargo.env("CARGO_TARGET_DIR", self.0.with_extension("target"));
        cargo.env_remove("RUSTFLAGS").env_remove("RATELIMIT_LIMITS");
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
        assert!(told.contains("could not compile `shop`"), "{told}");
        told
    }
}
