//! The scripts' calls and answers, for tests that run them by themselves.

use redis::Value;

use super::{
    joint::AskJointly,
    reply::read_replies,
    script::{Ask, PEEK, RELEASE, Tell, acquire},
};
use crate::{
    StoreError,
    store::{Config, Reply, Request, StateKeys},
};

/// A call of the script `acquire` or `peek` as the runtime makes it, for tests that append a time of
/// their own or run it by the thousand. `since_us` is since when the process has its configuration.
#[must_use]
pub fn script_call(
    name: &str,
    request: &Request<'_>,
    costs: &[u32],
    since_us: u64,
    by_name: bool,
) -> redis::Cmd {
    let script = if name == "peek" { &PEEK } else { acquire(&request.config) };
    Ask { script, request, costs }.since(since_us, by_name)
}

/// A call for several limiters, as [`script_call`]: with a time for each.
#[must_use]
pub fn script_joint_call(
    requests: &[Request<'_>],
    costs: &[&[u32]],
    since_us: impl Fn(&Request<'_>) -> u64,
    by_name: bool,
) -> redis::Cmd {
    AskJointly { requests, costs }.since(since_us, by_name)
}

/// What the answer to such a call says.
///
/// # Errors
///
/// As for the call itself.
pub fn script_joint_replies(
    value: &Value,
    requests: &[Request<'_>],
    costs: &[&[u32]],
) -> Result<Vec<Vec<Reply>>, StoreError> {
    AskJointly { requests, costs }.read(value)
}

/// A call that gives permits back, for tests that append a time of their own.
#[must_use]
pub fn script_release(keys: &StateKeys, permits: u32) -> redis::Cmd {
    // The time comes after as many arguments as the longest call has.
    let mut words = vec![permits.to_string()];
    words.resize(9, String::new());
    Tell { script: &RELEASE, keys, words }.by_text()
}

/// What the answer to such a call by a process with these numbers says.
///
/// # Errors
///
/// As for the call itself.
pub fn script_replies(
    name: &str,
    value: &Value,
    own: &Config,
    costs: &[u32],
) -> Result<Vec<Reply>, StoreError> {
    read_replies(value, costs, name != "peek", own)
}
