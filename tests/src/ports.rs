//! Ports for servers: below the kernel's range for outgoing connections, so that no connection can
//! take the port of a server that is briefly down, and low enough for the cluster bus, which
//! listens 10000 higher.

use std::{
    collections::BTreeSet,
    net::TcpListener,
    process,
    sync::{Mutex, MutexGuard, PoisonError},
};

const FIRST: u16 = 10_000;
const BLOCK: u16 = 100;
const BLOCKS: u16 = 100;
const BUS: u16 = 10_000;

/// A port reserved for this process until it is dropped.
#[derive(Debug)]
pub struct Port(u16);

impl Port {
    /// Finds a port on which nothing listens and that no other `Port` of any test process reserves.
    ///
    /// # Panics
    ///
    /// Panics if every port is taken.
    pub fn reserve() -> Self {
        let mut blocks = lock();
        if let Some(port) = blocks.iter_mut().find_map(Block::take) {
            return Self(port);
        }
        let mut block = Block::claim().expect("a free block of ports");
        let port = block.take().expect("a free port in a fresh block");
        blocks.push(block);
        Self(port)
    }

    /// Returns the port number.
    pub fn number(&self) -> u16 {
        self.0
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        for block in lock().iter_mut() {
            block.in_use.remove(&self.0);
        }
    }
}

/// The ports that a process owns while it listens on the first of them; the kernel releases them when
/// the process ends.
#[derive(Debug)]
struct Block {
    _claim: TcpListener,
    base: u16,
    last: u16,
    in_use: BTreeSet<u16>,
}

impl Block {
    fn claim() -> Option<Self> {
        // Processes start their search at different ports only for speed.
        let start = u16::try_from(process::id() % u32::from(BLOCKS)).unwrap_or(0);
        (0..BLOCKS).map(|step| FIRST + (start + step) % BLOCKS * BLOCK).find_map(|base| {
            let claim = TcpListener::bind(("127.0.0.1", base)).ok()?;
            Some(Self { _claim: claim, base, last: base, in_use: BTreeSet::new() })
        })
    }

    /// Returns the next free port, so that one just released is reused last: clients of its former server
    /// may still call it.
    fn take(&mut self) -> Option<u16> {
        let size = BLOCK - 1;
        let port = (0..size)
            .map(|step| self.base + 1 + (self.last - self.base + step) % size)
            .find(|port| !self.in_use.contains(port) && is_free(*port) && is_free(*port + BUS))?;
        self.last = port;
        self.in_use.insert(port);
        Some(port)
    }
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

fn lock() -> MutexGuard<'static, Vec<Block>> {
    static OWN: Mutex<Vec<Block>> = Mutex::new(Vec::new());
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}
