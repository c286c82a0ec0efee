//! The oldest compiler that the packages support.

use crate::{
    Failed, Outcome,
    shell::{on_path, output, read_file, root, run, rustup, say},
};

/// Checks the runtime, and with it the packages that it depends on, with the compiler that `rust-version` names.
pub(crate) fn check() -> Outcome {
    let manifest = root().join("Cargo.toml");
    let text = read_file(&manifest)?;
    let Some(version) = rust_version(&text) else {
        eprintln!("no `rust-version` in {}", manifest.display());
        return Err(Failed);
    };
    let toolchain = format!("{version}.0");
    if !install(&toolchain) {
        say(&format!("not run, since there is no Rust {toolchain} here: the check with it"));
        return Ok(());
    }
    let what = ["check", "--locked", "--package", "ratelimit-runtime", "--all-features"];
    run(rustup(&["run", &toolchain, "cargo"]).args(what))
}

/// Installs a toolchain unless rustup has it. Returns whether it is installed.
fn install(toolchain: &str) -> bool {
    if on_path("rustup").is_none() {
        return false;
    }
    let has = |line: &str| line.strip_prefix(toolchain).is_some_and(|rest| rest.starts_with('-'));
    let installed = output("rustup", &["toolchain", "list"]).unwrap_or_default();
    installed.lines().any(has) || {
        say(&format!("installing Rust {toolchain}"));
        let what = ["toolchain", "install", toolchain, "--profile", "minimal", "--no-self-update"];
        run(&mut rustup(&what)).is_ok()
    }
}

/// Returns the `rust-version` of a manifest, such as `1.88`.
fn rust_version(manifest: &str) -> Option<&str> {
    let line = manifest.lines().find(|line| line.starts_with("rust-version = \""))?;
    line.split('"').nth(1)
}

#[cfg(test)]
mod tests {
    use super::rust_version;

    #[test]
    fn the_version_is_that_of_the_manifest() {
        let manifest = "[workspace.package]\nedition = \"2024\"\nrust-version = \"1.88\"\n";
        assert_eq!(rust_version(manifest), Some("1.88"));
        assert_eq!(rust_version("rust-version.workspace = true\n"), None);
    }
}
