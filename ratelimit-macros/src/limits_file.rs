//! The limits file that annotations are checked against at compile time.
//!
//! A missing file is never an error, because a published crate is built without its workspace; only
//! a file named in the environment must exist. Nothing here panics, prints or writes, because the
//! macro also runs inside editors.

mod cache;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ratelimit_spec::{LimiterEntry, LimitsFile, Step};

pub(crate) use cache::Contents;

/// The environment variable that names the file.
const VARIABLE: &str = "RATELIMIT_LIMITS";
const FILE_NAME: &str = "ratelimit.yaml";

/// The result of the search.
pub(crate) enum Lookup {
    Nothing,
    /// The package is compiled outside its workspace.
    Packaged,
    /// The file cannot be read.
    Unreadable(String),
    Found(Found),
}

/// A file that was read, valid or not.
pub(crate) struct Found {
    /// Absolute, as `include_bytes!` requires.
    pub(crate) path: PathBuf,
    /// As shown in messages.
    pub(crate) name: String,
    pub(crate) contents: Arc<Contents>,
}

/// The directory in which the compiler was started, and its package.
#[derive(Default)]
struct Surroundings {
    named: Option<OsString>,
    manifest_dir: Option<PathBuf>,
    current_dir: Option<PathBuf>,
}

/// Looks for the limits file of the package being compiled.
pub(crate) fn find() -> Lookup {
    Surroundings {
        named: std::env::var_os(VARIABLE),
        manifest_dir: std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from),
        current_dir: std::env::current_dir().ok(),
    }
    .find()
}

impl Surroundings {
    fn find(self) -> Lookup {
        let Some(manifest_dir) = self.manifest_dir.as_deref() else {
            return Lookup::Nothing;
        };
        if is_foreign(manifest_dir) {
            return Lookup::Packaged;
        }
        match self.named.as_deref().filter(|name| !name.is_empty()) {
            Some(name) => self.named_file(Path::new(name), manifest_dir),
            None => search_upward(manifest_dir),
        }
    }

    fn named_file(&self, name: &Path, manifest_dir: &Path) -> Lookup {
        // As at run time, a relative path starts in the working directory: the workspace root.
        let current_dir = self.current_dir.as_deref();
        let path = current_dir.map_or_else(|| name.to_owned(), |place| place.join(name));
        match cache::read(&path) {
            Ok(contents) => {
                let root = workspace_root(manifest_dir);
                let shown = root.and_then(|root| path.strip_prefix(root).ok()).unwrap_or(&path);
                Lookup::Found(Found { name: shown.display().to_string(), path, contents })
            }
            Err(error) => {
                let what = format!("`{VARIABLE}` names `{}`", path.display());
                unreadable(&what, &error, "unset the variable")
            }
        }
    }
}

/// Searches from the manifest up to the workspace root, the directory with `Cargo.lock`. Without a
/// root it finds nothing, because the search would end in a home directory.
fn search_upward(manifest_dir: &Path) -> Lookup {
    let Some(root) = workspace_root(manifest_dir) else { return Lookup::Nothing };
    let within = manifest_dir.ancestors().take_while(|dir| dir.starts_with(root));
    // A link that leads nowhere is an error, as at run time.
    let mut paths = within.map(|dir| dir.join(FILE_NAME));
    let Some(path) = paths.find(|path| path.symlink_metadata().is_ok()) else {
        return Lookup::Nothing;
    };
    let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
    match cache::read(&path) {
        Ok(contents) => Lookup::Found(Found { path, name, contents }),
        Err(error) => unreadable(&format!("the limits file is `{name}`"), &error, "remove it"),
    }
}

fn unreadable(what: &str, error: &io::Error, otherwise: &str) -> Lookup {
    let message = format!("{what}, which cannot be read: {error}; correct it, or {otherwise}");
    Lookup::Unreadable(message)
}

fn workspace_root(manifest_dir: &Path) -> Option<&Path> {
    manifest_dir.ancestors().find(|dir| dir.join("Cargo.lock").is_file())
}

/// Returns whether the package comes from a registry, a repository or a vendor directory, or is our
/// own as verified by `cargo package`: below the workspace, but built as if it were not.
fn is_foreign(manifest_dir: &Path) -> bool {
    // The target directory may have any name, and tools that merge also leave such a manifest.
    let packaged = manifest_dir.parent().is_some_and(|dir| dir.ends_with("package"))
        && manifest_dir.join("Cargo.toml.orig").exists();
    // Cargo marks the root of a repository, and each package of a registry.
    let fetched = manifest_dir.ancestors().any(|dir| dir.join(".cargo-ok").exists());
    packaged || fetched || manifest_dir.join(".cargo-checksum.json").exists()
}

impl Lookup {
    pub(crate) fn found(&self) -> Option<&Found> {
        match self {
            Lookup::Found(found) => Some(found),
            Lookup::Nothing | Lookup::Packaged | Lookup::Unreadable(_) => None,
        }
    }
}

impl Found {
    /// Returns the limits, or `None` if the file is invalid.
    pub(crate) fn limits(&self) -> Option<&LimitsFile> {
        self.contents.as_ref().as_ref().ok()
    }

    /// Returns the location of an entry, such as `ratelimit.yaml:7`.
    pub(crate) fn place_of(&self, entry: &LimiterEntry) -> String {
        let steps = [Step::Key("limiters"), Step::Key(&entry.key)];
        match self.limits().and_then(|limits| limits.position(&steps)) {
            Some(position) => format!("{}:{}", self.name, position.line),
            None => self.name.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
