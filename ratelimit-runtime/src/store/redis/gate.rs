//! The circuit breakers: which calls fail immediately, and which outages are reported to operators.
//!
//! One gate for a server, many for a cluster, so that a dead node does not close the gates of other nodes.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwapOption;
use tokio::{sync::Notify, time::Instant};

use super::{
    fault::concerns_cluster,
    nodes::{Node, Nodes},
};
use crate::{
    StoreError, clock,
    events::{Event, Events},
    store::StateKeys,
};

const CLUSTER_GATES: usize = 64;
const SLOTS: u16 = 16_384;
const FIRST_PROBE_AFTER: Duration = Duration::from_millis(50);
const LAST_PROBE_AFTER: Duration = Duration::from_secs(1);
/// A gate that closes again sooner than this after it opened counts as the same outage.
const STEADY_AFTER: Duration = Duration::from_secs(10);
/// How often an ongoing outage is reported.
const REPORT_EVERY: Duration = Duration::from_secs(60);

pub(super) struct Gates {
    gates: Box<[Mutex<Gate>]>,
    /// Which node serves which slots; `None` for a single server.
    nodes: ArcSwapOption<Nodes>,
    /// By the address of the node; `None` for a single server, or if the node is unknown.
    reported: Mutex<HashMap<Option<Arc<str>>, Reported>>,
    /// Whether the gates stay closed.
    ended: AtomicBool,
    /// Until when other processes may look for any server that was found here, in milliseconds since `began`.
    recovers_for_ms: AtomicU64,
    began: Instant,
    /// How long they may need to find a server that is available.
    peers_take: Duration,
    reopened: Arc<Notify>,
    events: Events,
}

#[derive(Default)]
struct Gate {
    /// Why calls fail immediately, for each node that does not work; empty while the gate is open.
    closed: Vec<Closed>,
    opened: Option<Instant>,
    /// The delay of the last probe.
    delay: Duration,
}

/// Why a gate is closed, and for the slots of which node; for all slots if that is unknown.
struct Closed {
    error: StoreError,
    node: Option<Arc<Node>>,
}

/// What was last reported of a node.
#[derive(Default)]
struct Reported {
    is_down: bool,
    down: Option<Instant>,
}

impl Gates {
    pub(super) fn new(is_cluster: bool, deadline: Duration, events: Events) -> Self {
        let gates = if is_cluster { CLUSTER_GATES } else { 1 };
        let gates = (0..gates).map(|_| Mutex::default()).collect();
        Self {
            gates,
            nodes: ArcSwapOption::empty(),
            reported: Mutex::default(),
            ended: AtomicBool::new(false),
            recovers_for_ms: AtomicU64::new(0),
            began: clock::instant(),
            peers_take: LAST_PROBE_AFTER + deadline,
            reopened: Arc::default(),
            events,
        }
    }

    /// Returns whether there is more than one node.
    pub(super) fn are_of_a_cluster(&self) -> bool {
        self.gates.len() > 1
    }

    /// Records which node serves which slots now.
    pub(super) fn learn(&self, nodes: Nodes) {
        self.nodes.store(Some(Arc::new(nodes)));
    }

    pub(super) fn why_closed(&self, keys: &StateKeys) -> Option<StoreError> {
        Some(self.gate(keys).closed_for(keys)?.error.clone().held())
    }

    /// Returns why a gate is closed, if any is.
    pub(super) fn health(&self) -> Result<(), StoreError> {
        let why = self.gates.iter().find_map(|gate| Some(lock(gate).closed.first()?.error.clone()));
        why.map_or(Ok(()), Err)
    }

    /// Closes the gate of these keys, for the slots of their node, or of the node to which their call was `redirected`.
    /// Returns false if it was closed already.
    pub(super) fn close(
        &self,
        keys: &StateKeys,
        error: StoreError,
        redirected: Option<&Arc<str>>,
    ) -> bool {
        // An error of the whole cluster concerns no single node.
        let node = match concerns_cluster(&error) {
            true => None,
            false => self.failed_node(keys, redirected),
        };
        let mut gate = self.gate(keys);
        if self.is_ended() {
            return false;
        }
        if let Some(closed) = gate.closed_for(keys) {
            closed.error = error;
            return false;
        }
        gate.closed.push(Closed { error: error.clone(), node: node.clone() });
        // A server that fails again and again is probed as rarely as one that stays down.
        if is_past(gate.opened, STEADY_AFTER) {
            gate.delay = Duration::ZERO;
        }
        drop(gate);
        self.report_down(error, node.as_deref());
        true
    }

    /// Records why the gate is still closed.
    pub(super) fn stays_closed(&self, keys: &StateKeys, error: StoreError) {
        let mut gate = self.gate(keys);
        if self.is_ended() {
            return;
        }
        let Some(closed) = gate.closed_for(keys) else { return };
        closed.error = error.clone();
        let node = closed.node.clone();
        drop(gate);
        self.report_down(error, node.as_deref());
    }

    pub(super) fn open(&self, keys: &StateKeys) {
        let mut gate = self.gate(keys);
        if self.is_ended() {
            return;
        }
        let now = clock::instant();
        let recovers_for = now + self.peers_take - self.began;
        let recovers_for_ms = u64::try_from(recovers_for.as_millis()).unwrap_or(u64::MAX);
        // Set before the first call passes the gate.
        self.recovers_for_ms.fetch_max(recovers_for_ms, Ordering::AcqRel);
        // The first that covers these keys is the one that their probe belongs to.
        let closed = gate.closed.iter().position(|closed| closed.covers(keys));
        let node = closed.and_then(|n| gate.closed.remove(n).node);
        gate.opened = Some(now);
        drop(gate);
        // A task that starts to wait after this wakes at once.
        self.reopened.notify_one();
        let is_of = |closed: &Closed| address(closed.node.as_deref()) == address(node.as_deref());
        if !self.gates.iter().any(|gate| lock(gate).closed.iter().any(is_of)) {
            self.report_up(node.as_deref());
        }
    }

    /// Returns until when other processes may not have found the server of these keys that this one found
    /// again; `None` if that time is over.
    pub(super) fn recovers_until(&self, keys: &StateKeys) -> Option<Instant> {
        let recovers_for_ms = self.recovers_for_ms.load(Ordering::Acquire);
        if recovers_for_ms == 0 {
            return None;
        }
        let now = clock::instant();
        if now > self.began + Duration::from_millis(recovers_for_ms) {
            return None;
        }
        let until = self.gate(keys).opened? + self.peers_take;
        (now < until).then_some(until)
    }

    /// Closes all gates for good, and reports nothing.
    pub(super) fn end(&self, error: &StoreError) {
        self.ended.store(true, Ordering::Release);
        for gate in &self.gates {
            lock(gate).closed = vec![Closed { error: error.clone(), node: None }];
        }
    }

    /// Called while a gate is locked, so that no gate changes after the end.
    fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    pub(super) fn reopened(&self) -> Arc<Notify> {
        Arc::clone(&self.reopened)
    }

    /// Returns the delay until the next probe, which grows each time.
    pub(super) fn next_delay(&self, keys: &StateKeys) -> Duration {
        let mut gate = self.gate(keys);
        gate.delay = (gate.delay * 2).clamp(FIRST_PROBE_AFTER, LAST_PROBE_AFTER);
        gate.delay
    }

    /// Returns the last known node that serves these keys.
    pub(super) fn node_of(&self, keys: &StateKeys) -> Option<Arc<Node>> {
        self.nodes.load().as_ref()?.of(slot(keys))
    }

    /// Returns the node that failed: the one that serves these keys, or the one to which it redirected their call.
    fn failed_node(&self, keys: &StateKeys, redirected: Option<&Arc<str>>) -> Option<Arc<Node>> {
        let known = self.node_of(keys);
        match redirected {
            Some(server) if known.as_ref().is_none_or(|node| node.address != *server) => {
                Some(Arc::new(self.nodes()?.with_slot(server, slot(keys))))
            }
            _ => known,
        }
    }

    /// Returns all known nodes of a cluster.
    pub(super) fn nodes(&self) -> Option<Arc<Nodes>> {
        self.nodes.load_full()
    }

    /// Reports an outage of a node when it begins, and every minute while it lasts. Outages within ten seconds
    /// are reported once, and so is a cluster that rejects calls because of a node.
    fn report_down(&self, error: StoreError, node: Option<&Node>) {
        let mut all = lock(&self.reported);
        if node.is_none() && all.iter().any(|(node, known)| node.is_some() && known.is_down) {
            return;
        }
        // Nodes come and go.
        all.retain(|_, known| known.is_down || !is_past(known.down, STEADY_AFTER));
        let reported = all.entry(address(node)).or_default();
        let every = if reported.is_down { REPORT_EVERY } else { STEADY_AFTER };
        if !is_past(reported.down, every) {
            return;
        }
        (reported.is_down, reported.down) = (true, Some(clock::instant()));
        drop(all);
        let (node, slots) = (address(node), node.map(Node::slots));
        self.events.emit(&Event::StoreDown { error, node, slots });
    }

    fn report_up(&self, node: Option<&Node>) {
        let mut all = lock(&self.reported);
        let reported = all.get_mut(&address(node));
        if reported.is_some_and(|reported| std::mem::take(&mut reported.is_down)) {
            drop(all);
            let (node, slots) = (address(node), node.map(Node::slots));
            self.events.emit(&Event::StoreUp { node, slots });
        }
    }

    fn gate(&self, keys: &StateKeys) -> MutexGuard<'_, Gate> {
        lock(match &self.gates[..] {
            [gate] => gate,
            gates => &gates[usize::from(slot(keys)) * gates.len() / usize::from(SLOTS)],
        })
    }
}

impl Gate {
    fn closed_for(&mut self, keys: &StateKeys) -> Option<&mut Closed> {
        self.closed.iter_mut().find(|closed| closed.covers(keys))
    }
}

impl Closed {
    fn covers(&self, keys: &StateKeys) -> bool {
        self.node.as_ref().is_none_or(|node| node.serves(slot(keys)))
    }
}

fn address(node: Option<&Node>) -> Option<Arc<str>> {
    node.map(|node| Arc::clone(&node.address))
}

/// Returns whether something happened at least this long ago, or never.
fn is_past(last: Option<Instant>, least: Duration) -> bool {
    last.is_none_or(|last| clock::instant().saturating_duration_since(last) >= least)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the cluster slot of a limiter's keys, by the Redis Cluster specification.
pub(super) fn slot(keys: &StateKeys) -> u16 {
    // CRC-16/XMODEM.
    let crc = keys.tag().bytes().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    });
    crc % SLOTS
}

#[cfg(test)]
mod tests {
    use redis::Value;

    use super::*;

    /// Slots 5376 to 5631 have one gate, and by default two nodes.
    #[test]
    fn two_nodes_of_one_gate_open_one_after_the_other() {
        let node = |first, last, port| {
            let node = Value::Array(vec![Value::BulkString(b"host".to_vec()), Value::Int(port)]);
            Value::Array(vec![Value::Int(first), Value::Int(last), node])
        };
        let nodes = Value::Array(vec![node(0, 5460, 1), node(5461, 16_383, 2)]);
        let gates = Gates::new(true, Duration::from_millis(100), Events::default());
        gates.learn(Nodes::read(&nodes, "host").unwrap());
        let in_slots = |slots: std::ops::RangeInclusive<u16>| {
            let mut keys = (0..).map(|n| StateKeys::new(format!("{{{n}}}")));
            keys.find(|keys| slots.contains(&slot(keys))).unwrap()
        };
        let [first, second] = [in_slots(5376..=5460), in_slots(5461..=5631)];
        let error = || StoreError::unavailable("gone");
        let close = |keys| gates.close(keys, error(), None);
        assert!(close(&first) && !close(&first));
        assert!(gates.why_closed(&second).is_none());
        assert!(close(&second), "another node needs a probe of its own");
        gates.stays_closed(&first, error());
        gates.open(&second);
        assert!(gates.why_closed(&second).is_none() && gates.why_closed(&first).is_some());
        gates.open(&first);
        assert!(gates.health().is_ok());
    }

    #[test]
    fn nodes_that_come_and_go_are_not_kept_for_good() {
        let gates = Gates::new(true, Duration::from_millis(100), Events::default());
        for port in 0..100 {
            let node = Value::Array(vec![Value::BulkString(b"host".to_vec()), Value::Int(port)]);
            let range = Value::Array(vec![Value::Int(0), Value::Int(16_383), node]);
            gates.learn(Nodes::read(&Value::Array(vec![range]), "host").unwrap());
            let keys = StateKeys::new("x");
            gates.close(&keys, StoreError::unavailable("gone"), None);
            gates.open(&keys);
            // That was long ago.
            lock(&gates.reported).values_mut().for_each(|known| known.down = None);
        }
        assert_eq!(lock(&gates.reported).len(), 1);
    }

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(slot(&StateKeys::new("123456789")), 0x31C3);
        assert_eq!(slot(&StateKeys::new("{foo}:value")), slot(&StateKeys::new("foo")));
    }
}
