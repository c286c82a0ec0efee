//! What the tests of this folder share.

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

use ratelimit_runtime::{Limits, Quota};
use tokio::{
    runtime::{Builder, Runtime},
    sync::Mutex,
};

pub(crate) const HOUR: Duration = Duration::from_secs(3_600);
pub(crate) const SECOND: Duration = Duration::from_secs(1);
/// Three times the deadline of a program that sets none: the machine that tests is busy. The
/// delays of the tests go with it.
pub(crate) const DEADLINE: Duration = Duration::from_millis(300);

/// Held by tests that measure times, one after the other.
pub(crate) static ALONE: Mutex<()> = Mutex::const_new(());

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) fn quota(rate: u64, per: Duration) -> Quota {
    Quota::new(rate, per).unwrap()
}

pub(crate) async fn limits(url: &str, yaml: &str) -> Limits {
    Limits::builder().redis(url).limits_yaml(yaml).deadline(DEADLINE).build().await.unwrap()
}

/// Limits with a deadline that is longer than any reply takes on a busy machine.
pub(crate) async fn patient_limits(url: &str) -> Limits {
    Limits::builder().redis(url).no_limits_file().deadline(20 * SECOND).build().await.unwrap()
}

pub(crate) fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Runs a future on this thread without any runtime.
pub(crate) fn park_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park_timeout(10 * SECOND),
        }
    }
}
