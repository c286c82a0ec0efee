use std::{
    pin::Pin,
    task::{Context, Poll, Waker},
    thread,
    time::{Duration, Instant},
};

/// Waits until `check` holds, looking every few milliseconds.
///
/// # Panics
///
/// Panics if it does not hold `within` that time; `what` describes what was awaited.
#[track_caller]
pub fn eventually(what: &str, within: Duration, mut check: impl FnMut() -> bool) {
    let give_up = Instant::now() + within;
    while !check() {
        assert!(Instant::now() < give_up, "{what}: not so after {within:?}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Waits in async code until `check` holds, for what happens off the caller's path.
///
/// # Panics
///
/// Panics if it does not hold within five seconds; `what` describes what was awaited.
pub async fn soon(what: &str, mut check: impl AsyncFnMut() -> bool) {
    for _ in 0..500 {
        if check().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what}: not within 5 s");
}

/// Polls a future once, with a waker that does nothing.
pub fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}
