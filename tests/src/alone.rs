//! A test in a process of its own, for what belongs to the whole process: threads, the working directory.

use std::{
    env,
    process::Command,
    sync::{Mutex, PoisonError},
};

const ALONE: &str = "RATELIMIT_TEST_ALONE";

/// Runs the body of the test with this path, such as `engine::it_ends`, in a process that runs nothing else.
///
/// # Panics
///
/// Panics if the test fails there, or there is no such test.
pub fn alone(test: &str, body: impl FnOnce()) {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    if env::var_os(ALONE).is_some() {
        return body();
    }
    let program = env::current_exe().expect("the path of this program");
    let output = Command::new(program)
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(ALONE, "1")
        .output()
        .expect("this program runs again");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("1 passed"), "{said}");
}
