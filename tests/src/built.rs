//! Builds within tests.

use std::{env, process::Command};

/// The cargo that built the tests.
///
/// What cargo told the tests of their package is not passed on: build scripts read it, such as that of `ring`, and
/// where it changed they are run again, and all that depends on them is compiled anew, the tests included.
#[must_use]
pub fn cargo() -> Command {
    let mut command = Command::new(env!("CARGO"));
    for (name, _) in env::vars_os() {
        let of_package =
            |name: &str| name.starts_with("CARGO_MANIFEST_") || name.starts_with("CARGO_PKG_");
        if name.to_str().is_some_and(of_package) {
            command.env_remove(&name);
        }
    }
    command
}
