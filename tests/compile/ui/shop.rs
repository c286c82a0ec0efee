//! A package of its own, in a workspace of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const SOURCE: &str = r#"
#[ratelimit_runtime::rate_limit(key = "orders:{user_id}")]
pub async fn orders(user_id: u64) -> u64 {
    user_id
}
"#;

/// The options of the dependency in all programs that are built, so that its crates are built once.
pub(crate) const NO_FEATURES: &str = ", default-features = false";

/// The errors of a package, without their places.
pub(crate) fn errors(told: &str) -> Vec<&str> {
    let errors = told.lines().filter(|line| line.starts_with("error"));
    errors.filter(|line| !line.contains("could not compile")).collect()
}

/// A package of its own, in a workspace of its own.
pub(crate) struct Shop {
    name: &'static str,
    dir: PathBuf,
}

impl Shop {
    /// Depends on the runtime by this name, with these options of the dependency.
    pub(crate) fn new(name: &'static str, dependency: &str, options: &str) -> Self {
        let shop = Self { name, dir: Path::new(env!("CARGO_TARGET_TMPDIR")).join(name) };
        let workspace =
            Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the workspace");
        let runtime = workspace.join("ratelimit-runtime");
        let manifest = format!(
            "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
             [dependencies]\n{dependency} = {{ package = \"ratelimit-runtime\", path = {runtime:?}{options} }}\n"
        );
        // What an earlier run has left would decide too.
        let _ = fs::remove_dir_all(&shop.dir);
        fs::create_dir_all(shop.dir.join("src/bin")).unwrap();
        // With the versions of this workspace nothing has to be fetched.
        fs::copy(workspace.join("Cargo.lock"), shop.dir.join("Cargo.lock")).unwrap();
        shop.write("Cargo.toml", &manifest);
        shop.write("src/lib.rs", SOURCE);
        shop
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.dir.join(name), text).unwrap();
    }

    /// Depends on that package instead of the runtime.
    pub(crate) fn depends_on(&self, other: &Self) {
        let manifest = fs::read_to_string(self.dir.join("Cargo.toml")).unwrap();
        let (manifest, _) = manifest.split_once("[dependencies]").expect("there are some");
        let (name, path) = (other.name, &other.dir);
        self.write(
            "Cargo.toml",
            &format!("{manifest}[dependencies]\n{name} = {{ path = {path:?} }}\n"),
        );
    }

    /// Changes the edition of this package.
    pub(crate) fn in_edition(&self, edition: &str) {
        let manifest = fs::read_to_string(self.dir.join("Cargo.toml")).unwrap();
        let edition = format!("edition = \"{edition}\"");
        self.write("Cargo.toml", &manifest.replace("edition = \"2024\"", &edition));
    }

    /// What cargo says to this state of the package.
    pub(crate) fn check(&self, limits: Option<&str>) -> String {
        let mut cargo = self.cargo("check");
        cargo.envs(limits.map(|limits| ("RATELIMIT_LIMITS", limits)));
        let output = cargo.output().expect("cargo runs");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    fn cargo(&self, command: &str) -> Command {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args([command, "--offline"]).current_dir(&self.dir);
        cargo.env("CARGO_TARGET_DIR", Self::target()).env("CARGO_PROFILE_DEV_DEBUG", "0");
        for variable in ["RUSTFLAGS", "RATELIMIT_LIMITS", "CARGO_TERM_QUIET"] {
            cargo.env_remove(variable);
        }
        cargo
    }

    /// That of the workspace, where many dependencies are compiled already.
    fn target() -> &'static Path {
        Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a folder of the target folder")
    }

    /// Builds the program of this package and returns its path.
    pub(crate) fn program(&self) -> PathBuf {
        let output = self.cargo("build").output().expect("cargo runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self::target().join("debug").join(self.name)
    }

    pub(crate) fn compiles(&self) {
        let told = self.check(None);
        assert!(told.contains("Finished") && !told.contains("error"), "{told}");
    }

    pub(crate) fn does_not_compile(&self) -> String {
        let told = self.check(None);
        assert!(told.contains(&format!("could not compile `{}`", self.name)), "{told}");
        told
    }
}
