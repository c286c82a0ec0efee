//! The way to the server: a connection for each runtime that calls, and what is known of the
//! server's health.
//!
//! Calls never queue behind a dead connection. After a failure a gate closes, for all runtimes:
//! calls fail at once, while one probe at a time, with growing delay, looks for the server from
//! the engine's thread and opens the gate again. A probe is a write that a full server refuses,
//! and has as long for its answer as a call.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwapOption;
use redis::{RedisResult, Value};
use tokio::{sync::Notify, time::Instant};

use super::{
    address::{Address, Topology},
    connect::{Certificates, Connection, connect},
    fault::{Fault, NotDone, classify},
    gate::Gates,
    nodes::Nodes,
};
use crate::{
    StoreError, clock,
    engine::Engine,
    events::Events,
    home::{Home, Homes},
    store::StateKeys,
};

/// Timeouts in a row after which a connection is given up.
const GIVE_UP_AFTER: u32 = 3;

pub(super) struct Link {
    address: Address,
    certificates: Certificates,
    lines: Homes<Line>,
    /// Whether the server knows the scripts, as far as this process can tell.
    loaded: AtomicBool,
    gates: Gates,
    deadline: Duration,
}

/// The connection of one runtime.
#[derive(Default)]
pub(super) struct Line {
    live: ArcSwapOption<Live>,
    /// One attempt to connect at a time, and how the last one failed.
    attempt: tokio::sync::Mutex<Option<(Instant, StoreError)>>,
}

/// An open connection, and where the server's clock stood when it was opened.
pub(super) struct Live {
    connection: Connection,
    closed: Arc<AtomicBool>,
    timeouts: AtomicU32,
    server_us: u64,
    opened: Instant,
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

impl Line {
    fn open(&self) -> Option<Arc<Live>> {
        self.live.load_full().filter(|live| live.is_open())
    }
}

impl Link {
    pub(super) fn new(
        address: Address,
        certificates: Certificates,
        deadline: Duration,
        events: Events,
        engine: Arc<Engine>,
    ) -> Arc<Self> {
        let gates = Gates::new(address.topology == Topology::Cluster, events);
        Arc::new(Self {
            address,
            certificates,
            lines: Homes::new(engine),
            loaded: AtomicBool::new(false),
            gates,
            deadline,
        })
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    pub(super) fn engine(&self) -> &Engine {
        self.lines.engine()
    }

    /// The line of the runtime that polls the caller.
    pub(super) fn line(&self) -> Arc<Home<Line>> {
        self.lines.here()
    }

    /// The open connection, made now if there is none. Fails at once while the gate is closed.
    pub(super) async fn live(
        self: &Arc<Self>,
        line: &Arc<Home<Line>>,
        keys: &StateKeys,
    ) -> Result<Arc<Live>, StoreError> {
        if let Some(error) = self.gates.why_closed(keys) {
            return Err(error);
        }
        self.connected(line).await
    }

    async fn connected(self: &Arc<Self>, line: &Arc<Home<Line>>) -> Result<Arc<Live>, StoreError> {
        if let Some(live) = line.open() {
            return Ok(live);
        }
        let (link, own) = (Arc::clone(self), Arc::clone(line));
        let asked = clock::instant();
        // The attempt outlives a caller whose deadline is shorter.
        let attempt = line.runtime().spawn(async move { link.connect_once(&own, asked).await });
        attempt
            .await
            .unwrap_or_else(|_| Err(StoreError::unavailable("redis: connecting was aborted")))
    }

    async fn connect_once(&self, line: &Line, asked: Instant) -> Result<Arc<Live>, StoreError> {
        let mut attempt = line.attempt.lock().await;
        if let Some(live) = line.open() {
            return Ok(live);
        }
        if let Some((ended, error)) = &*attempt
            && *ended >= asked
        {
            return Err(error.clone());
        }
        // Where a connection was lost, the server may be another one by now.
        let loaded = self.loaded.load(Ordering::Acquire) && line.live.load().is_none();
        let error = match self.open(loaded).await {
            Ok(live) => {
                let live = Arc::new(live);
                self.loaded.store(true, Ordering::Release);
                line.live.store(Some(Arc::clone(&live)));
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

    async fn open(&self, loaded: bool) -> RedisResult<Live> {
        let closed = Arc::new(AtomicBool::new(false));
        let mut connection = connect(&self.address, &self.certificates, &closed).await?;
        let (mut loading, mut looking) = (connection.clone(), connection.clone());
        let load = async {
            if !loaded {
                loading.load(super::script::ALL.iter().map(|script| script.text)).await;
            }
        };
        // Ages are measured by the server's clock, which is read in the middle of this round trip,
        // before the scripts are loaded.
        let time = async {
            let (time, sent) = (redis::cmd("TIME"), clock::instant());
            let reply = connection.query(&time).await;
            (reply, sent + clock::instant().saturating_duration_since(sent) / 2)
        };
        let look = self.look_at_nodes(&mut looking);
        // All are under way at once: a set-up takes a round trip less.
        let ((time, opened), (), ()) = tokio::join!(time, load, look);
        let time: (u64, u64) = redis::from_redis_value(time?)?;
        Ok(Live {
            connection,
            closed,
            timeouts: AtomicU32::new(0),
            server_us: time.0 * 1_000_000 + time.1,
            opened,
        })
    }

    /// Asks a cluster which node serves which slots. What was known stays where there is no answer.
    pub(super) async fn look_at_nodes(&self, connection: &mut Connection) {
        if !self.gates.are_of_a_cluster() {
            return;
        }
        let question = redis::cmd("CLUSTER").arg("SLOTS").to_owned();
        let reply = connection.query(&question).await;
        if let Some(nodes) = reply.ok().as_ref().and_then(Nodes::read) {
            self.gates.learn(nodes);
        }
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

    pub(super) fn is_closed(&self, keys: &StateKeys) -> bool {
        self.gates.why_closed(keys).is_some()
    }

    /// Fails every call from now on, and closes the connections.
    pub(super) fn end(&self) {
        self.gates.end(&StoreError::shut_down());
        for line in self.lines.all().iter() {
            line.live.store(None);
        }
    }

    /// Whether calls are sent to the server, as far as is known.
    pub(super) fn health(&self) -> Result<(), StoreError> {
        self.gates.why_any_closed().map_or(Ok(()), Err)
    }

    pub(super) fn reopened(&self) -> Arc<Notify> {
        self.gates.reopened()
    }

    /// Turns calls away from now on, and looks for the server in the background; false when that
    /// was so already.
    pub(super) fn close(self: &Arc<Self>, keys: &StateKeys, error: StoreError) -> bool {
        if !self.gates.close(keys, error) {
            return false;
        }
        let (link, keys) = (Arc::downgrade(self), keys.clone());
        self.engine().spawn_endless(async move {
            while let Some(delay) = link.upgrade().map(|link| link.gates.next_delay(&keys)) {
                tokio::time::sleep(delay).await;
                let Some(link) = link.upgrade() else { return };
                match link.probe(&keys).await {
                    Ok(()) => {
                        link.replace_doubtful();
                        return link.gates.open(&keys);
                    }
                    Err(error) => link.gates.stays_closed(&keys, error),
                }
            }
        });
        true
    }

    /// Gives up the connections that missed an answer: the server was found by another one, and
    /// they may lead to one that is not there any more.
    fn replace_doubtful(&self) {
        for line in self.lines.all().iter() {
            if let Some(live) = line.open()
                && live.timeouts.load(Ordering::Relaxed) > 0
            {
                self.discard(&live);
            }
        }
    }

    /// Writes something harmless by the engine's own connection, as fast as a call has to be.
    async fn probe(self: &Arc<Self>, keys: &StateKeys) -> Result<(), StoreError> {
        let live = self.connected(&self.lines.of_engine()).await?;
        let mut connection = live.connection();
        let question = super::script::probe(keys);
        match tokio::time::timeout(self.deadline, connection.query(&question)).await {
            Ok(Ok(Value::Nil)) => {
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
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("address", &self.address).finish_non_exhaustive()
    }
}
