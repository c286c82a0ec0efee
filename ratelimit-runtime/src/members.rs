//! The processes that share a store, as this one knows them.
//!
//! Each sends a heartbeat every ten seconds. From them comes whether a process still lives that
//! announced a configuration, however seldom it uses the key, and how many share a quota.

use std::{
    collections::hash_map::DefaultHasher,
    hash::{BuildHasher, Hash, Hasher, RandomState},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::{annotation, clock, store::MemberId};

/// A process that sent none for as long is gone.
pub(crate) const LIVES: Duration = Duration::from_secs(30);

/// What this process knows of the others.
#[derive(Debug)]
pub(crate) struct Members {
    process: u32,
    pub(crate) since: Instant,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// Of all members when they were last read, this one among them.
    members: Vec<MemberId>,
    /// When they were.
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

    /// The number of this process.
    pub(crate) fn process(&self) -> u32 {
        self.process
    }

    /// Returns whether the announcer lives, or another process with its limits, if they differ from our
    /// own. Until the members have been read it counts as alive; if the ACL forbids reading them, it
    /// never does, and time alone decides.
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

    /// How many processes share the store, as of when they were last read.
    pub(crate) fn count(&self) -> Option<u32> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        u32::try_from(known.members.len()).ok().filter(|count| *count > 0)
    }

    pub(crate) fn learn(&self, members: Vec<MemberId>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Known { members, at: Some(clock::instant()), forbidden: false };
    }

    /// Notes that the store's user may not read them; returns whether this is news.
    pub(crate) fn forbid(&self) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        !std::mem::replace(&mut known.forbidden, true)
    }
}

/// Equal for two programs with the same annotations and the same limits file.
pub(crate) fn fingerprint(file: Option<&ratelimit_spec::LimitsFile>) -> u32 {
    let mut annotations: Vec<_> =
        annotation::all().into_iter().map(|site| format!("{site:?}")).collect();
    annotations.sort_unstable();
    let mut hasher = DefaultHasher::new();
    annotations.hash(&mut hasher);
    if let Some(file) = file {
        let said = format!("{:?} {:?} {:?}", file.default, file.limiters, file.prefixes);
        (file.revision, said).hash(&mut hasher);
    }
    let hash = hasher.finish();
    u32::try_from(hash >> 32).unwrap_or_default()
}
