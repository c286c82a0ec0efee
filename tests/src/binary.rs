//! Finds the `redis-server` for the tests. `cargo xtask test` searches the same places, and installs
//! one if it finds none.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// Returns the `redis-server` binary: `REDIS_SERVER_BIN`, otherwise the one on `PATH`, otherwise the
/// one unpacked by `cargo xtask test`.
///
/// # Panics
///
/// Panics if there is none; the message explains how to get one.
pub fn server_binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        find()
            .unwrap_or_else(|problem| panic!("{problem}; `cargo xtask test` finds or installs one"))
    })
}

/// Returns the version of [`server_binary`], such as `(7, 0, 15)`.
///
/// # Panics
///
/// Panics if the binary does not report its version.
pub fn server_version() -> (u32, u32, u32) {
    static VERSION: OnceLock<(u32, u32, u32)> = OnceLock::new();
    *VERSION.get_or_init(|| {
        let binary = server_binary();
        let output = Command::new(binary)
            .arg("--version")
            .output()
            .unwrap_or_else(|error| panic!("cannot run {}: {error}", binary.display()));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        parse_version(&text)
            .unwrap_or_else(|| panic!("{} --version says `{text}`", binary.display()))
    })
}

fn find() -> Result<PathBuf, String> {
    if let Some(named) = env::var_os("REDIS_SERVER_BIN").filter(|named| !named.is_empty()) {
        let named = PathBuf::from(named);
        return if named.is_file() {
            Ok(named)
        } else {
            Err(format!("`REDIS_SERVER_BIN` names `{}`, which is not a file", named.display()))
        };
    }
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .map(|dir| dir.join("redis-server"))
        .chain([target_dir().join("redis/bin/redis-server")])
        .find(|file| file.is_file())
        .ok_or_else(|| "no `redis-server` found".to_owned())
}

fn target_dir() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    // A relative `CARGO_TARGET_DIR` is relative to the directory of the cargo call; tests run elsewhere,
    // so only the usual directory of that call, the workspace, is tried.
    workspace.join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

fn parse_version(text: &str) -> Option<(u32, u32, u32)> {
    let version = text.split_whitespace().find_map(|word| word.strip_prefix("v="))?;
    let mut numbers = version.split('.').map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??, numbers.next().flatten().unwrap_or(0)))
}
