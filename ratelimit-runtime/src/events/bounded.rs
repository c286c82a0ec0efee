//! Limits repeated events of one limiter: the first is reported immediately, then their number every ten seconds.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use super::{Event, Shared};
use crate::clock;

const EVERY: Duration = Duration::from_secs(10);
/// The maximum number of limiters reported separately in that time, per kind of event; the others share a report.
const MOST: usize = 100;

/// The events reported recently.
#[derive(Default)]
pub(super) struct Bounded {
    reported: Mutex<HashMap<Topic, Reported>>,
    /// Whether counts are reported in the background.
    counting: AtomicBool,
}

/// The kind of an event, and its limiter; `None` for all limiters that are not reported separately.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Topic(&'static str, Option<Arc<str>>);

struct Reported {
    /// The number of events since the last report, including the reported one. Holders of the
    /// counter need no lock.
    count: Arc<AtomicU64>,
    last: Event,
    at: Instant,
}

impl Bounded {
    fn reported(&self) -> MutexGuard<'_, HashMap<Topic, Reported>> {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// Reports an event, or counts it.
    pub(super) fn bounded(self: &Arc<Self>, event: Event) {
        let known = Topic(event.topic(), event.limiter().cloned());
        let count = match self.bounded.reported().get_mut(&known) {
            Some(reported) => {
                reported.last = event.clone();
                Arc::clone(&reported.count)
            }
            None => Arc::default(),
        };
        self.counted(&count, || event);
    }

    /// Like `bounded`, for events that are counted here, so that most of them cost no more than that.
    pub(super) fn counted(self: &Arc<Self>, count: &Arc<AtomicU64>, event: impl FnOnce() -> Event) {
        match count.fetch_add(1, Ordering::Relaxed) {
            0 => self.first(count, event()),
            1 => self.second(count, &event()),
            _ => {}
        }
    }

    fn first(self: &Arc<Self>, count: &Arc<AtomicU64>, event: Event) {
        let mut reported = self.bounded.reported();
        let kind = event.topic();
        let mut topic = Topic(kind, event.limiter().cloned());
        if reported.keys().filter(|topic| topic.0 == kind).count() >= MOST {
            // A limiter without an entry of its own counts in the shared one, so its own counter stays at zero.
            count.store(0, Ordering::Relaxed);
            topic = Topic(kind, None);
            if let Some(others) = reported.get_mut(&topic) {
                others.last = event.clone();
                let count = Arc::clone(&others.count);
                drop(reported);
                return self.counted(&count, || event);
            }
        }
        let count = if topic.1.is_some() { Arc::clone(count) } else { Arc::new(1.into()) };
        let (last, at) = (event.clone(), clock::instant());
        reported.insert(topic, Reported { count, last, at });
        drop(reported);
        self.publish(&event);
    }

    /// Handles an event that was reported before: either long ago, or just now.
    fn second(self: &Arc<Self>, count: &Arc<AtomicU64>, event: &Event) {
        let mut reported = self.bounded.reported();
        let known = reported.values_mut().find(|known| Arc::ptr_eq(&known.count, count));
        if let Some(known) = known
            && clock::instant().duration_since(known.at) >= EVERY
        {
            known.at = clock::instant();
            count.fetch_sub(1, Ordering::Relaxed);
            drop(reported);
            return self.publish(event);
        }
        drop(reported);
        if !self.bounded.counting.swap(true, Ordering::AcqRel) {
            self.engine.spawn_endless(report_counts(Arc::downgrade(self)));
        }
    }

    /// Reports the events repeated since their last report. Returns whether there were any.
    fn report_repeated(&self) -> bool {
        let mut repeated = Vec::new();
        let mut reported = self.bounded.reported();
        reported.retain(|_, known| {
            let more = known.count.swap(1, Ordering::Relaxed).saturating_sub(1);
            if more == 0 {
                let unused =
                    known.count.compare_exchange(1, 0, Ordering::Relaxed, Ordering::Relaxed);
                return unused.is_err();
            }
            known.at = clock::instant();
            repeated.push(Event::Repeated { event: Box::new(known.last.clone()), more });
            true
        });
        let goes_on = !reported.is_empty();
        self.bounded.counting.store(goes_on, Ordering::Release);
        drop(reported);
        repeated.iter().for_each(|event| self.publish(event));
        goes_on
    }
}

/// Reports counts as long as there are any.
async fn report_counts(shared: Weak<Shared>) {
    loop {
        tokio::time::sleep(EVERY).await;
        let Some(shared) = shared.upgrade() else { return };
        if !shared.report_repeated() {
            return;
        }
    }
}
