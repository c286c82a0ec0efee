//! State that a limiter needs only if it is counted in this process, is split, or has settings in code.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU32, AtomicU64},
};

use once_cell::sync::OnceCell;

use super::{looks::Looks, share::Share};
use crate::{Settings, store::Slot};

/// Created when the first field is needed: most limiters need none.
#[derive(Default)]
pub(super) struct Rare {
    /// The cell that counts it, if each process has its own budget.
    pub(super) own: OnceCell<Arc<Slot>>,
    pub(super) looks: Looks,
    /// The name as code gives it, if it is stored as another one.
    pub(super) given_name: Option<Box<str>>,
    /// Which shard of a limiter this is, if it is one.
    pub(super) share: Option<Share>,
    /// Rotates over the limiter's own shards.
    pub(super) turns: AtomicU32,
    /// The settings that a caller set in code.
    pub(super) given: Mutex<Option<Settings>>,
    /// Until when the store knows of a rejection in this window.
    pub(super) refused_until_ms: AtomicU64,
    /// Until when a penalty blocks the key, as of the store's last reply.
    pub(super) blocked_until_ms: AtomicU64,
    /// When the store is asked again about a cost above the known capacity.
    pub(super) may_have_grown_ms: AtomicU64,
    /// The process that announced the stored configuration, if it is gone, encoded as bits.
    pub(super) gone: AtomicU64,
}
