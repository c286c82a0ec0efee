//! A network one can cut: a TCP proxy in front of a server, on a thread of its own.
//!
//! It understands enough of the protocol to count commands and to lose the reply to a chosen one.
//! Other traffic, such as TLS or a replica's synchronization, is forwarded unchanged.

use std::{
    collections::HashMap,
    net::TcpListener,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    runtime::{self, Runtime},
    sync::watch,
    task::JoinHandle,
};

use crate::{eventually, ports::Port};

mod connection;
mod resp;

/// What happens to a connection whose reply was swallowed. It cannot go on: a client takes the next
/// reply on the connection for the missing one, which no failure of a network brings about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It is closed.
    Cut,
    /// It stays open and nothing comes back on it any more; commands still arrive.
    Hang,
    /// It is closed before the command arrives.
    Lose,
}

/// What has passed since the start, or since [`Proxy::reset_traffic`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Traffic {
    /// Connections accepted.
    pub connections: u64,
    /// Bytes from clients to the server.
    pub bytes_to_server: u64,
    /// Bytes from the server to clients, swallowed replies not included.
    pub bytes_to_clients: u64,
    /// Commands from clients to the server, by name in upper case.
    pub commands: HashMap<String, u64>,
    /// Replies swallowed.
    pub swallowed: u64,
    /// Script calls sent twice.
    pub repeated: u64,
}

impl Traffic {
    /// How often this command (in upper case) was sent.
    pub fn count(&self, command: &str) -> u64 {
        self.commands.get(command).copied().unwrap_or(0)
    }

    /// The number of commands sent.
    pub fn total(&self) -> u64 {
        self.commands.values().sum()
    }
}

/// Makes another reply of one.
pub type Alter = fn(&[u8]) -> Vec<u8>;

/// A proxy before a port of this machine; all its connections end when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    port: Port,
    shared: Arc<Shared>,
    accepting: Mutex<Option<JoinHandle<()>>>,
    runtime: Option<Runtime>,
}

#[derive(Debug)]
struct Shared {
    target: u16,
    link: watch::Sender<Link>,
    open: AtomicUsize,
    traffic: Mutex<Traffic>,
    swallow: Mutex<Swallow>,
    /// Every n-th script call is sent twice; none if this is 0.
    repeat_every: AtomicU64,
    script_calls: AtomicU64,
    /// The command whose replies are altered, and how.
    alter: Mutex<Option<(String, Alter)>>,
    /// How far ahead the server's clock seems to be, in seconds.
    ahead_s: AtomicI64,
}

/// The state of the network, as every connection watches it.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    /// Connections of an earlier generation are to be closed.
    generation: u64,
    /// How many times the connections were forgotten. Those from before the last time hang.
    forgotten: u64,
    to_server_stalled: bool,
    to_clients_stalled: bool,
    delay: Duration,
}

#[derive(Debug)]
struct Swallow {
    left: u64,
    command: Option<String>,
    then: Then,
}

impl Proxy {
    /// Starts a proxy to this port, whether something listens there or not.
    ///
    /// # Panics
    ///
    /// Panics if there is no port or no thread left for it.
    pub fn start(target: u16) -> Self {
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("proxy")
            .enable_all()
            .build()
            .expect("a runtime for the proxy");
        let shared = Shared {
            target,
            link: watch::Sender::new(Link::default()),
            open: AtomicUsize::new(0),
            traffic: Mutex::default(),
            swallow: Mutex::new(Swallow { left: 0, command: None, then: Then::Cut }),
            alter: Mutex::default(),
            repeat_every: AtomicU64::new(0),
            script_calls: AtomicU64::new(0),
            ahead_s: AtomicI64::new(0),
        };
        let proxy = Self {
            port: Port::reserve(),
            shared: Arc::new(shared),
            accepting: Mutex::new(None),
            runtime: Some(runtime),
        };
        proxy.listen();
        proxy
    }

    /// The port clients connect to.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// `127.0.0.1:<port>`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port())
    }

    /// `redis://127.0.0.1:<port>/0`.
    pub fn url(&self) -> String {
        format!("redis://{}/0", self.address())
    }

    /// Closes every connection and refuses new ones until [`restore`](Self::restore).
    pub fn cut(&self) {
        if let Some(accepting) = lock(&self.accepting).take() {
            accepting.abort();
            eventually("the proxy listens no more", Duration::from_secs(5), || {
                accepting.is_finished()
            });
        }
        self.drop_connections();
    }

    /// Closes every connection; new ones are accepted.
    pub fn drop_connections(&self) {
        self.shared.link.send_modify(|link| link.generation += 1);
        eventually("the connections are closed", Duration::from_secs(5), || {
            self.shared.open.load(Ordering::SeqCst) == 0
        });
    }

    /// Lets nothing through on the open connections any more, as a firewall that has forgotten them; new
    /// ones work.
    pub fn forget_connections(&self) {
        self.shared.link.send_modify(|link| link.forgotten += 1);
    }

    /// Lets nothing through in either direction until [`restore`](Self::restore); connections stay
    /// open, new ones are accepted, and what was sent meanwhile arrives afterwards, as over a
    /// network that came back.
    pub fn blackhole(&self) {
        self.shared.link.send_modify(|link| {
            link.to_server_stalled = true;
            link.to_clients_stalled = true;
        });
    }

    /// Lets commands through and holds the replies back until [`restore`](Self::restore).
    pub fn blackhole_replies(&self) {
        self.shared.link.send_modify(|link| link.to_clients_stalled = true);
    }

    /// Delays what the server sends by this much, without reordering it; zero ends it.
    pub fn delay(&self, delay: Duration) {
        self.shared.link.send_modify(|link| link.delay = delay);
    }

    /// Swallows the next `replies` to any commands, including those that open a connection.
    pub fn swallow_replies(&self, replies: u64, then: Then) {
        *lock(&self.shared.swallow) = Swallow { left: replies, command: None, then };
    }

    /// Swallows the next `replies` to one command, given in upper case; those to other commands
    /// pass.
    pub fn swallow_replies_to(&self, command: &str, replies: u64, then: Then) {
        let command = Some(command.to_owned());
        *lock(&self.shared.swallow) = Swallow { left: replies, command, then };
    }

    /// Sends every n-th `EVAL` or `EVALSHA` twice, byte for byte, and passes on the second reply, like a
    /// client that retries after it lost the first one.
    pub fn repeat_scripts(&self, every: u64) {
        self.shared.repeat_every.store(every, Ordering::SeqCst);
    }

    /// Alters the replies to one command, given in upper case, like a server that is not ours.
    pub fn alter_replies_to(&self, command: &str, alter: Alter) {
        *lock(&self.shared.alter) = Some((command.to_owned(), alter));
    }

    /// Adds seconds to the replies to `TIME`, but not to what a script reads: as if the server's clock were set
    /// after a client has read it.
    pub fn shift_time(&self, seconds: i64) {
        self.shared.ahead_s.store(seconds, Ordering::SeqCst);
    }

    /// Ends what [`cut`](Self::cut), [`blackhole`](Self::blackhole),
    /// [`blackhole_replies`](Self::blackhole_replies), [`delay`](Self::delay),
    /// [`repeat_scripts`](Self::repeat_scripts), [`shift_time`](Self::shift_time),
    /// [`alter_replies_to`](Self::alter_replies_to) and the swallowing of replies began. A connection that already hangs stays so.
    pub fn restore(&self) {
        lock(&self.shared.swallow).left = 0;
        *lock(&self.shared.alter) = None;
        self.repeat_scripts(0);
        self.shift_time(0);
        self.shared.link.send_modify(|link| {
            let Link { generation, forgotten, .. } = *link;
            *link = Link { generation, forgotten, ..Link::default() };
        });
        self.listen();
    }

    /// What has passed.
    pub fn traffic(&self) -> Traffic {
        lock(&self.shared.traffic).clone()
    }

    /// Begins to count from zero.
    pub fn reset_traffic(&self) {
        *lock(&self.shared.traffic) = Traffic::default();
    }

    /// The number of connections open now.
    pub fn open_connections(&self) -> usize {
        self.shared.open.load(Ordering::SeqCst)
    }

    /// Accepts connections again after a [`cut`](Self::cut).
    pub fn listen(&self) {
        let mut accepting = lock(&self.accepting);
        if accepting.is_some() {
            return;
        }
        // A process that another thread starts holds the former listener until it is executed.
        let mut listener = None;
        eventually("the port is free again", Duration::from_secs(5), || {
            listener = TcpListener::bind(self.address()).ok();
            listener.is_some()
        });
        let listener = listener.expect("a listener, or a panic before");
        listener.set_nonblocking(true).expect("a listener can be non-blocking");
        let runtime = self.runtime.as_ref().expect("the runtime lives until the end");
        *accepting = Some(runtime.spawn(connection::accept(listener, Arc::clone(&self.shared))));
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A plain drop would wait, which async tests may not.
            runtime.shutdown_background();
        }
    }
}

impl Shared {
    fn count(&self, change: impl FnOnce(&mut Traffic)) {
        change(&mut lock(&self.traffic));
    }

    /// Whether this command is one to be sent twice.
    fn repeats(&self, command: &str) -> bool {
        let every = self.repeat_every.load(Ordering::SeqCst);
        if every == 0 || !["EVAL", "EVALSHA"].contains(&command) {
            return false;
        }
        (self.script_calls.fetch_add(1, Ordering::SeqCst) + 1).is_multiple_of(every)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
