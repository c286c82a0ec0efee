//! Builds within builds; `xtask` includes this file too.

use std::{env, ffi::OsStr, process::Command};

/// A cargo as it is called by hand, from a program that another one runs.
///
/// The variables that describe the program's own package are removed: build scripts read them, such as that of `ring`.
/// Where one changed they are run again, and all that depends on them is compiled anew.
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
