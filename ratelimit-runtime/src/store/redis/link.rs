//! The connections to the server, one for each runtime that calls, with health tracking and a
//! circuit breaker.
//!
//! Calls never queue behind a dead connection. After a failure, a gate closes for all runtimes and calls fail
//! at once. One probe at a time, with growing delay, checks the server from the engine's thread and opens the
//! gate again. A probe is a write that a full server rejects, with the same deadline as a call.

use std::{
    collections::BTreeSet,
    io, iter,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, atomic::AtomicBool},
    time::Duration,
};

use redis::{RedisResult, Value};
use tokio::time::Instant;

use super::{
    address::{Address, Topology},
    connect::{CONNECT_TIMEOUT, Certificates, connect, load},
    fault::{Fault, NotDone, classify, connection_error, may_lack_scripts, store_error},
    gate::Gates,
    line::{Line, Live, Peer, ServerTime},
    reply::unknown_reply,
};
use crate::{
    StoreError, StoreErrorKind, clock,
    engine::Engine,
    events::Events,
    home::{Home, Homes},
    store::StateKeys,
};

/// How often a server that was found again is probed, until every process must have found it.
const WATCH_EVERY: Duration = Duration::from_millis(100);
/// The number of deadlines without a reply after which a probe opens another connection.
const LOST_AFTER: u32 = 5;

pub(super) struct Link {
    pub(super) address: Address,
    certificates: Certificates,
    pub(super) lines: Homes<Line>,
    /// The servers to which this process has loaded the scripts.
    loaded: Mutex<BTreeSet<Arc<str>>>,
    pub(super) gates: Gates,
    pub(super) deadline: Duration,
}

impl Link {
    pub(super) fn new(
        address: Address,
        certificates: Certificates,
        deadline: Duration,
        events: Events,
        engine: Arc<Engine>,
    ) -> Arc<Self> {
        let gates = Gates::new(address.topology == Topology::Cluster, deadline, events);
        Arc::new(Self {
            address,
            certificates,
            lines: Homes::new(engine),
            loaded: Mutex::default(),
            gates,
            deadline,
        })
    }

    pub(super) fn engine(&self) -> &Engine {
        self.lines.engine()
    }

    /// The line of the runtime that polls the caller.
    pub(super) fn line(&self) -> Arc<Home<Line>> {
        self.lines.here()
    }

    /// Returns the open connection to the server of these keys, opening it if there is none. Fails at once
    /// while the gate is closed.
    pub(super) async fn live(
        self: &Arc<Self>,
        line: &Arc<Home<Line>>,
        keys: &StateKeys,
    ) -> Result<Arc<Live>, StoreError> {
        if let Some(error) = self.gates.why_closed(keys) {
            return Err(error);
        }
        let server = self.server_of(line, keys).await?;
        self.connected(line, &server).await
    }

    /// Returns the address of the node of these keys; empty if there is only one server.
    async fn server_of(
        self: &Arc<Self>,
        line: &Arc<Home<Line>>,
        keys: &StateKeys,
    ) -> Result<Arc<str>, StoreError> {
        match self.gates.are_of_a_cluster() {
            true => self.node_of(line, keys).await,
            false => Ok(Arc::default()),
        }
    }

    /// Returns whether any runtime has an open connection to the last known server of these keys.
    pub(super) fn is_connected(&self, keys: &StateKeys) -> bool {
        !self.open_to(&self.last_server_of(keys)).is_empty()
    }

    /// Returns the open connections of all runtimes to a server.
    fn open_to(&self, server: &Arc<str>) -> Vec<Arc<Live>> {
        self.lines.all().iter().filter_map(|line| line.peer(server).live()).collect()
    }

    /// Returns the last known address of the node of these keys; empty if there is only one server.
    fn last_server_of(&self, keys: &StateKeys) -> Arc<str> {
        self.gates.node_of(keys).map(|node| Arc::clone(&node.address)).unwrap_or_default()
    }

    /// Returns the open connection of a runtime to a server, opening it if there is none. A server that refuses a
    /// further one is reached on that of another runtime.
    pub(super) async fn connected(
        self: &Arc<Self>,
        line: &Arc<Home<Line>>,
        server: &Arc<str>,
    ) -> Result<Arc<Live>, StoreError> {
        let peer = line.peer(server);
        if let Some(live) = peer.live() {
            return Ok(live);
        }
        let (link, to, asked) = (Arc::clone(self), Arc::clone(server), clock::instant());
        // The attempt outlives a caller whose deadline is shorter.
        let attempt =
            line.runtime().spawn(async move { link.connect_once(&peer, to, asked).await });
        let error = match attempt.await {
            Ok(Ok(live)) => return Ok(live),
            Ok(Err(error)) => error,
            Err(_) => StoreError::unavailable("redis: connection attempt aborted"),
        };
        self.borrow(server, &error, Peer::live).await.ok_or(error)
    }

    /// Discards a connection to a server that is no longer a master, and all that are older: they lead to the same
    /// server, or to one that was the master before it.
    pub(super) fn discard_former(&self, live: &Live) {
        live.discard();
        for other in self.open_to(&live.server) {
            if other.opened.at < live.opened.at {
                other.discard();
            }
        }
    }

    /// Returns a connection of another runtime to a server that refused a further one: the engine's, if it has any.
    async fn borrow(
        &self,
        server: &Arc<str>,
        error: &StoreError,
        of: fn(&Peer) -> Option<Arc<Live>>,
    ) -> Option<Arc<Live>> {
        if error.kind() != StoreErrorKind::Unavailable {
            return None;
        }
        let (engine, all) = (self.lines.of_engine(), self.lines.all());
        for line in iter::once(&engine).chain(all.iter()) {
            if let Some(live) = of(&line.peer(server))
                && !line.is_over(self.engine()).await
            {
                return Some(live);
            }
        }
        None
    }

    async fn connect_once(
        &self,
        peer: &Peer,
        server: Arc<str>,
        asked: Instant,
    ) -> Result<Arc<Live>, StoreError> {
        let mut last = peer.attempts.lock().await;
        if let Some(live) = peer.live() {
            return Ok(live);
        }
        if let Some((ended, error)) = &*last
            && *ended >= asked
        {
            return Err(error.clone());
        }
        // After a lost connection, the server may be a different one.
        let loaded = self.loaded().contains(&server) && !peer.was_live();
        match self.open(&server, loaded).await {
            Ok(live) => {
                let live = Arc::new(live);
                self.loaded().insert(server);
                peer.open(&live);
                Ok(live)
            }
            Err(error) => {
                let error = connection_error(&error, &self.address);
                *last = Some((clock::instant(), error.clone()));
                Err(error)
            }
        }
    }

    pub(super) fn loaded(&self) -> MutexGuard<'_, BTreeSet<Arc<str>>> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn open(&self, server: &Arc<str>, loaded: bool) -> RedisResult<Live> {
        let closed = Arc::new(AtomicBool::new(false));
        let node = self.address.node(server);
        let mut connection =
            connect(&self.address, node.as_ref(), &self.certificates, &closed).await?;
        let loading = connection.clone();
        let load = async {
            if !loaded {
                load(loading, super::script::ALL.iter().map(|script| script.text)).await;
            }
        };
        // Ages are measured by the server's clock, which is read in the middle of this round trip,
        // before the scripts are loaded.
        let time = async {
            let (time, sent) = (redis::cmd("TIME"), clock::instant());
            let reply: RedisResult<(u64, u64)> = time.query_async(&mut connection).await;
            (reply, sent + clock::instant().saturating_duration_since(sent) / 2)
        };
        // Both run concurrently, which saves a round trip. As long as they run, no other
        // attempt to connect begins.
        let both = async { tokio::join!(time, load) };
        let ((time, at), ()) = tokio::time::timeout(CONNECT_TIMEOUT, both)
            .await
            .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "no reply on a new connection"))?;
        let (seconds, us) = time?;
        let us = seconds.saturating_mul(1_000_000).saturating_add(us);
        let opened = ServerTime { at, us };
        Ok(Live::new(connection, Arc::clone(server), closed, opened))
    }

    /// Fails every call from now on, and closes the connections.
    pub(super) fn end(&self) {
        self.gates.end(&StoreError::shut_down());
        for line in self.lines.all().iter() {
            line.keep(|_| false);
        }
    }

    /// Makes calls fail at once from now on, and probes the server in the background: the node of these keys, or the one
    /// to which their call was `redirected`. Returns false if that was already so.
    pub(super) fn close(
        self: &Arc<Self>,
        keys: &StateKeys,
        error: StoreError,
        redirected: Option<&Arc<str>>,
    ) -> bool {
        if !self.gates.close(keys, error, redirected) {
            return false;
        }
        let (weak, keys, closed) = (Arc::downgrade(self), keys.clone(), clock::instant());
        self.engine().spawn_endless(async move {
            while let Some(delay) = weak.upgrade().map(|link| link.gates.next_delay(&keys)) {
                tokio::time::sleep(delay).await;
                let Some(link) = weak.upgrade() else { return };
                let mut probed = link.probe(&keys).await;
                if matches!(&probed, Err(error) if error.kind() == StoreErrorKind::Timeout)
                    && link.discard_lost(&keys, closed)
                {
                    probed = link.probe(&keys).await;
                }
                match probed {
                    Ok(server) => {
                        link.replace_doubtful(&server, closed);
                        link.gates.open(&keys);
                        break;
                    }
                    Err(error) => link.gates.stays_closed(&keys, error),
                }
            }
            watch(weak, keys).await;
        });
        true
    }

    /// Discards the engine's connection if there was no reply on it for long since the gate `closed`. It may be lost, and
    /// probes may be so rare that it would take seconds until as many fail on it as discard a connection.
    fn discard_lost(&self, keys: &StateKeys, closed: Instant) -> bool {
        if clock::instant() < closed + self.deadline * LOST_AFTER {
            return false;
        }
        let of_engine = self.lines.of_engine().peer(&self.last_server_of(keys)).live();
        let older = of_engine.filter(|live| live.opened.at < closed);
        older.inspect(|live| live.give_up()).is_some()
    }

    /// Discards the connections that missed a reply: another connection found the server, and these may lead
    /// to one that is gone. If that other one had to be opened since the call that closed the gate, so may all that are
    /// older.
    fn replace_doubtful(&self, server: &Arc<str>, closed: Instant) {
        let of_engine = self.lines.of_engine().peer(server).live();
        let new = of_engine.filter(|live| live.opened.at + self.deadline > closed);
        let is_older = |live: &Live| new.as_ref().is_some_and(|new| live.opened.at < new.opened.at);
        for live in self.open_to(server) {
            if live.is_doubtful() || is_older(&live) {
                live.give_up();
            }
        }
    }

    /// Sends a harmless write on the engine's own connection, with a call's deadline, and returns the server
    /// that executed it.
    async fn probe(self: &Arc<Self>, keys: &StateKeys) -> Result<Arc<str>, StoreError> {
        let line = self.lines.of_engine();
        if self.gates.are_of_a_cluster() {
            // Another node may serve the slot now.
            self.look_for_nodes(&line).await?;
        }
        let server = self.server_of(&line, keys).await?;
        let timed_out = || StoreError::timeout("redis: health check timed out");
        // If a node hangs, another one may take over its slots. The attempt continues, for the next probe.
        let connecting = tokio::time::timeout(self.deadline, self.connected(&line, &server));
        let (live, refused) = match connecting.await.map_err(|_| timed_out())? {
            Ok(live) => (live, None),
            Err(error) => match self.borrow(&server, &error, Peer::spare).await {
                Some(live) => (live, Some(error)),
                None => return Err(error),
            },
        };
        let question = super::script::probe(keys);
        let may_lack = self.gates.why_closed(keys).is_some_and(|why| may_lack_scripts(&why));
        let asked = async {
            let error = match live.query(&question).await {
                Err(error) if matches!(classify(&error), Fault::NotDone(NotDone::Moving(_))) => {
                    error
                }
                reply => return reply,
            };
            // While a slot moves, a key that is not there any more is asked for at its next node.
            let Some(home) = self.home_of_slot(&line, &live, &error).await else {
                return Err(error);
            };
            match self.connected(&line, &home).await {
                Ok(moved) => moved.query_moving(&question).await,
                Err(_) => Err(error),
            }
        };
        let Ok(reply) = tokio::time::timeout(self.deadline, asked).await else {
            live.timed_out();
            return Err(refused.unwrap_or_else(timed_out));
        };
        match reply {
            Ok(Value::Nil) => {}
            Ok(reply) => return Err(unknown_reply(&reply)),
            // The server works. Other calls may do what this one may not, such as access its keys.
            Err(error) if matches!(classify(&error), Fault::Permanent(_)) => {}
            Err(error) => {
                if error.is_connection_dropped()
                    || matches!(classify(&error), Fault::NotDone(NotDone::ReadOnly(_)))
                {
                    live.discard();
                }
                return Err(store_error(&error));
            }
        }
        if may_lack {
            let script = super::script::unknown();
            let called = tokio::time::timeout(self.deadline, live.query(&script)).await;
            if let Ok(Err(error)) = called
                && let Fault::Permanent(error) = classify(&error)
            {
                return Err(error);
            }
        }
        live.restore();
        Ok(server)
    }
}

/// Closes the gate again if the server fails while other processes may still look for it; few calls of this
/// process would notice. A busy process may miss a reply.
async fn watch(link: Weak<Link>, keys: StateKeys) {
    loop {
        tokio::time::sleep(WATCH_EVERY).await;
        let Some(link) = link.upgrade() else { return };
        if link.gates.recovers_until(&keys).is_none() || link.gates.why_closed(&keys).is_some() {
            return;
        }
        if let Err(error) = link.probe(&keys).await
            && error.kind() != StoreErrorKind::Timeout
        {
            link.close(&keys, error, None);
            return;
        }
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("address", &self.address).finish_non_exhaustive()
    }
}
