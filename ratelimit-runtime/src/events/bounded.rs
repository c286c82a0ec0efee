//! Limits repeated events of one limiter: the first is reported immediately, then their number every ten seconds.

use std::{
    collections::HashMap,
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use super::{Event, Shared, Topic};
use crate::{clock, count::Count};

const EVERY: Duration = Duration::from_secs(10);
/// The maximum number of limiters reported separately in that time, per kind of event; the others share a report.
const MOST: usize = 100;

/// How often something happened, and how much of that was reported.
#[derive(Debug, Default)]
pub(crate) struct Occurrences {
    count: Count,
    /// Changed under the lock of [`Bounded`].
    reported: AtomicU64,
    /// Whether the background task reports the rest, so that it need only be counted.
    in_background: AtomicBool,
}

impl Occurrences {
    /// Creates the counter of a limiter that many threads may use at once.
    pub(crate) fn of_many_threads() -> Self {
        Self { count: Count::of_many_threads(), ..Self::default() }
    }

    pub(crate) fn get(&self) -> u64 {
        self.count.get()
    }

    /// Marks all of them as reported, and returns how many were not.
    fn take_unreported(&self) -> u64 {
        let count = self.count.get();
        count.saturating_sub(self.reported.swap(count, Ordering::Relaxed))
    }
}

/// The events reported recently.
#[derive(Default)]
pub(super) struct Bounded {
    reported: Mutex<HashMap<Subject, Reported>>,
    /// Whether the background task runs.
    counting: AtomicBool,
}

/// What the events of one report have in common.
#[derive(PartialEq, Eq, Hash)]
struct Subject {
    topic: Topic,
    /// `None` for all limiters that are not reported separately.
    limiter: Option<Arc<str>>,
}

impl Subject {
    fn of(event: &Event) -> Self {
        Self { topic: event.topic(), limiter: event.limiter().cloned() }
    }
}

struct Reported {
    occurrences: Arc<Occurrences>,
    /// What counters before this one counted since the last report.
    earlier: u64,
    /// The event that the next count names, one of those that it counts.
    last: Event,
    at: Instant,
}

impl Bounded {
    fn reported(&self) -> MutexGuard<'_, HashMap<Subject, Reported>> {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// Reports an event, or counts it. The count names the last one: its cause may not be that of the first.
    pub(super) fn bounded(self: &Arc<Self>, event: Event) {
        let subject = Subject::of(&event);
        let known = self.bounded.reported().get(&subject).map(|one| Arc::clone(&one.occurrences));
        let occurrences = known.unwrap_or_default();
        occurrences.count.increase();
        self.report(occurrences, event);
    }

    /// Like `bounded`, for events that are counted here, so that most of them cost no more than that, and are not even
    /// created.
    #[inline]
    pub(super) fn counted(
        self: &Arc<Self>,
        occurrences: &Arc<Occurrences>,
        event: impl FnOnce() -> Event,
    ) {
        occurrences.count.increase();
        // If the background task stops at this moment, it is in the next report instead.
        if !occurrences.in_background.load(Ordering::Relaxed) {
            self.report(Arc::clone(occurrences), event());
        }
    }

    /// Reports an event, unless one of its subject was reported just now: then the background task does.
    #[cold]
    fn report(self: &Arc<Self>, mut occurrences: Arc<Occurrences>, event: Event) {
        let mut reported = self.bounded.reported();
        let mut subject = Subject::of(&event);
        let is_of_topic = |other: &&Subject| other.topic == subject.topic;
        if !reported.contains_key(&subject) && reported.keys().filter(is_of_topic).count() >= MOST {
            occurrences.take_unreported();
            subject.limiter = None;
            let others = reported.get(&subject).map(|others| Arc::clone(&others.occurrences));
            occurrences = others.unwrap_or_default();
            occurrences.count.increase();
        }
        let (now, counted) = (clock::instant(), Arc::clone(&occurrences));
        match reported.get_mut(&subject) {
            None => {
                let last = event.clone();
                let new = Reported { occurrences: counted, earlier: 0, last, at: now };
                reported.insert(subject, new);
            }
            Some(known) => {
                if !Arc::ptr_eq(&known.occurrences, &occurrences) {
                    // A limiter that was evicted and created again has another counter.
                    let before = mem::replace(&mut known.occurrences, counted);
                    before.in_background.store(false, Ordering::Relaxed);
                    known.earlier += before.take_unreported();
                }
                if now.duration_since(known.at) < EVERY {
                    known.last = event;
                    occurrences.in_background.store(true, Ordering::Relaxed);
                    drop(reported);
                    return self.count_in_background();
                }
                known.at = now;
            }
        }
        occurrences.reported.fetch_add(1, Ordering::Relaxed);
        drop(reported);
        self.publish(&event);
    }

    fn count_in_background(self: &Arc<Self>) {
        if !self.bounded.counting.swap(true, Ordering::AcqRel) {
            self.engine.spawn_endless(report_counts(Arc::downgrade(self)));
        }
    }

    /// Reports the events repeated since their last report. Returns whether there were any.
    pub(super) fn report_repeated(&self) -> bool {
        let mut repeated = Vec::new();
        let mut reported = self.bounded.reported();
        reported.retain(|_, known| {
            let more = mem::take(&mut known.earlier) + known.occurrences.take_unreported();
            // The next one is the event that the next count names: the cause may have changed.
            known.occurrences.in_background.store(false, Ordering::Relaxed);
            if more > 0 {
                known.at = clock::instant();
                repeated.push(Event::Repeated { event: Box::new(known.last.clone()), more });
            }
            more > 0
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Reason, Rejection, StoreError, engine::Engine, events::Events};

    /// Returns events, and the lines that they write.
    fn logged() -> (Events, Arc<Mutex<Vec<String>>>) {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&lines);
        let callback = move |event: &Event| log.lock().unwrap().push(event.to_string());
        (Events::to(Some(Arc::new(callback)), Arc::<Engine>::default()), lines)
    }

    #[test]
    fn a_count_names_a_cause_of_its_time() {
        let (events, lines) = logged();
        let (limiter, count) = (Arc::from("search"), Arc::default());
        let reject = |cause: &str| {
            let rejection = Rejection::new(&limiter, Reason::StoreMisconfigured);
            let error = StoreError::misconfigured(cause);
            events.rejected(&count, &rejection.with_source(&error));
        };
        for causes in [["no login", "no login"], ["no rights", "no rights"]] {
            causes.into_iter().for_each(reject);
            events.0.report_repeated();
        }
        let lines = lines.lock().unwrap();
        let [first, more, later] = &lines[..] else { panic!("{lines:?}") };
        assert!(first.contains("no login") && more.contains("no login (1 more"), "{lines:?}");
        assert!(later.contains("no rights (2 more"), "{lines:?}");
    }

    /// The password was changed while calls failed for another cause.
    #[test]
    fn a_count_names_the_last_cause() {
        let (events, lines) = logged();
        for cause in ["wrong type", "wrong type", "wrong type", "no login"] {
            let (limiter, error) = (Arc::from("search"), StoreError::misconfigured(cause));
            events.emit(&Event::Misconfigured { limiter, error });
        }
        events.0.report_repeated();
        let lines = lines.lock().unwrap();
        assert!(
            lines[0].contains("wrong type") && lines[1].contains("no login (3 more"),
            "{lines:?}"
        );
    }

    /// A limiter that is evicted and created again counts anew, and two callers may be the first at once.
    #[test]
    fn a_limiter_with_another_counter_is_not_a_new_one() {
        let (events, lines) = logged();
        let (limiter, counts) = (Arc::from("search"), [Arc::default(), Arc::default()]);
        let reject = |count| events.rejected(count, &Rejection::new(&limiter, Reason::Limited));
        for count in [&counts[0], &counts[0], &counts[1], &counts[1]] {
            reject(count);
        }
        assert_eq!(lines.lock().unwrap().len(), 1);
        events.0.report_repeated();
        let last = lines.lock().unwrap().last().cloned().unwrap_or_default();
        assert!(last.contains("(3 more"), "of both counters: {last}");
        for _ in 0..2 {
            counts.iter().for_each(reject);
            events.0.report_repeated();
        }
        // The first counter is silent no longer than the other one.
        assert!(!counts[0].in_background.load(Ordering::Relaxed));
    }
}
