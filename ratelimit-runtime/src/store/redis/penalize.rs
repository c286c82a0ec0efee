//! Rejections that may block a limiter: the arguments and the reply of their script.

use ratelimit_spec::Penalty;
use redis::{Cmd, Value};

use super::{
    call::Call,
    line::Live,
    reply::{integer, unknown_reply},
    script::PENALIZE,
};
use crate::{
    StoreError,
    clock::whole_ms,
    store::{Refused, StateKeys},
};

/// A call of the script that records a rejection.
pub(super) struct Penalize<'a> {
    pub(super) keys: &'a StateKeys,
    pub(super) penalty: &'a Penalty,
    pub(super) per_ms: u64,
}

impl Penalize<'_> {
    pub(super) fn command(&self, by_name: bool) -> Cmd {
        let Self { keys, penalty, per_ms } = self;
        let mut command = PENALIZE.on_keys(&[&*keys.penalty()], by_name);
        command.arg(format!("{}/{}", penalty.after, (*per_ms).max(1)));
        command.arg(whole_ms(penalty.block)).arg(whole_ms(penalty.up_to));
        command
    }
}

impl Call for Penalize<'_> {
    fn keys(&self) -> &StateKeys {
        self.keys
    }

    fn command(&self, _: &Live, by_name: bool) -> Cmd {
        Self::command(self, by_name)
    }
}

/// Reads the script's reply.
pub(super) fn read_refused(value: &Value) -> Result<Refused, StoreError> {
    let read = |items: &[Value]| {
        let [blocked_for, began, window_ends_in] = items else { return None };
        Some(Refused {
            blocked_for_ms: integer(blocked_for)?,
            began: integer(began)? > 0,
            window_ends_in_ms: integer(window_ends_in)?,
        })
    };
    let Value::Array(items) = value else { return Err(unknown_reply(value)) };
    read(items).ok_or_else(|| unknown_reply(value))
}
