//! The memory of a million keys: `growth RESULTS STORE [--minutes N]`, for `cargo xtask bench growth`.
#![allow(clippy::print_stderr, clippy::print_stdout, reason = "a command line says what it does")]

use std::{env, path::Path, process::ExitCode, time::Duration};

use benches::growth::{LATER, measure};
use cap::Cap;
use mimalloc::MiMalloc;

/// Returns freed memory to the system, which glibc's keeps for later use. It is built without huge pages: of those, the
/// process kept up to 33 MB that it had freed. What the allocator keeps itself is no leak, so the bytes in use are
/// counted, too.
#[global_allocator]
static ALLOCATOR: Cap<MiMalloc> = Cap::new(MiMalloc, usize::MAX);

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let Some((results, store, minutes)) = read(&arguments) else {
        eprintln!("usage: cargo xtask bench growth [--minutes <number>]");
        return ExitCode::from(2);
    };
    let later = minutes.map_or(LATER, |minutes| Duration::from_secs(60 * minutes));
    let measured = measure(store == "redis", later, || ALLOCATOR.allocated()).await;
    println!("{}", measured.text());
    // The page shows the usual time.
    if minutes.is_none()
        && let Err(error) = measured.write(Path::new(results), &format!("growth_{store}"))
    {
        eprintln!("cannot write the results: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn read<'a>(arguments: &[&'a str]) -> Option<(&'a str, &'a str, Option<u64>)> {
    match *arguments {
        [results, store] => Some((results, store, None)),
        [results, store, "--minutes", minutes] => {
            Some((results, store, Some(minutes.parse().ok()?)))
        }
        _ => None,
    }
}
