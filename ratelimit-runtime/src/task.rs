//! A task whose first step runs in its caller.
//!
//! A spawned task waits for a thread before it runs. If tasks wake each other in a chain, tokio
//! runs three of them on one thread and wakes another thread for the fourth. So a caller polls the
//! task once itself; from then on the task runs on the runtime and depends on no caller.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError, TryLockError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Wake, Waker},
};

use tokio::runtime::Handle;

struct Task {
    runtime: Handle,
    /// `None` once it is done.
    future: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
    /// Whether its next step is already scheduled.
    is_woken: AtomicBool,
    /// Whether the runtime has ended, so that no step follows.
    is_over: AtomicBool,
}

/// The next step of a task. If the runtime drops it, the task is over.
struct Step(Option<Arc<Task>>);

/// Runs the first step of a future here, and the others in tasks of this runtime.
pub(crate) fn begin(runtime: &Handle, future: impl Future<Output = ()> + Send + 'static) {
    let task = Task {
        runtime: runtime.clone(),
        future: Mutex::new(Some(Box::pin(future))),
        is_woken: AtomicBool::new(false),
        is_over: AtomicBool::new(false),
    };
    let task = Arc::new(task);
    // A thread that ends cannot enter a runtime any more.
    if Handle::try_current().is_err_and(|error| error.is_thread_local_destroyed()) {
        return task.wake();
    }
    let _within = runtime.enter();
    task.step();
}

impl Task {
    fn step(self: &Arc<Self>) {
        // A wake from now on causes another step.
        self.is_woken.swap(false, Ordering::AcqRel);
        let waker = Waker::from(Arc::clone(self));
        let mut future = self.future.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(polled) = &mut *future else { return };
        let is_done = polled.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        // Values that the future held may start other tasks when they are dropped.
        let done = if is_done { future.take() } else { None };
        drop(future);
        drop(done);
        if self.is_over.load(Ordering::SeqCst) {
            self.end();
        }
    }

    /// Drops the future: it may hold the waker that keeps it, as that of a reply does.
    fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        let future = match self.future.try_lock() {
            Ok(mut future) => future.take(),
            Err(TryLockError::Poisoned(future)) => future.into_inner().take(),
            // The step that polls it now does the same afterwards.
            Err(TryLockError::WouldBlock) => None,
        };
        drop(future);
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        if !self.is_woken.swap(true, Ordering::AcqRel) {
            let (runtime, mut step) = (self.runtime.clone(), Step(Some(self)));
            runtime.spawn(async move { step.run() });
        }
    }
}

impl Step {
    fn run(&mut self) {
        if let Some(task) = self.0.take() {
            task.step();
        }
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            task.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::{runtime::Builder, sync::oneshot};

    use super::*;

    #[test]
    fn the_first_step_is_taken_at_once_and_the_others_by_the_runtime() {
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        let (first, mut began) = oneshot::channel();
        let (last, ended) = oneshot::channel();
        begin(runtime.handle(), async move {
            first.send(()).unwrap();
            tokio::time::sleep(Duration::from_millis(1)).await;
            last.send(()).unwrap();
        });
        assert!(began.try_recv().is_ok());
        assert!(runtime.block_on(ended).is_ok());
    }

    #[test]
    fn it_ends_with_its_runtime() {
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        let (held, dropped) = oneshot::channel::<()>();
        begin(runtime.handle(), async move {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            drop(held);
        });
        drop(runtime);
        assert!(dropped.blocking_recv().is_err());
    }

    /// The future holds the channel, which holds its waker.
    #[test]
    fn it_ends_with_a_runtime_that_owes_it_a_reply() {
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        let (held, mut dropped) = oneshot::channel::<()>();
        begin(runtime.handle(), async move {
            let (reply, replied) = oneshot::channel::<()>();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs(3600)).await;
                drop(reply);
            });
            let _ = replied.await;
            drop(held);
        });
        drop(runtime);
        assert_eq!(dropped.try_recv(), Err(oneshot::error::TryRecvError::Closed));
    }
}
