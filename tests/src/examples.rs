//! The compiled examples.

use std::{
    env,
    path::{Path, PathBuf},
    sync::LazyLock,
};

/// The folder of the examples. `cargo test` has already built them, unless it tests only this package. With the
/// features that they have in a test of everything, nothing is compiled twice.
static EXAMPLES: LazyLock<PathBuf> = LazyLock::new(|| {
    let profile_dir = profile_dir();
    let profile = match profile_dir.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(other) => other,
    };
    let built = crate::cargo(env!("CARGO"))
        .args(["build", "--quiet", "--workspace", "--all-features", "--examples"])
        .args(["--profile", profile, "--target-dir"])
        .arg(profile_dir.parent().unwrap_or(Path::new(".")))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status();
    assert!(built.is_ok_and(|status| status.success()), "the examples do not build");
    profile_dir.join("examples")
});

/// Returns the program of an example.
///
/// # Panics
///
/// Panics if the examples do not build.
#[must_use]
pub fn example(name: &str) -> PathBuf {
    EXAMPLES.join(name)
}

/// Returns the folder of programs built with the profile of this test.
///
/// # Panics
///
/// Panics if the path of the test is unknown.
#[must_use]
pub fn profile_dir() -> PathBuf {
    let test = env::current_exe().expect("the path of this test");
    test.ancestors().nth(2).expect("a test in a folder of cargo").to_owned()
}
