//! A limits file that changes while a program runs.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU32, Ordering},
};

/// A limits file that can be rewritten; removed when dropped.
#[derive(Debug)]
pub struct LimitsFile(PathBuf);

impl LimitsFile {
    /// Writes a new file.
    ///
    /// # Panics
    ///
    /// Panics if it cannot be written.
    pub fn new(yaml: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let file = Self(env::temp_dir().join(format!("ratelimit-{}-{number}.yaml", process::id())));
        file.write(yaml);
        file
    }

    /// Replaces its text.
    ///
    /// # Panics
    ///
    /// As for [`new`](Self::new).
    pub fn write(&self, yaml: &str) {
        fs::write(&self.0, yaml).expect("the temporary directory can be written");
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for LimitsFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
