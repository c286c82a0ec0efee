//! Detects a runtime that is renamed in `Cargo.toml`.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::sync::OnceLock;

use crate::seen;

const CRATE: &str = "ratelimit_runtime";

/// Returns the name of the runtime in the crate being compiled, if it is renamed there.
///
/// The name is on rustc's command line, as in `--extern limits=/target/libratelimit_runtime-1a2b.rmeta`. If it is not,
/// rustc reports the unresolved path itself.
pub(crate) fn runtime() -> Option<&'static str> {
    static NAME: OnceLock<Option<String>> = OnceLock::new();
    let find = || seen::is_a_compiler().then(|| find(env::args_os())).flatten();
    NAME.get_or_init(find).as_deref()
}

fn find(arguments: impl IntoIterator<Item = OsString>) -> Option<String> {
    let mut found = None;
    let mut follows = false;
    for argument in arguments.into_iter().filter_map(|argument| argument.into_string().ok()) {
        let value = argument.strip_prefix("--extern=").or(follows.then_some(&*argument));
        if let Some((name, path)) = value.and_then(|value| value.split_once('=')) {
            // Options come first: `priv:limits`.
            let name = name.rsplit(':').next().unwrap_or(name);
            if name == CRATE {
                return None;
            }
            if is_the_runtime(Path::new(path)) {
                found = Some(name.to_owned());
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
        for (command, name) in [
            ("rustc --extern rl=/t/libratelimit_runtime-1a2b.rmeta", Some("rl")),
            (
                "rustc --extern=priv:rl=/t/libratelimit_runtime.rlib --extern b=/t/libb.rlib",
                Some("rl"),
            ),
            ("rustc --extern ratelimit_runtime=/t/libratelimit_runtime-1a2b.rmeta", None),
            (
                "rustc --extern rl=/t/libratelimit_runtime-1.rlib --extern ratelimit_runtime=/t/libratelimit_runtime-1.rlib",
                None,
            ),
            ("rustc --extern other=/t/libratelimit_runtime_x-1a2b.rmeta --extern proc_macro", None),
            ("rustc rl=/t/libratelimit_runtime-1a2b.rmeta --extern", None),
            ("rustc", None),
        ] {
            let found = find(command.split(' ').map(OsString::from));
            assert_eq!(found.as_deref(), name, "{command}");
        }
    }
}
