//! The key of a layer, which is listed for as long as the layer exists.

use std::{
    collections::BTreeMap,
    ops::Deref,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ratelimit_spec::Settings;

/// The keys of layers.
static LAYERS: Mutex<BTreeMap<Arc<str>, Listed>> = Mutex::new(BTreeMap::new());

/// The layers with one key.
#[derive(Default)]
pub(super) struct Listed {
    layers: usize,
    /// Those of the first layer that has any.
    pub(super) settings: Option<Settings>,
}

/// The key of a layer. While it exists, the limits file may have an entry for it.
#[derive(Debug)]
pub(crate) struct LayerKey(Arc<str>);

impl LayerKey {
    /// Adds a key to the list.
    pub(crate) fn new(key: &str, settings: Option<&Settings>) -> Self {
        let key = Arc::<str>::from(key);
        let mut all = Self::all();
        let listed = all.entry(Arc::clone(&key)).or_default();
        listed.layers += 1;
        listed.settings = listed.settings.take().or_else(|| settings.cloned());
        Self(key)
    }

    /// Returns the list.
    pub(super) fn all() -> MutexGuard<'static, BTreeMap<Arc<str>, Listed>> {
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
        if let Some(listed) = all.get_mut(&self.0) {
            listed.layers -= 1;
            if listed.layers == 0 {
                all.remove(&self.0);
            }
        }
    }
}
