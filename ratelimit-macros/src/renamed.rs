//! Detects a runtime that is renamed in `Cargo.toml`, or is not there.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::sync::OnceLock;

use crate::seen;

const CRATE: &str = "ratelimit_runtime";

/// The runtime among the dependencies of the crate being compiled.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Dependency {
    /// Under its own name, or unknown: rustc reports an unresolved path itself.
    Usual,
    Renamed(String),
    /// A dependency re-exports the macro.
    Missing,
}

/// Returns the runtime's name in the crate being compiled.
///
/// The name is on rustc's command line, as in `--extern limits=/target/libratelimit_runtime-1a2b.rmeta`.
pub(crate) fn runtime() -> &'static Dependency {
    static FOUND: OnceLock<Dependency> = OnceLock::new();
    FOUND.get_or_init(|| match seen::is_a_compiler() {
        true => find(env::args_os()),
        false => Dependency::Usual,
    })
}

fn find(arguments: impl IntoIterator<Item = OsString>) -> Dependency {
    let mut found = Dependency::Usual;
    let mut follows = false;
    for argument in arguments.into_iter().filter_map(|argument| argument.into_string().ok()) {
        // More arguments are in that file.
        if argument.starts_with('@') {
            return Dependency::Usual;
        }
        if let Some(value) = argument.strip_prefix("--extern=").or(follows.then_some(&*argument)) {
            let (name, path) = value.split_once('=').unwrap_or((value, ""));
            // Options come first: `priv:limits`.
            let name = name.rsplit(':').next().unwrap_or(name);
            if name == CRATE {
                return Dependency::Usual;
            }
            if is_the_runtime(Path::new(path)) {
                found = Dependency::Renamed(name.to_owned());
            } else if found == Dependency::Usual && !path.is_empty() {
                found = Dependency::Missing;
            }
        }
        follows = argument == "--extern";
    }
    found
}

fn is_the_runtime(library: &Path) -> bool {
    let name = library.file_stem().and_then(|name| name.to_str());
    let rest = name.and_then(|name| name.strip_prefix("lib")?.strip_prefix(CRATE));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_that_of_the_command_line() {
        let renamed = || Dependency::Renamed("rl".to_owned());
        for (command, runtime) in [
            ("rustc --extern rl=/t/libratelimit_runtime-1a2b.rmeta", renamed()),
            (
                "rustc --extern=priv:rl=/t/libratelimit_runtime.rlib --extern b=/t/libb.rlib",
                renamed(),
            ),
            ("rustc --extern b=/t/libb.rlib --extern rl=/t/libratelimit_runtime.rlib", renamed()),
            ("rustc --extern ratelimit_runtime=/t/libratelimit_runtime-1.rmeta", Dependency::Usual),
            ("rustc --extern b=/t/libb.rlib --extern ratelimit_runtime", Dependency::Usual),
            (
                "rustc --extern rl=/t/libratelimit_runtime-1.rlib --extern ratelimit_runtime=/t/libratelimit_runtime-1.rlib",
                Dependency::Usual,
            ),
            (
                "rustc --extern b=/t/libratelimit_runtime_x-1a2b.rmeta --extern proc_macro",
                Dependency::Missing,
            ),
            ("rustc --extern b=/t/libb.rlib @/t/arguments", Dependency::Usual),
            ("rustc --extern proc_macro", Dependency::Usual),
            ("rustc rl=/t/libratelimit_runtime-1a2b.rmeta --extern", Dependency::Usual),
            ("rustc", Dependency::Usual),
        ] {
            let found = find(command.split(' ').map(OsString::from));
            assert_eq!(found, runtime, "{command}");
        }
    }
}
