//! A call that is resent if the server reports that it was not executed.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redis::{Arg, Cmd, RedisResult, Value};

use super::{
    call::Call,
    fault::{Fault, NotDone, classify, concerns_slot, failed, is_of_other_type, store_error},
    line::{Line, Live},
    link::Link,
};
use crate::{StoreError, StoreErrorKind, clock, home::Home, store::StateKeys};

/// Pauses between attempts that the server rejected with "not yet".
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LAST_PAUSE: Duration = Duration::from_millis(20);

/// The attempts of one call to the store.
pub(super) struct Attempt<'a> {
    link: &'a Arc<Link>,
    pub(super) line: Arc<Home<Line>>,
    progress: Mutex<Progress>,
}

/// The progress of an attempt, for when the deadline interrupts it.
#[derive(Default)]
pub(super) struct Progress {
    /// The connection that was used last.
    pub(super) used: Option<Arc<Live>>,
    /// The node to which the last attempt was redirected, if it was.
    pub(super) redirected: Option<Arc<str>>,
    /// Whether a reply is awaited.
    pub(super) is_sent: bool,
    /// Why the server has not executed it yet.
    pub(super) excuse: Option<StoreError>,
}

impl<'a> Attempt<'a> {
    pub(super) fn new(link: &'a Arc<Link>) -> Self {
        Self { link, line: link.line(), progress: Mutex::default() }
    }

    pub(super) fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether an error concerns all calls: a wrong password does; a key of another type, or a slot
    /// that moves, does not.
    pub(super) fn concerns_all(&self, error: &StoreError) -> bool {
        let is_rejected = error.kind() == StoreErrorKind::Misconfigured;
        !concerns_slot(error) && (!is_rejected || !self.was_connected())
    }

    /// Returns whether there was a connection to send it on.
    pub(super) fn was_connected(&self) -> bool {
        self.progress().used.is_some()
    }

    /// Makes calls like this one fail at once from now on, because of this error. Returns false if that was already so.
    pub(super) fn close(&self, keys: &StateKeys, error: StoreError) -> bool {
        let redirected = self.progress().redirected.clone();
        self.link.close(keys, error, redirected.as_ref())
    }

    pub(super) async fn call(&self, call: &impl Call) -> Result<Value, StoreError> {
        let (mut by_name, mut pause, mut home) = (true, FIRST_PAUSE, None);
        // Why the call is sent with its hash alone, if it is.
        let mut hash_alone = None;
        loop {
            let moved = home.take();
            self.progress().redirected = moved.clone();
            let live = match &moved {
                Some(server) => self.link.connected(&self.line, server).await?,
                None => self.link.live(&self.line, call.keys()).await?,
            };
            let command = call.command(&live, by_name && moved.is_none());
            let command = if hash_alone.is_some() { on_hash_alone(&command) } else { command };
            self.progress().used = Some(Arc::clone(&live));
            self.progress().is_sent = true;
            let sent = clock::instant();
            let reply = match &moved {
                Some(_) => live.query_moving(&command).await,
                None => live.query(&command).await,
            };
            self.progress().is_sent = false;
            if let Some(excuse) = hash_alone.take_if(|_| needs_other_keys(&reply)) {
                self.pause(&mut pause, excuse).await;
                continue;
            }
            let error = match reply {
                Ok(value) => {
                    live.answered();
                    if let Some(now_ms) = call.time_in(&value) {
                        live.hear_time(now_ms, sent);
                    }
                    return Ok(value);
                }
                Err(error) => error,
            };
            match classify(&error) {
                Fault::NotDone(NotDone::NoScript) => by_name = false,
                Fault::NotDone(NotDone::Moving(excuse)) => {
                    home = self.link.home_of_slot(&self.line, &live, &error).await;
                    // Nodes that disagree redirect a call to each other.
                    if moved.is_some() || home.is_none() {
                        self.pause(&mut pause, excuse).await;
                    }
                }
                Fault::NotDone(NotDone::ReadOnly(error)) => {
                    self.link.discard_former(&live);
                    self.pause(&mut pause, error).await;
                }
                Fault::NotDone(NotDone::NotYet(error)) => {
                    // While a slot moves, no node has all the keys, but one may have all that exist.
                    let was_whole = hash_alone.is_none();
                    hash_alone = (was_whole && concerns_slot(&error) && call.may_need_hash_alone())
                        .then(|| error.clone());
                    self.pause(&mut pause, error).await;
                }
                Fault::Permanent(error) => return Err(error),
                Fault::Transient(store_error) => {
                    let dropped = error.is_connection_dropped();
                    if dropped {
                        live.discard();
                    }
                    return Err(store_error.in_doubt(dropped));
                }
            }
        }
    }

    async fn pause(&self, pause: &mut Duration, excuse: StoreError) {
        self.progress().excuse = Some(excuse);
        clock::sleep(self.link.engine(), *pause).await;
        *pause = (*pause * 2).min(LAST_PAUSE);
    }
}

/// Names the hash in place of each of a limiter's keys, so that a node that has the hash executes the call. A
/// script that needs another key then finds one of another type, and does nothing.
fn on_hash_alone(command: &Cmd) -> Cmd {
    // The name of the script and the number of keys come first.
    const HASH: usize = 3;
    let texts = command.args_iter().filter_map(|arg| match arg {
        Arg::Simple(text) => Some(text),
        _ => None,
    });
    let texts: Vec<&[u8]> = texts.collect();
    let mut alone = Cmd::new();
    for (n, text) in texts.iter().enumerate() {
        alone.arg(if (HASH..HASH + 3).contains(&n) { texts[HASH] } else { text });
    }
    alone
}

/// Returns whether a script found the hash where it needed another key.
fn needs_other_keys(reply: &RedisResult<Value>) -> bool {
    match reply {
        Ok(Value::Array(replies)) => {
            let error = replies.first().and_then(failed);
            error.is_some_and(|error| is_of_other_type(&error))
        }
        Ok(_) => false,
        Err(error) => is_of_other_type(&store_error(error)),
    }
}
