//! A thread for work that no caller awaits (probes, refunds, watching the limits file), and for the
//! calls of callers without a tokio runtime.
//!
//! The thread starts when it is first needed, and ends with the last owner of the engine or at shutdown. After
//! that the engine accepts no tasks; a caller without a runtime that needs its timers starts another thread.

use std::{
    convert::Infallible,
    future::Future,
    io,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use tokio::{
    runtime::{Builder, Handle},
    sync::{Notify, oneshot, watch},
};

/// The name of the thread.
const NAME: &str = "ratelimit";

#[derive(Debug)]
pub(crate) struct Engine {
    running: Mutex<Option<Running>>,
    tasks: Arc<Tasks>,
    /// Whether endless tasks must end.
    ending: watch::Sender<bool>,
    ended: AtomicBool,
}

#[derive(Debug)]
struct Running {
    runtime: Handle,
    /// The thread waits for the other end of this channel.
    _stop: oneshot::Sender<Infallible>,
}

/// The tasks that must finish before the engine ends.
#[derive(Debug, Default)]
struct Tasks {
    unfinished: AtomicUsize,
    finished: Notify,
}

/// A task that must finish before the engine ends. Dropping this value marks it as finished.
#[derive(Debug)]
pub(crate) struct Unfinished(Arc<Tasks>);

impl Default for Engine {
    fn default() -> Self {
        let (running, tasks) = (Mutex::default(), Arc::default());
        Self { running, tasks, ending: watch::Sender::new(false), ended: AtomicBool::new(false) }
    }
}

impl Engine {
    /// Returns the engine's runtime, and starts it if necessary.
    pub(crate) fn runtime(&self) -> Handle {
        self.try_runtime().expect("the system has a thread and file descriptors left")
    }

    fn try_runtime(&self) -> io::Result<Handle> {
        let mut running = self.running();
        if let Some(running) = &*running {
            return Ok(running.runtime.clone());
        }
        Ok(running.insert(Running::start()?).runtime.clone())
    }

    /// Runs a future to completion on the engine's thread.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        let unfinished = self.begin();
        self.start(async move {
            future.await;
            drop(unfinished);
        });
    }

    /// Runs a future on the engine's thread until the engine ends.
    pub(crate) fn spawn_endless(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.start(self.until_the_end(future));
    }

    /// Does the same if a thread can be started: a program works without this task.
    pub(crate) fn try_spawn_endless(&self, future: impl Future<Output = ()> + Send + 'static) {
        if !self.ended.load(Ordering::Acquire)
            && let Ok(runtime) = self.try_runtime()
        {
            runtime.spawn(self.until_the_end(future));
        }
    }

    fn until_the_end(
        &self,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        let mut ending = self.ending.subscribe();
        async move {
            tokio::select! {
                biased;
                _ = ending.wait_for(|ending| *ending) => {}
                () = future => {}
            }
        }
    }

    fn start(&self, task: impl Future<Output = ()> + Send + 'static) {
        if !self.ended.load(Ordering::Acquire) {
            self.runtime().spawn(task);
        }
    }

    /// Registers a task of any runtime that must finish before the engine ends.
    pub(crate) fn begin(&self) -> Unfinished {
        self.tasks.unfinished.fetch_add(1, Ordering::AcqRel);
        Unfinished(Arc::clone(&self.tasks))
    }

    /// Drops the endless tasks, and waits until all others have finished.
    pub(crate) async fn finish(&self) {
        self.ending.send_replace(true);
        loop {
            let mut finished = pin!(self.tasks.finished.notified());
            finished.as_mut().enable();
            if self.tasks.unfinished.load(Ordering::Acquire) == 0 {
                return;
            }
            finished.await;
        }
    }

    /// Ends the thread, with its unfinished tasks.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        drop(self.running().take());
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if self.0.unfinished.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.finished.notify_waiters();
        }
    }
}

impl Running {
    fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let run = move || {
            // Nothing is ever sent; the sender is only dropped.
            let _ = runtime.block_on(stopped);
            // A pending name lookup must not keep the thread alive.
            runtime.shutdown_background();
        };
        thread::Builder::new().name(NAME.to_owned()).spawn(run)?;
        Ok(Self { runtime: handle, _stop: stop })
    }
}
