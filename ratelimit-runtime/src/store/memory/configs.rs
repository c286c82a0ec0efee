//! Announced configurations, shared because most limiters have one of a few.

use std::sync::{Arc, Mutex, PoisonError};

use crate::algorithm::reconcile::Shared;

/// The most configurations that are kept.
const MOST: usize = 64;

/// The most recently announced configurations.
#[derive(Default)]
pub(super) struct Configs(Mutex<Vec<Arc<Shared>>>);

impl Configs {
    /// Returns the kept configuration that equals this one, or keeps this one.
    pub(super) fn shared(&self, config: Arc<Shared>) -> Arc<Shared> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match known.iter().position(|other| *other == config) {
            Some(0) => {}
            Some(at) => known[..=at].rotate_right(1),
            None => {
                known.truncate(MOST - 1);
                known.insert(0, config);
            }
        }
        Arc::clone(&known[0])
    }
}
