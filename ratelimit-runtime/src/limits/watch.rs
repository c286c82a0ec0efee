//! Reloads the limits file when it changes, or when an operator sends a signal.

use std::{
    fs,
    sync::Arc,
    time::{Duration, SystemTime},
};

#[cfg(all(unix, feature = "signal"))]
use tokio::signal::unix::{SignalKind, signal};

use super::{Limits, file, reload};
#[cfg(all(unix, feature = "signal"))]
use crate::{Problem, ProblemKind, SetupError};

/// Reloads if the file has changed. Ends with the limits and their limiters.
pub(super) fn start(limits: &Limits, every: Duration) {
    fn look(source: &file::Source) -> Option<(SystemTime, u64)> {
        let about = fs::metadata(source.path()?).ok()?;
        Some((about.modified().ok()?, about.len()))
    }
    let (source, shadow) = (limits.made.source.clone(), limits.made.shadow);
    let services = Arc::downgrade(&limits.services);
    let mut seen = look(&source);
    limits.services.engine.spawn_endless(async move {
        loop {
            tokio::time::sleep(every).await;
            let Some(services) = services.upgrade() else { return };
            let now = look(&source);
            if now != seen {
                seen = now;
                // An invalid file is reported by an event, and the previous limits stay active.
                let _ = reload(&services, &source, shadow);
            }
        }
    });
}

/// Reloads at every `SIGHUP`, from now on. Ends with the limits and their limiters.
#[cfg(all(unix, feature = "signal"))]
pub(super) fn on_hangup(limits: &Limits) -> Result<(), SetupError> {
    let (source, shadow) = (limits.made.source.clone(), limits.made.shadow);
    let services = Arc::downgrade(&limits.services);
    let runtime = limits.services.engine.runtime();
    // The engine's runtime, so that reloading continues after the caller's runtime has ended.
    let entered = runtime.enter();
    let hangup = signal(SignalKind::hangup());
    drop(entered);
    let mut hangup = hangup.map_err(|error| {
        let message = format!("cannot listen for SIGHUP: {error}; leave `reload_on_hangup` out");
        Problem::new(ProblemKind::File, message).caused_by(error)
    })?;
    limits.services.engine.spawn_endless(async move {
        while hangup.recv().await.is_some() {
            let Some(services) = services.upgrade() else { return };
            // An invalid file is reported by an event, and the previous limits stay active.
            let _ = reload(&services, &source, shadow);
        }
    });
    Ok(())
}
