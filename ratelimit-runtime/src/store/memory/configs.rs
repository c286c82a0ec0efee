//! Stored configurations, shared because most limiters have one of a few.

use std::sync::{Arc, Mutex, PoisonError};

use super::Config;

/// The most configurations that are kept.
const MOST: usize = 16;

/// The most recently stored configurations.
#[derive(Default)]
pub(super) struct Configs(Mutex<Vec<Arc<Config>>>);

impl Configs {
    /// Returns the kept configuration that equals this one, or keeps this one.
    pub(super) fn shared(&self, config: Arc<Config>) -> Arc<Config> {
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
