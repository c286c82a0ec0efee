//! Builds within builds; `xtask` includes this file too.

use std::{env, ffi::OsStr, process::Command};

/// Returns cargo with the environment of a call by hand, for a program that cargo itself runs.
///
/// Removes the variables that describe the program's own package: build scripts such as that of `ring` read them. If
/// one changes, the scripts run again, and everything that depends on them is recompiled.
#[must_use]
pub fn cargo(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in env::vars_os() {
        let of_package =
            |name: &str| name.starts_with("CARGO_MANIFEST_") || name.starts_with("CARGO_PKG_");
        if name.to_str().is_some_and(of_package) {
            command.env_remove(&name);
        }
    }
    command
}
