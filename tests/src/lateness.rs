use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use redis::{AsyncConnectionConfig, aio::MultiplexedConnection};
use tokio::time::sleep;

use crate::place::since_1970;

/// The times at which the machine let a timer or a plain command to a server wait, which is no fault of a limiter.
#[derive(Clone, Debug, Default)]
pub struct Lateness(Arc<Mutex<Vec<(u64, u64)>>>);

impl Lateness {
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
        const EVERY_MS: u64 = 2;
        /// A timer and a round trip on an idle machine.
        const IN_TIME_MS: u64 = 3;

        let now = || since_1970(SystemTime::now());
        loop {
            let due = now() + EVERY_MS;
            sleep(Duration::from_millis(EVERY_MS)).await;
            if redis::cmd("PING").exec_async(&mut connection).await.is_err() {
                return;
            }
            let until = now();
            if until > due + IN_TIME_MS {
                self.0.lock().unwrap_or_else(PoisonError::into_inner).push((due, until));
            }
        }
    }

    /// Returns from when until when, in milliseconds since 1970.
    pub fn times(&self) -> Vec<(u64, u64)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the milliseconds for which the machine was late at most.
    pub fn most_ms(&self) -> u64 {
        self.times().iter().map(|(from, until)| until - from).max().unwrap_or_default()
    }
}
