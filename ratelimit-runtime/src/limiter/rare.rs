//! What a limiter needs only if it is counted in this process, is split, or has settings in code.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU32, AtomicU64},
};

use once_cell::sync::OnceCell;

use super::{looks::Looks, share::Share};
use crate::{Settings, store::Slot};

/// Made when the first part of it is needed: most limiters need none.
#[derive(Default)]
pub(super) struct Rare {
    /// Where it is counted, when each process has its own budget.
    pub(super) own: OnceCell<Arc<Slot>>,
    pub(super) looks: Looks,
    /// Which part of a limiter it is, when it is one.
    pub(super) share: Option<Share>,
    /// Counts the turns its own parts had.
    pub(super) turns: AtomicU32,
    /// The settings that a caller gave in code.
    pub(super) given: Mutex<Option<Settings>>,
    /// Until when the store knows that a caller was refused in this window.
    pub(super) refused_until_ms: AtomicU64,
    /// The process that announced the stored configuration, if it is gone, by its bits.
    pub(super) gone: AtomicU64,
}
