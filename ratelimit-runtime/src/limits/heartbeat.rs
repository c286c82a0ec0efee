//! Tells the other processes that share a store that this one lives.

use std::{sync::Arc, time::Duration};

use super::Limits;
use crate::{
    StoreErrorKind, clock, events::Event, limiter::Services, members::LIVES, store::Heartbeat,
};

/// How often a process sends a heartbeat.
const EVERY: Duration = Duration::from_secs(10);

/// Sends heartbeats for as long as there are limits.
pub(super) fn start(limits: &Limits) {
    let weak = Arc::downgrade(&limits.services);
    limits.services.engine.spawn(async move {
        let (program, host) = (program(), host());
        loop {
            tokio::time::sleep(EVERY).await;
            let Some(services) = weak.upgrade() else { return };
            beat(&services, &program, &host).await;
        }
    });
}

async fn beat(limits: &Services, program: &str, host: &str) {
    let members = &limits.members;
    let Some(id) = limits.current().member() else { return };
    let heartbeat = Heartbeat {
        key_prefix: &limits.key_prefix,
        id,
        program,
        host,
        since: members.since,
        lives_ms: clock::whole_ms(LIVES),
    };
    match limits.store.heartbeat(&heartbeat).await {
        Ok(all) => members.learn(all),
        Err(error) if error.kind() == StoreErrorKind::Misconfigured => {
            if members.forbid() {
                limits.events.emit(&Event::MembersUnavailable { error });
            }
        }
        // What was read before stands for a while.
        Err(_) => {}
    }
}

fn program() -> String {
    let path = std::env::current_exe().ok();
    let name = path.as_deref().and_then(|path| path.file_name());
    name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn host() -> String {
    gethostname::gethostname().to_string_lossy().into_owned()
}
