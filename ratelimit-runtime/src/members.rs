//! The processes that share a store, as known to this one.
//!
//! Each process sends a heartbeat every ten seconds. Heartbeats show whether the process that announced
//! a configuration is alive, even if it rarely uses the key, and how many processes share a quota.

use std::{
    collections::hash_map::DefaultHasher,
    hash::{BuildHasher, Hash, Hasher, RandomState},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::{annotation, clock, store::MemberId};

/// The time without a heartbeat after which a process counts as gone.
pub(crate) const LIVES: Duration = Duration::from_secs(30);

/// The state that this process keeps of the other processes.
#[derive(Debug)]
pub(crate) struct Members {
    process: u32,
    pub(crate) since: Instant,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// All members at the last reading, including this one.
    members: Vec<MemberId>,
    /// The time of the last reading.
    at: Option<Instant>,
    /// Whether the store's user may not read them.
    forbidden: bool,
}

impl Members {
    pub(crate) fn new() -> Self {
        let random = RandomState::new().hash_one(std::process::id());
        let process = u32::try_from(random & u64::from(u32::MAX)).unwrap_or_default();
        Self { process, since: clock::instant(), known: Mutex::default() }
    }

    /// Returns the number of this process.
    pub(crate) fn process(&self) -> u32 {
        self.process
    }

    /// Returns whether the announcer is alive, or another process with its limits, if they differ
    /// from our own. The announcer counts as alive until the members have been read; if the ACL
    /// forbids reading them, it never does, and only time decides.
    pub(crate) fn lives(&self, announcer: MemberId, own: MemberId) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = known.at.is_some_and(|at| clock::instant().duration_since(at) < LIVES);
        if known.forbidden {
            return false;
        }
        !fresh
            || known.members.iter().any(|member| {
                let alike =
                    announcer.limits() != own.limits() && member.limits() == announcer.limits();
                alike || member.process() == announcer.process()
            })
    }

    /// Returns how many processes share the store, as of the last reading.
    pub(crate) fn count(&self) -> Option<u32> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        u32::try_from(known.members.len()).ok().filter(|count| *count > 0)
    }

    /// Records the processes that were alive before a heartbeat of this one. If it was not among them, the store may have
    /// lost its data, and the others since their last heartbeats: those read before still count.
    pub(crate) fn learn(&self, own: MemberId, mut members: Vec<MemberId>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let lists = |members: &[MemberId], process| {
            members.iter().any(|member| member.process() == process)
        };
        if !lists(&members, own.process()) {
            let lost = known.members.iter().filter(|one| !lists(&members, one.process()));
            members.extend(lost.copied().collect::<Vec<_>>());
        }
        members.retain(|member| member.process() != own.process());
        members.push(own);
        *known = Known { members, at: Some(clock::instant()), forbidden: false };
    }

    /// Records that the store's user may not read them; returns whether that is new.
    pub(crate) fn forbid(&self) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        !std::mem::replace(&mut known.forbidden, true)
    }
}

/// Returns a value that is equal for two programs with the same annotations and the same limits file.
pub(crate) fn fingerprint(file: Option<&ratelimit_spec::LimitsFile>) -> u32 {
    let mut annotations: Vec<_> =
        annotation::all().into_iter().map(|site| format!("{site:?}")).collect();
    annotations.sort_unstable();
    let mut hasher = DefaultHasher::new();
    annotations.hash(&mut hasher);
    if let Some(file) = file {
        let settings = format!("{:?} {:?} {:?}", file.default, file.limiters, file.prefixes);
        (file.revision, settings).hash(&mut hasher);
    }
    let hash = hasher.finish();
    u32::try_from(hash >> 32).unwrap_or_default()
}
