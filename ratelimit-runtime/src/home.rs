//! State per tokio runtime: everything a call depends on belongs to its own runtime or to the
//! engine, never to another runtime, unless the server refuses them a connection.
//!
//! When a runtime ends, its home is dropped. An idle or blocked runtime keeps its home, and delays
//! only its own callers.

use std::{
    ops::Deref,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use arc_swap::ArcSwap;
use tokio::{
    runtime::{Handle, Id},
    sync::oneshot,
};

use crate::{clock, engine::Engine};

/// The time in which a runtime must run an empty task; otherwise it counts as ended.
const SIGN_OF_LIFE: Duration = Duration::from_millis(20);

/// A value per calling runtime, created on first use.
pub(crate) struct Homes<T> {
    engine: Arc<Engine>,
    all: Arc<All<T>>,
}

struct All<T> {
    homes: ArcSwap<Vec<Arc<Home<T>>>>,
    /// Held while the list changes.
    changing: Mutex<()>,
}

/// The value of one runtime.
pub(crate) struct Home<T> {
    runtime: Handle,
    value: T,
    /// Ends the task that watches the runtime, if the home is dropped first.
    _watched: oneshot::Sender<()>,
}

impl<T: Default + Send + Sync + 'static> Homes<T> {
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        let all = All { homes: ArcSwap::default(), changing: Mutex::new(()) };
        Self { engine, all: Arc::new(all) }
    }

    /// Returns the home of the runtime that polls the caller, or the engine's if there is none or
    /// its time is paused.
    pub(crate) fn here(&self) -> Arc<Home<T>> {
        self.of(&clock::runtime_here(&self.engine))
    }

    pub(crate) fn of_engine(&self) -> Arc<Home<T>> {
        self.of(&self.engine.runtime())
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns all current homes.
    pub(crate) fn all(&self) -> Arc<Vec<Arc<Home<T>>>> {
        self.all.homes.load_full()
    }

    fn of(&self, runtime: &Handle) -> Arc<Home<T>> {
        let id = runtime.id();
        match find(&self.all.homes.load(), id) {
            Some(home) => home,
            None => self.create(runtime),
        }
    }

    #[cold]
    fn create(&self, runtime: &Handle) -> Arc<Home<T>> {
        let (watched, dropped) = oneshot::channel();
        let home = Home { runtime: runtime.clone(), value: T::default(), _watched: watched };
        let home = Arc::new(home);
        let changing = self.all.lock();
        let homes = self.all.homes.load();
        if let Some(home) = find(&homes, runtime.id()) {
            return home;
        }
        let with_this = homes.iter().chain([&home]).map(Arc::clone).collect();
        self.all.homes.store(Arc::new(with_this));
        drop(changing);
        let forget = Forget { all: Arc::downgrade(&self.all), id: runtime.id() };
        // If the runtime has ended already, the task is dropped immediately, and the home with it.
        runtime.spawn(async move {
            let _forget = forget;
            let _ = dropped.await;
        });
        home
    }
}

fn find<T>(homes: &[Arc<Home<T>>], id: Id) -> Option<Arc<Home<T>>> {
    homes.iter().find(|home| home.id() == id).map(Arc::clone)
}

impl<T> Home<T> {
    pub(crate) fn id(&self) -> Id {
        self.runtime.id()
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Returns whether the runtime has ended, or is not driven: a failure in it is then no evidence
    /// about the store.
    pub(crate) async fn is_over(&self, engine: &Engine) -> bool {
        let alive = self.runtime.spawn(async {});
        !matches!(clock::timeout(engine, SIGN_OF_LIFE, alive).await, Ok(Ok(())))
    }
}

impl<T> Deref for Home<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> All<T> {
    fn lock(&self) -> std::sync::MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Owned by a task of each runtime, and dropped when the runtime ends.
struct Forget<T> {
    all: Weak<All<T>>,
    id: Id,
}

impl<T> Drop for Forget<T> {
    fn drop(&mut self) {
        let Some(all) = self.all.upgrade() else { return };
        let changing = all.lock();
        let homes = all.homes.load_full();
        let others = homes.iter().filter(|home| home.id() != self.id).map(Arc::clone).collect();
        all.homes.store(Arc::new(others));
        // The last owner of a home may drop a lot, which must not happen under the lock.
        drop(changing);
        drop(homes);
    }
}
