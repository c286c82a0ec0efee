//! System packages, for tools that a machine lacks.

use std::process::Command;

use crate::shell::{on_path, output, run, say};

/// The name of a package on each system.
pub(crate) struct Package {
    pub(crate) apt: &'static str,
    pub(crate) apk: &'static str,
    pub(crate) dnf: &'static str,
}

/// Installs a package without starting its services: Debian runs `policy-rc.d` before it starts
/// one.
const APT: &str = r#"set -e
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' > "$policy"
    chmod +x "$policy"
fi
export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
install() { apt-get install --yes --quiet --no-install-recommends "$1"; }
install "$1" || { apt-get update --quiet && install "$1"; }
"#;

/// Installs a package if that needs no password. Returns whether it is installed.
pub(crate) fn install(package: &Package) -> bool {
    let managers = [
        ("apt-get", APT, package.apt),
        ("apk", "apk add --no-cache \"$1\"", package.apk),
        ("dnf", "dnf install --assumeyes \"$1\"", package.dnf),
    ];
    let Some((_, script, name)) =
        managers.into_iter().find(|(manager, ..)| on_path(manager).is_some())
    else {
        return false;
    };
    let mut command = if output("id", &["-u"]).as_deref() == Some("0") {
        Command::new("sh")
    } else if output("sudo", &["-n", "true"]).is_some() {
        let mut sudo = Command::new("sudo");
        sudo.args(["-n", "sh"]);
        sudo
    } else {
        return false;
    };
    say(&format!("no {name} found; installing it by the system's package manager"));
    run(command.args(["-c", script, "install", name])).is_ok()
}
