use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant, SystemTime},
};

use redis::{AsyncConnectionConfig, aio::MultiplexedConnection};
use tokio::time::sleep;

use crate::place::since_1970;

/// How often the machine is checked.
const EVERY_MS: u64 = 2;

/// The times at which the machine let a timer or a plain command to a server wait, which is no fault of a limiter.
#[derive(Clone, Debug, Default)]
pub struct Lateness(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    late: Vec<(u64, u64)>,
    /// When the machine was last checked.
    last: u64,
}

impl Lateness {
    /// Watches how late the machine runs a thread that is due, until this is dropped.
    #[must_use]
    pub fn of_threads() -> Self {
        /// A timer on an idle machine.
        const IN_TIME_MS: u64 = 2;

        let late = Self::default();
        let seen = Arc::downgrade(&late.0);
        thread::spawn(move || {
            while let Some(seen) = seen.upgrade() {
                let due = now() + EVERY_MS;
                thread::sleep(Duration::from_millis(EVERY_MS));
                Self(seen).saw(due, IN_TIME_MS);
            }
        });
        late
    }

    /// Asserts that not more time than this has passed since then, apart from that for which the machine was late.
    ///
    /// # Panics
    ///
    /// Panics if it has.
    #[track_caller]
    pub fn assert_within(&self, most: Duration, start: Instant) {
        let took = start.elapsed();
        if took <= most {
            return;
        }
        let end = now();
        while self.seen().last <= end {
            thread::sleep(Duration::from_millis(EVERY_MS));
        }
        let start = end.saturating_sub(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
        let times = self.times().into_iter();
        let late = times.map(|(from, until)| until.min(end).saturating_sub(from.max(start))).sum();
        let late = Duration::from_millis(late);
        assert!(took <= most + late, "{took:?} of {most:?}, with a machine that was {late:?} late");
    }

    /// Watches until this server or the runtime ends.
    ///
    /// # Panics
    ///
    /// Panics if the server is unavailable.
    pub async fn watch(url: &str) -> Self {
        let client = redis::Client::open(url).expect("an address");
        let patient = AsyncConnectionConfig::new().set_response_timeout(None);
        let connection = client.get_multiplexed_async_connection_with_config(&patient).await;
        let late = Self::default();
        tokio::spawn(late.clone().record(connection.expect("a connection")));
        late
    }

    async fn record(self, mut connection: MultiplexedConnection) {
        /// A timer and a round trip on an idle machine.
        const IN_TIME_MS: u64 = 3;

        loop {
            let due = now() + EVERY_MS;
            sleep(Duration::from_millis(EVERY_MS)).await;
            if redis::cmd("PING").exec_async(&mut connection).await.is_err() {
                return;
            }
            self.saw(due, IN_TIME_MS);
        }
    }

    fn saw(&self, due: u64, in_time: u64) {
        let (mut seen, until) = (self.seen(), now());
        seen.last = until;
        if until > due + in_time {
            seen.late.push((due, until));
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns from when until when, in milliseconds since 1970.
    pub fn times(&self) -> Vec<(u64, u64)> {
        self.seen().late.clone()
    }

    /// Returns the milliseconds for which the machine was late at most.
    pub fn most_ms(&self) -> u64 {
        self.times().iter().map(|(from, until)| until - from).max().unwrap_or_default()
    }
}

fn now() -> u64 {
    since_1970(SystemTime::now())
}
