//! The scripts' calls and answers, for tests that run them by themselves.

use redis::Value;

use super::{
    joint::AskJointly,
    reply::read_replies,
    script::{Ask, PEEK, RELEASE, SET_RATE, Tell, acquire},
    write_words,
};
use crate::{
    StoreError,
    store::{Config, KeepState, Reply, Request, StateKeys, WriteWhen},
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
pub fn script_release(keys: &StateKeys, permits: u32, by_name: bool) -> redis::Cmd {
    Tell { script: &RELEASE, keys, words: vec![permits.to_string()] }.with_time(by_name)
}

/// A call that writes a configuration on purpose, for tests that append a time of their own.
#[must_use]
pub fn script_write(
    keys: &StateKeys,
    config: Config,
    when: WriteWhen,
    state: KeepState,
    by_name: bool,
) -> redis::Cmd {
    let words = write_words(config, when, state);
    Tell { script: &SET_RATE, keys, words }.with_time(by_name)
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
