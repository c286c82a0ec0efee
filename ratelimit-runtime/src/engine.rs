//! A thread for work that no caller awaits (probes, refunds, watching the limits file), and for the
//! calls of callers without a tokio runtime.
//!
//! The thread starts when it is first needed, and ends with the last owner of the engine or at shutdown. After
//! that the engine accepts no tasks; callers without a runtime that need its timers start another thread, which
//! ends with the last of them. A forked process starts its own, because it has only the thread that called `fork`.

use std::{
    future::Future,
    io,
    ops::Deref,
    pin::pin,
    process,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use tokio::{
    runtime::{Builder, Handle},
    sync::{Notify, watch},
};

/// The name of the thread.
const NAME: &str = "ratelimit";

#[derive(Debug, Default)]
pub(crate) struct Engine {
    thread: Mutex<Thread>,
    tasks: Arc<Tasks>,
    /// Whether endless tasks must end.
    ending: watch::Sender<bool>,
    ended: AtomicBool,
}

/// The thread that runs now, if there is one.
#[derive(Debug, Default)]
struct Thread {
    running: Weak<Running>,
    /// Keeps it until the engine ends.
    kept: Option<Arc<Running>>,
}

/// A thread, which ends when this value is dropped.
#[derive(Debug)]
struct Running {
    runtime: Handle,
    stop: Arc<Notify>,
    /// The process in which it runs: one that is forked from it does not have it.
    process: u32,
}

/// A runtime that is used. That of an engine that has ended lasts as long as this value.
#[derive(Clone, Debug)]
pub(crate) struct Runtime {
    handle: Handle,
    _running: Option<Arc<Running>>,
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

impl Engine {
    /// Returns the engine's runtime, and starts it if necessary.
    pub(crate) fn runtime(&self) -> Runtime {
        self.try_runtime().expect("the system has a thread and file descriptors left")
    }

    fn try_runtime(&self) -> io::Result<Runtime> {
        let mut thread = self.thread();
        let running = match thread.running.upgrade().filter(|running| running.is_here()) {
            Some(running) => running,
            None => {
                let running = Arc::new(Running::start()?);
                thread.running = Arc::downgrade(&running);
                // The end takes it under the same lock.
                thread.kept = (!self.has_ended()).then(|| Arc::clone(&running));
                running
            }
        };
        Ok(Runtime { handle: running.runtime.clone(), _running: Some(running) })
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
        if !self.has_ended()
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

    /// Runs a future on the engine's thread unless that ends before.
    pub(crate) fn start(&self, task: impl Future<Output = ()> + Send + 'static) {
        if !self.has_ended() {
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
        let thread = std::mem::take(&mut *self.thread());
        // Callers may use it still.
        if let Some(running) = thread.running.upgrade() {
            running.stop();
        }
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    fn thread(&self) -> MutexGuard<'_, Thread> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
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
        let stop = Arc::<Notify>::default();
        let stopped = Arc::clone(&stop);
        let run = move || {
            runtime.block_on(stopped.notified());
            // A pending name lookup must not keep the thread alive.
            runtime.shutdown_background();
        };
        thread::Builder::new().name(NAME.to_owned()).spawn(run)?;
        Ok(Self { runtime: handle, stop, process: process::id() })
    }

    fn is_here(&self) -> bool {
        self.process == process::id()
    }

    fn stop(&self) {
        // A forked process has no such thread, and the stack that holds its waiter may be that of another one.
        if self.is_here() {
            self.stop.notify_one();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

impl From<Handle> for Runtime {
    fn from(handle: Handle) -> Self {
        Self { handle, _running: None }
    }
}

impl Deref for Runtime {
    type Target = Handle;

    fn deref(&self) -> &Handle {
        &self.handle
    }
}
