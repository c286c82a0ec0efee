//! The key of a layer, which is listed for as long as the layer exists.

use std::{
    collections::BTreeMap,
    ops::Deref,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The keys of layers, and the number of layers with each.
static LAYERS: Mutex<BTreeMap<Arc<str>, usize>> = Mutex::new(BTreeMap::new());

/// The key of a layer. While it exists, the limits file may have an entry for it.
#[derive(Debug)]
pub(crate) struct LayerKey(Arc<str>);

impl LayerKey {
    /// Adds a key to the list.
    pub(crate) fn new(key: &str) -> Self {
        let key = Arc::<str>::from(key);
        *Self::all().entry(Arc::clone(&key)).or_default() += 1;
        Self(key)
    }

    /// Returns the list.
    pub(super) fn all() -> MutexGuard<'static, BTreeMap<Arc<str>, usize>> {
        LAYERS.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Deref for LayerKey {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Drop for LayerKey {
    fn drop(&mut self) {
        let mut all = Self::all();
        if let Some(layers) = all.get_mut(&self.0) {
            *layers -= 1;
            if *layers == 0 {
                all.remove(&self.0);
            }
        }
    }
}
