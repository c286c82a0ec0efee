//! What all limiters of a set of limits share.

use std::{
    any::Any,
    fmt,
    future::Future,
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Waker},
    time::Duration,
};

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::{
    sync::{Notify, oneshot},
    time::Instant,
};

use super::{core::Core, crowd::Crowd, lanes::Lanes, local::Local, rules::Rules};
use crate::{
    Clock, SetupError, StoreError, clock,
    engine::Engine,
    events::{Events, Spans},
    home::Homes,
    members::Members,
    settings::Current,
    store::{AnyStore, MemoryStore, StateKeys},
};

/// The stores, the clock, the engine and the settings that limiters use.
pub(crate) struct Services {
    /// Itself, as the rules of its limiters keep it.
    pub(crate) this: Weak<dyn Any + Send + Sync>,
    pub(crate) key_prefix: String,
    pub(crate) store: AnyStore,
    /// The deadline of a decision.
    pub(crate) deadline: Duration,
    /// Counts `per_client` limiters.
    pub(crate) per_client: MemoryStore,
    /// Counts while the store is unavailable.
    pub(crate) local: Local,
    pub(crate) clock: Clock,
    /// Runs work that no caller awaits.
    pub(crate) engine: Arc<Engine>,
    /// Starts the work that many limiters need.
    pub(crate) crowd: Crowd,
    /// The calls to the store in flight, by runtime.
    pub(crate) lanes: Homes<Lanes>,
    pub(crate) events: Events,
    pub(crate) spans: Spans,
    /// Why the limits could not be read, if none were installed.
    pub(crate) broken: Option<SetupError>,
    /// What the builder set, before the limits file.
    pub(crate) revision: Option<u64>,
    pub(crate) instances: Option<u32>,
    /// The processes that share the store.
    pub(crate) members: Members,
    pub(crate) limits: Reading,
    /// The rules that limiters share.
    pub(crate) rules: Rules,
}

/// A generation without a reading of the limits file: none follows it, and every call is rejected.
pub(super) const ENDED: u64 = u64::MAX;

/// The latest reading of the limits file.
pub(crate) struct Reading {
    generation: AtomicU64,
    /// Wakes waiting calls when the limits are read again.
    renewed: Notify,
    current: ArcSwap<Current>,
    /// Allows one reload at a time.
    reloading: Mutex<()>,
    /// Why the last reload failed, if it did.
    failure: ArcSwapOption<SetupError>,
}

impl Reading {
    pub(crate) fn new(current: Current) -> Self {
        Self {
            generation: AtomicU64::new(current.number),
            renewed: Notify::new(),
            current: ArcSwap::from_pointee(current),
            reloading: Mutex::default(),
            failure: ArcSwapOption::empty(),
        }
    }

    /// Replaces the reading by the result of `read`, unless that fails.
    pub(crate) fn renew<T>(
        &self,
        read: impl FnOnce(&Current) -> Result<(Current, T), SetupError>,
    ) -> Result<T, SetupError> {
        let _reloading = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        match read(&self.current.load()) {
            Ok((current, read)) => {
                let number = current.number;
                self.current.store(Arc::new(current));
                self.failure.store(None);
                self.generation.fetch_max(number, Ordering::AcqRel);
                self.renewed.notify_waiters();
                Ok(read)
            }
            Err(error) => {
                self.failure.store(Some(Arc::new(error.clone())));
                Err(error)
            }
        }
    }

    /// Lets no later reading become the latest. Limiters refresh their configuration when they see the number.
    fn end(&self) {
        self.generation.store(ENDED, Ordering::Release);
        self.renewed.notify_waiters();
    }

    /// Returns why the last reload failed, if it did.
    pub(crate) fn failure(&self) -> Option<SetupError> {
        self.failure.load().as_deref().cloned()
    }
}

impl Core {
    /// Returns what this limiter shares with others, for a permit that has only the limiter.
    ///
    /// # Errors
    ///
    /// Returns an error if the limits were dropped.
    pub(super) fn services(&self) -> Result<Arc<Services>, StoreError> {
        let services = self.rule.load().services.upgrade();
        services.and_then(|services| services.downcast().ok()).ok_or_else(StoreError::shut_down)
    }
}

impl Services {
    pub(crate) fn generation(&self) -> u64 {
        self.limits.generation.load(Ordering::Acquire)
    }

    /// Returns whether every call is rejected.
    pub(crate) fn is_shut_down(&self) -> bool {
        self.generation() == ENDED
    }

    /// Rejects calls from now on, finishes work in progress within the deadline of a decision, and stops the engine.
    pub(crate) async fn shut_down(
        self: &Arc<Self>,
        last: impl Future<Output = ()> + Send + 'static,
    ) {
        self.limits.end();
        self.engine.spawn(last);
        self.local.charge_last(self);
        let mut ending = Ending(Some(Arc::clone(self)));
        self.end().await;
        ending.0 = None;
    }

    async fn end(&self) {
        // Work that takes longer is abandoned.
        let _ = clock::timeout(&self.engine, self.deadline, self.engine.finish()).await;
        self.events.report_the_rest();
        self.store.end();
        self.engine.end();
    }

    /// Drops the limiters of one shard whose permits are free again, from all stores of this process.
    pub(crate) fn forget_idle(&self, shard: usize) {
        if let AnyStore::Memory(store) = &self.store {
            store.forget_idle(shard);
        }
        self.per_client.forget_idle(shard);
        self.local.counts.forget_idle(shard);
    }

    /// Waits until the limits have been read again after this generation.
    pub(crate) async fn renewed(&self, since: u64) {
        let mut renewed = pin!(self.limits.renewed.notified());
        renewed.as_mut().enable();
        if self.generation() == since {
            renewed.await;
        }
    }

    /// Waits until every call is rejected.
    #[cfg(feature = "client")]
    pub(super) async fn ended(&self) {
        loop {
            match self.generation() {
                ENDED => return,
                since => self.renewed(since).await,
            }
        }
    }

    pub(crate) fn current(&self) -> Arc<Current> {
        self.limits.current.load_full()
    }

    /// Returns the revision of the configuration: the builder's, else the limits file's, else 0.
    pub(crate) fn revision(&self) -> u64 {
        self.revision.unwrap_or_else(|| self.limits.current.load().revision())
    }

    /// Returns how many processes share a quota while the store is unavailable: the configured
    /// number, else the last known number of processes that share the store.
    pub(crate) fn instances(&self) -> u32 {
        let configured = self.instances.or_else(|| self.limits.current.load().instances());
        configured.or_else(|| self.members.count()).unwrap_or(1).max(1)
    }

    /// Returns until when other processes may count a limiter without the store, which this process
    /// has reached again; `None` if none does.
    pub(super) fn recovers_until(&self, keys: &StateKeys) -> Option<Instant> {
        self.store.recovers_until(keys).filter(|_| self.instances() > 1)
    }

    /// Runs work that no caller awaits. Work within this process (on the embedded store, or marked
    /// `here`) runs immediately, so that the next call sees its effect.
    pub(crate) fn start(&self, here: bool, work: impl Future<Output = ()> + Send + 'static) {
        let mut work = Box::pin(work);
        let mut context = Context::from_waker(Waker::noop());
        let here = here || !self.store.is_shared();
        if !here || work.as_mut().poll(&mut context).is_pending() {
            self.engine.spawn(work);
        }
    }

    /// Runs a future to its end even if the caller is dropped meanwhile.
    pub(crate) async fn finish<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let mut work = Box::pin(work);
        if !self.store.is_shared() {
            return work.await;
        }
        let (done, result) = oneshot::channel();
        self.engine.spawn(async move {
            // A caller that was dropped does not need the result.
            let _ = done.send(work.as_mut().await);
        });
        result.await.unwrap_or_else(|_| Err(StoreError::shut_down()))
    }
}

/// A shutdown in progress. If its caller drops it, the engine continues.
struct Ending(Option<Arc<Services>>);

impl Drop for Ending {
    fn drop(&mut self) {
        if let Some(services) = self.0.take() {
            let engine = Arc::clone(&services.engine);
            engine.start(async move { services.end().await });
        }
    }
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Services").field("store", &self.store).finish_non_exhaustive()
    }
}
