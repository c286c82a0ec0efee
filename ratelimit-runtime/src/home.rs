//! What each tokio runtime has of its own: everything a call depends on is its runtime's or the
//! engine's, never a stranger's.
//!
//! A runtime that ends takes its home along. One that is idle or blocked keeps it, and harms
//! its own callers only.

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

/// How long a runtime may take to run an empty task before it counts as ended.
const SIGN_OF_LIFE: Duration = Duration::from_millis(20);

/// A value for each runtime that calls, made when it is first used.
pub(crate) struct Homes<T> {
    engine: Arc<Engine>,
    all: Arc<All<T>>,
}

struct All<T> {
    homes: ArcSwap<Vec<Arc<Home<T>>>>,
    /// Held while the list is changed.
    changing: Mutex<()>,
}

/// The value of one runtime.
pub(crate) struct Home<T> {
    runtime: Handle,
    value: T,
    /// Ends the task that watches the runtime, when the home is dropped before it.
    _watched: oneshot::Sender<()>,
}

impl<T: Default + Send + Sync + 'static> Homes<T> {
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        let all = All { homes: ArcSwap::default(), changing: Mutex::new(()) };
        Self { engine, all: Arc::new(all) }
    }

    /// The home of the runtime that polls the caller; the engine's if there is none, or if its
    /// time is paused.
    pub(crate) fn here(&self) -> Arc<Home<T>> {
        self.of(&clock::runtime_here(&self.engine))
    }

    pub(crate) fn of_engine(&self) -> Arc<Home<T>> {
        self.of(&self.engine.runtime())
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// All homes there are now.
    pub(crate) fn all(&self) -> Arc<Vec<Arc<Home<T>>>> {
        self.all.homes.load_full()
    }

    fn of(&self, runtime: &Handle) -> Arc<Home<T>> {
        let id = runtime.id();
        match find(&self.all.homes.load(), id) {
            Some(home) => home,
            None => self.settle(runtime),
        }
    }

    #[cold]
    fn settle(&self, runtime: &Handle) -> Arc<Home<T>> {
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
        // In a runtime that has ended already it is dropped at once, and so is the home.
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

    /// Returns whether the runtime has ended, or is not driven: what failed in it then says
    /// nothing about the store.
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

/// Part of a task of each runtime, dropped when the runtime ends.
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
        // The last owner of a home may drop much, and not under the lock.
        drop(changing);
        drop(homes);
    }
}
