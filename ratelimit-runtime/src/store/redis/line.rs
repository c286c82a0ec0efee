//! The connections of one runtime: one to each server that it calls.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use arc_swap::{ArcSwap, ArcSwapOption};
use redis::{Cmd, RedisResult, Value, aio::MultiplexedConnection};
use tokio::{sync::Mutex, time::Instant};

use crate::{StoreError, clock};

/// Consecutive timeouts after which a connection is given up.
const GIVE_UP_AFTER: u32 = 3;
/// How far the server's time may be from the estimate, in microseconds. Beyond that, a clock was set, or stood still.
const ESTIMATED_US: u64 = 1_000_000;

/// The connections of one runtime.
#[derive(Default)]
pub(super) struct Line {
    /// By address, as in [`Live::server`].
    peers: ArcSwap<BTreeMap<Arc<str>, Arc<Peer>>>,
    /// Limits queries for the nodes of a cluster to one at a time, and holds the last result.
    pub(super) looks: Mutex<Option<(Instant, Result<(), StoreError>)>>,
}

/// One server.
#[derive(Default)]
pub(super) struct Peer {
    live: ArcSwapOption<Live>,
    /// Limits connection attempts to one at a time, and holds the last failure.
    pub(super) attempts: Mutex<Option<(Instant, StoreError)>>,
}

/// The server's time at an instant of this process, in microseconds.
#[derive(Clone, Copy)]
pub(super) struct ServerTime {
    pub(super) at: Instant,
    pub(super) us: u64,
}

/// An open connection, and the server's time when it was opened.
pub(super) struct Live {
    pub(super) connection: MultiplexedConnection,
    /// `host:port` of a node of a cluster; empty for a single server.
    pub(super) server: Arc<str>,
    closed: Arc<AtomicBool>,
    /// Consecutive calls without a reply in time.
    timeouts: AtomicU32,
    pub(super) opened: ServerTime,
    /// The server's time as of the first reply after a clock was set. Earlier instants have the time of before.
    set: ArcSwapOption<ServerTime>,
}

impl Line {
    /// Returns the connection state of a server.
    pub(super) fn peer(&self, server: &Arc<str>) -> Arc<Peer> {
        if let Some(peer) = self.peers.load().get(server) {
            return Arc::clone(peer);
        }
        self.peers.rcu(|peers| {
            let mut peers = BTreeMap::clone(peers);
            peers.entry(Arc::clone(server)).or_default();
            peers
        });
        // If it was removed in between, this caller gets its own.
        self.peers.load().get(server).map_or_else(Arc::default, Arc::clone)
    }

    /// Closes the connections to all servers that are not known.
    pub(super) fn keep(&self, is_known: impl Fn(&str) -> bool) {
        if self.peers.load().keys().all(|server| is_known(server)) {
            return;
        }
        self.peers.rcu(|peers| {
            let mut peers = BTreeMap::clone(peers);
            peers.retain(|server, _| is_known(server));
            peers
        });
    }
}

impl Peer {
    /// Returns the connection if it is open.
    pub(super) fn live(&self) -> Option<Arc<Live>> {
        self.live.load_full().filter(|live| live.is_open())
    }

    /// Returns the connection unless it was closed: a server that refuses a further one may reply on one that was given up.
    pub(super) fn spare(&self) -> Option<Arc<Live>> {
        self.live.load_full().filter(|live| !live.is_closed())
    }

    /// Returns whether there was ever a connection.
    pub(super) fn was_live(&self) -> bool {
        self.live.load().is_some()
    }

    pub(super) fn open(&self, live: &Arc<Live>) {
        self.live.store(Some(Arc::clone(live)));
    }
}

impl Live {
    /// Creates it for a connection that sets `closed` when the server disconnects.
    pub(super) fn new(
        connection: MultiplexedConnection,
        server: Arc<str>,
        closed: Arc<AtomicBool>,
        opened: ServerTime,
    ) -> Self {
        let (timeouts, set) = (AtomicU32::new(0), ArcSwapOption::empty());
        Self { connection, server, closed, timeouts, opened, set }
    }

    pub(super) async fn query(&self, command: &Cmd) -> RedisResult<Value> {
        // Avoids the box that the driver's trait needs.
        self.connection.clone().send_packed_command(command).await?.extract_error()
    }

    /// Converts an instant to microseconds by the server's clock.
    pub(super) fn server_time(&self, instant: Instant) -> u64 {
        let us = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let set = self.set.load().as_deref().copied();
        let known = set.filter(|set| instant > set.at).unwrap_or(self.opened);
        match known.at.checked_duration_since(instant) {
            Some(before) => known.us.saturating_sub(us(before)),
            None => known.us.saturating_add(us(instant - known.at)),
        }
    }

    /// Compares the time in a reply to a call with the estimate, which is wrong after a clock was set.
    pub(super) fn hear_time(&self, now_ms: u64, sent: Instant) {
        let (at, us) = (clock::instant(), now_ms.saturating_mul(1000));
        let latest = self.server_time(at);
        // A reply may be read late.
        let earliest = self.server_time(sent).min(latest);
        if us.abs_diff(us.clamp(earliest, latest)) > ESTIMATED_US {
            self.set.store(Some(Arc::new(ServerTime { at, us })));
        }
    }

    /// Discards the connection, so that the next call opens another; under Sentinel, that call looks up the
    /// master again.
    pub(super) fn discard(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Discards the connection unless it is restored.
    pub(super) fn give_up(&self) {
        self.timeouts.fetch_max(GIVE_UP_AFTER, Ordering::Relaxed);
    }

    /// Uses the connection again, after the server refused another one and replied on this one.
    pub(super) fn restore(&self) {
        self.timeouts.store(0, Ordering::Relaxed);
    }

    /// Records a reply: the connection works. One that was given up may lead to a former master.
    pub(super) fn answered(&self) {
        if (1..GIVE_UP_AFTER).contains(&self.timeouts.load(Ordering::Relaxed)) {
            self.restore();
        }
    }

    /// Records a call without a reply in time.
    pub(super) fn timed_out(&self) {
        self.timeouts.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns whether the last call had no reply in time.
    pub(super) fn is_doubtful(&self) -> bool {
        self.timeouts.load(Ordering::Relaxed) > 0
    }

    fn is_open(&self) -> bool {
        !self.is_closed() && self.timeouts.load(Ordering::Relaxed) < GIVE_UP_AFTER
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}
