//! Which calls are turned away at once, and what operators hear of it.
//!
//! One gate for a server, many for a cluster, so that a dead node does not close the others' gates.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use crate::{
    StoreError, clock,
    events::{Event, Events},
    store::StateKeys,
};

const CLUSTER_GATES: usize = 64;
const SLOTS: u16 = 16_384;
const FIRST_PROBE_AFTER: Duration = Duration::from_millis(50);
const LAST_PROBE_AFTER: Duration = Duration::from_secs(1);
/// A gate that closes again sooner than this after it opened closes for the same reason.
const STEADY_AFTER: Duration = Duration::from_secs(10);
/// How often an outage that lasts is reported.
const REPORT_EVERY: Duration = Duration::from_secs(60);

pub(super) struct Gates {
    gates: Box<[Mutex<Gate>]>,
    reported: Mutex<Reported>,
    /// Whether they stay closed.
    ended: AtomicBool,
    reopened: Arc<Notify>,
    events: Events,
}

#[derive(Default)]
struct Gate {
    /// Why calls are turned away; `None` while the gate is open.
    closed: Option<StoreError>,
    opened: Option<Instant>,
    /// How long the last probe was put off.
    delay: Duration,
}

/// What operators heard last.
#[derive(Default)]
struct Reported {
    is_down: bool,
    down: Option<Instant>,
    up: Option<Instant>,
}

impl Gates {
    pub(super) fn new(is_cluster: bool, events: Events) -> Self {
        let gates = if is_cluster { CLUSTER_GATES } else { 1 };
        let gates = (0..gates).map(|_| Mutex::default()).collect();
        let (reported, reopened) = (Mutex::default(), Arc::default());
        Self { gates, reported, ended: AtomicBool::new(false), reopened, events }
    }

    pub(super) fn why_closed(&self, keys: &StateKeys) -> Option<StoreError> {
        // What is turned away was not sent.
        self.gate(keys).closed.clone().map(|error| error.in_doubt(false))
    }

    /// Why any gate is closed.
    pub(super) fn why_any_closed(&self) -> Option<StoreError> {
        self.gates.iter().find_map(|gate| lock(gate).closed.clone())
    }

    /// Closes the gate of these keys. Returns false if it was closed already.
    pub(super) fn close(&self, keys: &StateKeys, error: StoreError) -> bool {
        let mut gate = self.gate(keys);
        if self.is_ended() || gate.closed.replace(error.clone()).is_some() {
            return false;
        }
        // What comes and goes is looked for as rarely as what is gone.
        if is_past(gate.opened, STEADY_AFTER) {
            gate.delay = Duration::ZERO;
        }
        drop(gate);
        self.report_down(error);
        true
    }

    /// Takes note of why the gate is still closed.
    pub(super) fn stays_closed(&self, keys: &StateKeys, error: StoreError) {
        let mut gate = self.gate(keys);
        if self.is_ended() {
            return;
        }
        gate.closed = Some(error.clone());
        drop(gate);
        self.report_down(error);
    }

    pub(super) fn open(&self, keys: &StateKeys) {
        let mut gate = self.gate(keys);
        if self.is_ended() {
            return;
        }
        gate.closed = None;
        gate.opened = Some(clock::instant());
        drop(gate);
        // Whoever comes to wait too late is woken at once.
        self.reopened.notify_one();
        if self.gates.iter().all(|gate| lock(gate).closed.is_none()) {
            self.report_up();
        }
    }

    /// Closes all gates for good, and reports nothing.
    pub(super) fn end(&self, error: &StoreError) {
        self.ended.store(true, Ordering::Release);
        for gate in &self.gates {
            lock(gate).closed = Some(error.clone());
        }
    }

    /// Is asked while a gate is held, so that none changes after the end.
    fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    pub(super) fn reopened(&self) -> Arc<Notify> {
        Arc::clone(&self.reopened)
    }

    /// How long to wait until the next probe: longer each time.
    pub(super) fn next_delay(&self, keys: &StateKeys) -> Duration {
        let mut gate = self.gate(keys);
        gate.delay = (gate.delay * 2).clamp(FIRST_PROBE_AFTER, LAST_PROBE_AFTER);
        gate.delay
    }

    /// Reports an outage when it begins, and every minute while it lasts. What comes and goes is one
    /// outage.
    fn report_down(&self, error: StoreError) {
        let mut reported = lock(&self.reported);
        let is_new = !reported.is_down && is_past(reported.up, STEADY_AFTER);
        if !is_new && !is_past(reported.down, REPORT_EVERY) {
            return;
        }
        (reported.is_down, reported.down) = (true, Some(clock::instant()));
        drop(reported);
        self.events.emit(&Event::StoreDown { error });
    }

    fn report_up(&self) {
        let mut reported = lock(&self.reported);
        reported.up = Some(clock::instant());
        if std::mem::take(&mut reported.is_down) {
            drop(reported);
            self.events.emit(&Event::StoreUp);
        }
    }

    fn gate(&self, keys: &StateKeys) -> MutexGuard<'_, Gate> {
        lock(match &self.gates[..] {
            [gate] => gate,
            gates => &gates[usize::from(slot(keys.config())) * gates.len() / usize::from(SLOTS)],
        })
    }
}

/// Whether something happened at least this long ago, or never.
fn is_past(last: Option<Instant>, least: Duration) -> bool {
    last.is_none_or(|last| clock::instant().saturating_duration_since(last) >= least)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

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

#[cfg(test)]
mod tests {
    use super::slot;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(slot("123456789"), 0x31C3);
        assert_eq!(slot("{foo}:value"), slot("foo"));
    }
}
