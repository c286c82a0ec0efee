//! Watches the limits file.

use std::{
    fs,
    sync::Arc,
    time::{Duration, SystemTime},
};

use super::{Limits, file, reload};

/// Reloads when the file looks different. Ends with the limits and their limiters.
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
                // A bad file is reported by an event, and the old limits stay.
                let _ = reload(&services, &source, shadow);
            }
        }
    });
}
