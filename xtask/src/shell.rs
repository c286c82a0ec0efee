//! Runs other programs and prints their commands.

#[path = "../../tests/src/built.rs"]
mod built;

use std::{
    env,
    ffi::OsStr,
    fmt::Display,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    time::Duration,
};

use crate::{Failed, Outcome};

/// The root of the workspace; every program runs there.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a member of the workspace")
}

/// Returns cargo's target directory; a relative `CARGO_TARGET_DIR` is relative to the root, as for a
/// cargo that runs there.
pub(crate) fn target_dir() -> PathBuf {
    root().join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// Returns a command for the cargo that runs this program.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    built(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()), arguments)
}

/// Returns a command for rustup, which runs the cargo of another toolchain.
pub(crate) fn rustup(arguments: &[&str]) -> Command {
    built("rustup", arguments)
}

fn built(program: impl AsRef<OsStr>, arguments: &[&str]) -> Command {
    let mut command = built::cargo(program);
    command.args(arguments).current_dir(root());
    command
}

/// Prints a command, and runs it.
pub(crate) fn run(command: &mut Command) -> Outcome {
    say(&shown(command));
    let status = command.status();
    succeeded(command, status)
}

/// Prints a command, runs it, and returns its standard output.
pub(crate) fn read(command: &mut Command) -> Result<String, Failed> {
    say(&shown(command));
    let mut printed = Vec::new();
    let output = command.stderr(Stdio::inherit()).output();
    let status = output.map(|output| {
        printed = output.stdout;
        output.status
    });
    succeeded(command, status)?;
    Ok(String::from_utf8_lossy(&printed).into_owned())
}

/// Reads a file.
pub(crate) fn read_file(file: &Path) -> Result<String, Failed> {
    fs::read_to_string(file).map_err(|error| {
        eprintln!("cannot read {}: {error}", file.display());
        Failed
    })
}

/// Writes a file.
pub(crate) fn write_file(file: &Path, text: &str) -> Outcome {
    fs::write(file, text).map_err(|error| {
        eprintln!("cannot write {}: {error}", file.display());
        Failed
    })
}

/// Writes a script, and makes it executable.
pub(crate) fn write_script(file: &Path, text: &str) -> Outcome {
    write_file(file, text)?;
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).map_err(|error| {
        eprintln!("cannot make {} executable: {error}", file.display());
        Failed
    })
}

/// Returns whether the arguments are `--bless`, the only one that some commands take.
pub(crate) fn is_bless(arguments: &[String]) -> Result<bool, Failed> {
    match arguments {
        [] => Ok(false),
        [argument] if argument == "--bless" => Ok(true),
        [argument, ..] => {
            eprintln!("unknown argument `{argument}`; there is `--bless`");
            Err(Failed)
        }
    }
}

fn succeeded(command: &Command, status: Result<ExitStatus, impl Display>) -> Outcome {
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            eprintln!("`{}` failed: {status}", shown(command));
            Err(Failed)
        }
        Err(error) => {
            eprintln!("`{}` cannot be run: {error}", shown(command));
            Err(Failed)
        }
    }
}

/// Returns the output of a program, or `None` if it is missing or fails.
pub(crate) fn output(program: impl AsRef<OsStr>, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Returns the first file with this name in the directories of `PATH`.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
}

/// Prints a line of our own among the output of other programs.
pub(crate) fn say(line: &str) {
    eprintln!("\n==> {line}");
}

pub(crate) fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// Returns the command as typed in a shell, without scripts among the arguments, which would hide it.
fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    std::iter::once(program)
        .chain(command.get_args())
        .map(OsStr::to_string_lossy)
        .map(|word| if word.contains('\n') { "..".into() } else { word })
        .collect::<Vec<_>>()
        .join(" ")
}
