use std::{env, fs::OpenOptions, io::Write, thread};

/// Fails the calling test, because it cannot run here: a test that passes has run.
///
/// If `RATELIMIT_SKIP_MISSING` is set, notes the reason instead; the test must then return immediately.
/// `cargo xtask test` sets it, and prints these notes at the end.
///
/// # Panics
///
/// Panics unless `RATELIMIT_SKIP_MISSING` is set, and always in CI (`CI=true`), where everything is
/// expected to be present.
pub fn could_not_run(reason: &str) {
    let test = thread::current().name().unwrap_or("a test").to_owned();
    assert!(
        env::var("CI").as_deref() != Ok("true"),
        "`{test}` could not run, which is a failure in CI: {reason}"
    );
    assert!(
        env::var_os("RATELIMIT_SKIP_MISSING").is_some(),
        "`{test}` could not run: {reason}; set RATELIMIT_SKIP_MISSING=1 to skip what cannot run here"
    );
    note(reason);
}

/// Notes that the calling test does not run here, which is never a failure: for tools that a machine
/// need not have.
///
/// # Panics
///
/// Panics if the note cannot be written.
pub fn note(reason: &str) {
    let test = thread::current().name().unwrap_or("a test").to_owned();
    eprintln!("`{test}` could not run: {reason}");
    let Some(notes) = env::var_os("RATELIMIT_TEST_NOTES") else {
        return;
    };
    // One write per line in append mode, so that lines of parallel tests do not mix.
    let line = format!("{test}: {}\n", reason.replace('\n', " "));
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(&notes)
        .and_then(|mut file| file.write_all(line.as_bytes()))
        .unwrap_or_else(|error| panic!("cannot write {}: {error}", notes.display()));
}
