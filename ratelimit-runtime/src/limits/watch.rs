//! Reloads the limits file when it changes, or when an operator sends a signal.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use tokio::{task::spawn_blocking, time::sleep};

#[cfg(all(unix, feature = "signal"))]
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Limits, Origin, file, reload};
#[cfg(all(unix, feature = "signal"))]
use crate::{Problem, ProblemKind, SetupError, engine::Engine};
use crate::{limiter::Services, registry::Registry};

/// The time for which a changed file must stay as it is before it is loaded: some programs write it in steps.
const SETTLED: Duration = Duration::from_millis(100);

/// The text of the file, or why it cannot be read; nothing if there is no file. The time of the last change and the
/// length are not sufficient: tools that copy files set the time, too.
#[derive(PartialEq, Eq)]
pub(super) struct Seen(Option<Result<String, String>>);

impl Seen {
    pub(super) fn of(source: &file::Source) -> Self {
        let read = |path: PathBuf| file::read(&path).map_err(|error| error.to_string());
        Self(source.path().map(read))
    }

    /// Reads the file in another thread, since a file system may not reply.
    async fn later(source: &file::Source) -> Option<Self> {
        let source = source.clone();
        spawn_blocking(move || Self::of(&source)).await.ok()
    }
}

/// Reloads limits without keeping them alive.
struct Again {
    services: Weak<Services>,
    registry: Weak<Registry>,
    origin: Arc<Origin>,
}

impl Again {
    fn of(limits: &Limits) -> Arc<Self> {
        let (made, services) = (&limits.made, Arc::downgrade(limits.services()));
        let (registry, origin) = (Arc::downgrade(&made.registry), Arc::clone(&made.origin));
        Arc::new(Self { services, registry, origin })
    }

    /// Returns `None` once the limits and their limiters have ended.
    async fn reload(self: &Arc<Self>) -> Option<()> {
        let this = Arc::clone(self);
        // In another thread, since a file system may not reply, and a large file takes its time.
        let reloaded = spawn_blocking(move || {
            let (services, registry) = (this.services.upgrade()?, this.registry.upgrade());
            // An invalid file is reported by an event, and the previous limits stay active.
            let _ = reload(&services, registry.as_deref(), &this.origin);
            Some(())
        });
        reloaded.await.ok()?
    }
}

impl Origin {
    /// Reads a watched file, for comparisons from now on.
    pub(super) fn look_again(&self) {
        if let Some(seen) = self.seen.get() {
            *seen.lock().unwrap_or_else(PoisonError::into_inner) = Seen::of(&self.source);
        }
    }

    fn has_seen(&self, now: &Seen) -> bool {
        let seen = self.seen.get();
        seen.is_some_and(|seen| *seen.lock().unwrap_or_else(PoisonError::into_inner) == *now)
    }
}

/// Reloads if the file differs from what was `seen` before it was loaded last, here or by the program. Ends with the
/// limits and their limiters.
pub(super) fn start(limits: &Limits, every: Duration, seen: Seen) {
    let (again, origin) = (Again::of(limits), Arc::clone(&limits.made.origin));
    let _ = origin.seen.set(Mutex::new(seen));
    limits.services().engine.spawn_endless(async move {
        loop {
            sleep(every).await;
            let Some(mut now) = Seen::later(&origin.source).await else { return };
            while !origin.has_seen(&now) {
                sleep(SETTLED).await;
                let Some(next) = Seen::later(&origin.source).await else { return };
                // It may have been loaded meanwhile.
                let is_due = next == now && !origin.has_seen(&now);
                if is_due && again.reload().await.is_none() {
                    return;
                }
                now = next;
            }
        }
    });
}

/// Receives every `SIGHUP` from now on: before the file is loaded, so that none of them ends the process or is missed.
#[cfg(all(unix, feature = "signal"))]
pub(super) fn hangups(engine: &Engine) -> Result<Signal, SetupError> {
    let runtime = engine.runtime();
    // The engine's runtime, so that reloading continues after the caller's runtime has ended.
    let _entered = runtime.enter();
    signal(SignalKind::hangup()).map_err(|error| {
        let message = format!("cannot listen for SIGHUP: {error}; remove `reload_on_hangup`");
        Problem::new(ProblemKind::File, message).caused_by(error).alone()
    })
}

/// Reloads at every `SIGHUP`. Ends with the limits and their limiters.
#[cfg(all(unix, feature = "signal"))]
pub(super) fn on_hangup(limits: &Limits, mut hangups: Signal) {
    let again = Again::of(limits);
    limits.services().engine.spawn_endless(async move {
        while hangups.recv().await.is_some() && again.reload().await.is_some() {}
    });
}
