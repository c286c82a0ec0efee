//! The way to the server: one connection, and what is known of its health.
//!
//! Calls never queue behind a dead connection. After a failure a gate closes: calls are told so
//! at once, while one probe at a time, with growing delay, looks for the server and opens the
//! gate again. A cluster has many gates, so that one dead node does not close the others'.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwapOption;
use redis::{RedisResult, Value};
use tokio::time::{Instant, timeout};

use super::{
    address::{Address, Topology},
    connect::{Certificates, Connection, connect},
    fault::{Fault, NotDone, classify},
};
use crate::{
    StoreError, clock,
    events::{Event, Events},
    store::StateKeys,
};

const CLUSTER_GATES: usize = 64;
const FIRST_PROBE_AFTER: Duration = Duration::from_millis(50);
const LAST_PROBE_AFTER: Duration = Duration::from_secs(1);
/// How long a probe waits for its answer, whatever the deadline of decisions is.
const PROBE_TIMEOUT: Duration = Duration::from_millis(500);
/// Timeouts in a row after which a connection is given up.
const GIVE_UP_AFTER: u32 = 3;

pub(super) struct Link {
    address: Address,
    certificates: Certificates,
    live: ArcSwapOption<Live>,
    /// One attempt to connect at a time, and how the last one failed.
    attempt: tokio::sync::Mutex<Option<(Instant, StoreError)>>,
    gates: Box<[Gate]>,
    events: Events,
}

/// An open connection, and where the server's clock stood when it was opened.
pub(super) struct Live {
    connection: Connection,
    closed: Arc<AtomicBool>,
    timeouts: AtomicU32,
    server_us: u64,
    opened: Instant,
}

#[derive(Default)]
struct Gate {
    /// Why calls are turned away; nothing while the gate is open.
    closed: Mutex<Option<StoreError>>,
}

impl Live {
    pub(super) fn connection(&self) -> Connection {
        self.connection.clone()
    }

    /// When something happened, in microseconds by the server's clock.
    pub(super) fn server_time(&self, instant: Instant) -> u64 {
        let us = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        match self.opened.checked_duration_since(instant) {
            Some(before) => self.server_us.saturating_sub(us(before)),
            None => self.server_us.saturating_add(us(instant - self.opened)),
        }
    }

    fn is_open(&self) -> bool {
        !self.closed.load(Ordering::Acquire)
    }
}

impl Link {
    pub(super) fn new(address: Address, certificates: Certificates, events: Events) -> Arc<Self> {
        let gates = if address.topology == Topology::Cluster { CLUSTER_GATES } else { 1 };
        Arc::new(Self {
            address,
            certificates,
            live: ArcSwapOption::empty(),
            attempt: tokio::sync::Mutex::new(None),
            gates: (0..gates).map(|_| Gate::default()).collect(),
            events,
        })
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// The open connection, made now if there is none. Fails at once while the gate is closed.
    pub(super) async fn live(self: &Arc<Self>, keys: &StateKeys) -> Result<Arc<Live>, StoreError> {
        if let Some(error) = self.gate(keys).why_closed() {
            return Err(error);
        }
        self.connected().await
    }

    async fn connected(self: &Arc<Self>) -> Result<Arc<Live>, StoreError> {
        if let Some(live) = self.live.load_full()
            && live.is_open()
        {
            return Ok(live);
        }
        let link = Arc::clone(self);
        let asked = clock::instant();
        // The attempt outlives a caller whose deadline is shorter.
        let attempt = tokio::spawn(async move { link.connect_once(asked).await });
        attempt
            .await
            .unwrap_or_else(|_| Err(StoreError::unavailable("redis: connecting was aborted")))
    }

    async fn connect_once(&self, asked: Instant) -> Result<Arc<Live>, StoreError> {
        let mut attempt = self.attempt.lock().await;
        if let Some(live) = self.live.load_full()
            && live.is_open()
        {
            return Ok(live);
        }
        if let Some((ended, error)) = &*attempt
            && *ended >= asked
        {
            return Err(error.clone());
        }
        let error = match self.open().await {
            Ok(live) => {
                let live = Arc::new(live);
                self.live.store(Some(Arc::clone(&live)));
                return Ok(live);
            }
            Err(error) => match classify(&error) {
                Fault::Permanent(error) | Fault::Transient(error) => error,
                Fault::NotDone(_) => {
                    StoreError::unavailable(format!("redis: {error}")).caused_by(error)
                }
            },
        };
        *attempt = Some((clock::instant(), error.clone()));
        Err(error)
    }

    async fn open(&self) -> RedisResult<Live> {
        let closed = Arc::new(AtomicBool::new(false));
        let mut connection = connect(&self.address, &self.certificates, &closed).await?;
        let time: (u64, u64) =
            redis::from_redis_value(connection.query(&redis::cmd("TIME")).await?)?;
        for script in super::script::ALL {
            // Only spares the first call a round trip: a refusal is no reason to stop.
            let _ = connection.query(redis::cmd("SCRIPT").arg("LOAD").arg(script.text)).await;
        }
        Ok(Live {
            connection,
            closed,
            timeouts: AtomicU32::new(0),
            server_us: time.0 * 1_000_000 + time.1,
            opened: clock::instant(),
        })
    }

    /// Gives a connection up, so that the next call opens another; under Sentinel that asks for
    /// the master anew.
    pub(super) fn discard(&self, live: &Live) {
        live.closed.store(true, Ordering::Release);
    }

    /// A call came back: the connection works.
    pub(super) fn answered(&self, live: &Live) {
        if live.timeouts.load(Ordering::Relaxed) != 0 {
            live.timeouts.store(0, Ordering::Relaxed);
        }
    }

    /// A call got no answer in time.
    pub(super) fn timed_out(&self, live: &Live) {
        if live.timeouts.fetch_add(1, Ordering::Relaxed) + 1 >= GIVE_UP_AFTER {
            self.discard(live);
        }
    }

    /// Turns calls away from now on, and looks for the server in the background; false when that
    /// was so already.
    pub(super) fn close(self: &Arc<Self>, keys: &StateKeys, error: StoreError) -> bool {
        if !self.gate(keys).close(error.clone()) {
            return false;
        }
        self.events.emit(&Event::StoreDown { error });
        let (link, keys) = (Arc::downgrade(self), keys.clone());
        tokio::spawn(async move {
            let mut delay = FIRST_PROBE_AFTER;
            loop {
                tokio::time::sleep(delay).await;
                let Some(link) = link.upgrade() else { return };
                match link.probe(&keys).await {
                    Ok(()) => {
                        link.gate(&keys).open();
                        link.events.emit(&Event::StoreUp);
                        return;
                    }
                    Err(error) => link.gate(&keys).update(error),
                }
                delay = (delay * 2).min(LAST_PROBE_AFTER);
            }
        });
        true
    }

    /// Asks for something harmless that only a working master answers.
    async fn probe(self: &Arc<Self>, keys: &StateKeys) -> Result<(), StoreError> {
        let live = self.connected().await?;
        let mut connection = live.connection();
        let question = super::script::probe(keys);
        match timeout(PROBE_TIMEOUT, connection.query(&question)).await {
            Ok(Ok(Value::Int(0))) => {
                self.answered(&live);
                Ok(())
            }
            Ok(Ok(reply)) => {
                Err(StoreError::unavailable(format!("redis: unknown reply {reply:?}")))
            }
            Ok(Err(error)) => {
                if error.is_connection_dropped()
                    || matches!(classify(&error), Fault::NotDone(NotDone::ReadOnly(_)))
                {
                    self.discard(&live);
                }
                match classify(&error) {
                    Fault::Permanent(error) | Fault::Transient(error) => Err(error),
                    Fault::NotDone(_) => {
                        Err(StoreError::unavailable(format!("redis: {error}")).caused_by(error))
                    }
                }
            }
            Err(_) => {
                self.timed_out(&live);
                Err(StoreError::timeout("redis: no answer to a probe"))
            }
        }
    }

    fn gate(&self, keys: &StateKeys) -> &Gate {
        match &self.gates[..] {
            [gate] => gate,
            gates => &gates[usize::from(slot(keys.log())) * gates.len() / usize::from(SLOTS)],
        }
    }
}

const SLOTS: u16 = 16_384;

/// The cluster slot of a key with a hash tag, by the rule of the Redis Cluster specification.
fn slot(key: &str) -> u16 {
    let tag =
        key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map_or(key, |(tag, _)| tag);
    // CRC-16/XMODEM.
    let crc = tag.bytes().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    });
    crc % SLOTS
}

impl Gate {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<StoreError>> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn why_closed(&self) -> Option<StoreError> {
        self.lock().clone()
    }

    /// Closes the gate; false when it was closed already.
    fn close(&self, error: StoreError) -> bool {
        self.lock().replace(error).is_none()
    }

    fn update(&self, error: StoreError) {
        *self.lock() = Some(error);
    }

    fn open(&self) {
        *self.lock() = None;
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("address", &self.address).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::slot;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(slot("123456789"), 0x31C3);
        assert_eq!(slot("{foo}:value"), slot("foo"));
    }
}
