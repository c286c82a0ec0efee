//! Moving slots, in the steps an operator takes, so that a test can look between them.

use super::RedisCluster;

impl RedisCluster {
    /// Opens a slot for migration to another master. From here on the old owner answers `ASK` for
    /// keys it does not have, and `TRYAGAIN` for several keys of which it has only some (`ASK` for
    /// those too before version 7).
    ///
    /// # Panics
    ///
    /// Panics if a node returns an error, as it does when `to` owns the slot already.
    pub fn start_migration(&self, slot: u16, to: usize) {
        let from = self.master_of(slot);
        let slot = slot.to_string();
        self.node(to).cli::<()>(&["cluster", "setslot", &slot, "importing", &self.ids[from]]);
        self.node(from).cli::<()>(&["cluster", "setslot", &slot, "migrating", &self.ids[to]]);
    }

    /// Moves one key of an opened slot.
    ///
    /// # Panics
    ///
    /// Panics if a node returns an error.
    pub fn migrate_key(&self, key: &str, to: usize) {
        let from = self.master_of_key(key);
        let port = self.node(to).port().to_string();
        self.node(from).cli::<()>(&["migrate", "127.0.0.1", &port, key, "0", "5000"]);
    }

    /// Gives an opened slot to its new owner; all its keys must have been moved.
    ///
    /// # Panics
    ///
    /// Panics if a node returns an error.
    pub fn finish_migration(&self, slot: u16, to: usize) {
        let slot = slot.to_string();
        // The new owner first: the other way round, a failure in between leaves the slot without
        // one.
        let masters = (0..Self::MASTERS).filter(|index| *index != to);
        for index in [to].into_iter().chain(masters) {
            self.node(index).cli::<()>(&["cluster", "setslot", &slot, "node", &self.ids[to]]);
        }
    }

    /// Moves a slot with all its keys.
    ///
    /// # Panics
    ///
    /// Panics if a node returns an error.
    pub fn move_slot(&self, slot: u16, to: usize) {
        self.start_migration(slot, to);
        self.move_rest(slot, to);
    }

    /// Moves the keys of an opened slot, and gives it to its new owner.
    ///
    /// # Panics
    ///
    /// Panics if a node returns an error.
    pub fn move_rest(&self, slot: u16, to: usize) {
        let from = self.master_of(slot);
        loop {
            let slot = slot.to_string();
            let keys: Vec<String> =
                self.node(from).cli(&["cluster", "getkeysinslot", &slot, "100"]);
            if keys.is_empty() {
                break;
            }
            for key in keys {
                self.migrate_key(&key, to);
            }
        }
        self.finish_migration(slot, to);
    }
}
