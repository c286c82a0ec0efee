//! A thread for what no caller awaits (probes, refunds, the watch of the limits file), and for
//! the calls of callers that have no tokio runtime.
//!
//! It starts when it is first needed, and ends with the last owner of the engine.

use std::{convert::Infallible, future::Future, sync::OnceLock, thread};

use tokio::{
    runtime::{Builder, Handle},
    sync::oneshot,
};

/// The name of the thread.
const NAME: &str = "ratelimit";

#[derive(Debug, Default)]
pub(crate) struct Engine {
    running: OnceLock<Running>,
}

#[derive(Debug)]
struct Running {
    runtime: Handle,
    /// The thread waits for the other end of it.
    _stop: oneshot::Sender<Infallible>,
}

impl Engine {
    /// The engine's runtime, which is started if it is not running.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.running.get_or_init(Running::start).runtime
    }

    /// Runs a future to its end on the engine's thread.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.runtime().spawn(future);
    }
}

impl Running {
    fn start() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("the system has file descriptors left for a runtime");
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let run = move || {
            // It is never sent, only dropped.
            let _ = runtime.block_on(stopped);
            // A name that is just being looked up must not keep the thread.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name(NAME.to_owned()).spawn(run);
        thread.expect("the system has a thread left");
        Self { runtime: handle, _stop: stop }
    }
}
