//! A call that is resent if the server reports that it was not executed.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redis::Value;

use super::{
    call::Call,
    fault::{Fault, NotDone, classify},
    line::{Line, Live},
    link::Link,
};
use crate::{StoreError, clock, home::Home};

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

    /// Returns why the server has not executed it yet, for a caller that stops waiting.
    pub(super) fn excuse(&self) -> Option<StoreError> {
        self.progress().excuse.take()
    }

    pub(super) async fn call(&self, call: &impl Call) -> Result<Value, StoreError> {
        let (mut by_name, mut pause, mut home) = (true, FIRST_PAUSE, None);
        loop {
            let moved = home.take();
            let live = match &moved {
                Some(server) => self.link.connected(&self.line, server).await?,
                None => self.link.live(&self.line, call.keys()).await?,
            };
            let command = call.command(&live, by_name && moved.is_none());
            self.progress().used = Some(Arc::clone(&live));
            self.progress().is_sent = true;
            let reply = match &moved {
                Some(_) => live.query_moving(&command).await,
                None => live.query(&command).await,
            };
            self.progress().is_sent = false;
            let error = match reply {
                Ok(value) => {
                    live.answered();
                    return Ok(value);
                }
                Err(error) => error,
            };
            match classify(&error) {
                Fault::NotDone(NotDone::NoScript) => by_name = false,
                Fault::NotDone(NotDone::Moving(excuse)) => {
                    home = self.link.home_of_slot(&self.line, &live, &error);
                    // Nodes that disagree redirect a call to each other.
                    if moved.is_some() || home.is_none() {
                        self.pause(&mut pause, excuse).await;
                    }
                }
                Fault::NotDone(NotDone::ReadOnly(error)) => {
                    live.discard();
                    self.pause(&mut pause, error).await;
                }
                Fault::NotDone(NotDone::NotYet(error)) => self.pause(&mut pause, error).await,
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
