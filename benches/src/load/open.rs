//! Open loop: `n` arrivals a second, even if earlier ones have no reply yet.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use super::{Decide, Random};
use crate::sample::{Recorder, Sample};

/// A reply later than this after the last arrival counts as missing.
const PATIENCE: Duration = Duration::from_secs(2);

/// Lets `rate` callers arrive each second for this long. A latency counts from when the caller was
/// due, so that a peer that holds arrivals up does not look fast.
///
/// # Panics
///
/// Panics if the thread that sends the callers panicked.
pub async fn open<D: Decide>(peer: &Arc<D>, rate: u32, time: Duration) -> Sample {
    let recorder = Arc::new(Recorder::start());
    let arrivals = (f64::from(rate) * time.as_secs_f64()) as usize;
    let answered = Arc::new(AtomicUsize::new(0));
    let arrive = Arrivals {
        peer: Arc::clone(peer),
        recorder: Arc::clone(&recorder),
        answered: Arc::clone(&answered),
        arrivals,
        every: time.div_f64(arrivals as f64),
    };
    let runtime = tokio::runtime::Handle::current();
    // A thread of its own, since the runtime's timers only know whole milliseconds.
    let sender = thread::spawn(move || arrive.send(&runtime));
    tokio::time::sleep(time).await;
    let end = Instant::now() + PATIENCE;
    while answered.load(Ordering::Acquire) < arrivals && Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut sample = recorder.total();
    sample.errors = (arrivals as u64).saturating_sub(sample.decisions());
    sender.join().expect("the sender does not panic");
    sample
}

struct Arrivals<D> {
    peer: Arc<D>,
    recorder: Arc<Recorder>,
    answered: Arc<AtomicUsize>,
    arrivals: usize,
    every: Duration,
}

impl<D: Decide> Arrivals<D> {
    fn send(self, runtime: &tokio::runtime::Handle) {
        let mut random = Random::new(0);
        let start = Instant::now();
        for arrival in 0..self.arrivals {
            let due = start + self.every.mul_f64(arrival as f64);
            while let Some(left) = due.checked_duration_since(Instant::now()) {
                thread::sleep(left);
            }
            let (peer, recorder) = (Arc::clone(&self.peer), Arc::clone(&self.recorder));
            let answered = Arc::clone(&self.answered);
            let key = random.below(peer.keys());
            runtime.spawn(async move {
                let decision = peer.decide(key).await;
                recorder.record(arrival, decision, 1, due, Instant::now());
                answered.fetch_add(1, Ordering::Release);
            });
        }
    }
}
