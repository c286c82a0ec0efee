//! One connection through the proxy.

use std::{
    collections::VecDeque,
    io,
    pin::pin,
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::mpsc,
    time::{Instant, sleep_until},
};

use super::{
    Link, Shared, Then, lock,
    resp::{self, Message},
};

type Chunk = (Instant, Vec<u8>);

pub(super) async fn accept(listener: std::net::TcpListener, shared: Arc<Shared>) {
    let listener = TcpListener::from_std(listener).expect("a runtime with I/O");
    loop {
        // Failures here are passing ones, such as no file descriptor left.
        let Ok((client, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        };
        let mut link = shared.link.subscribe();
        let mut also_link = shared.link.subscribe();
        let Link { generation, forgotten, .. } = *link.borrow_and_update();
        shared.count(|traffic| traffic.connections += 1);
        let open = Open::new(&shared);
        tokio::spawn(async move {
            let shared = Arc::clone(&open.0);
            let cut = async { link.wait_for(|link| link.generation > generation).await.map(drop) };
            let forget =
                async { also_link.wait_for(|link| link.forgotten > forgotten).await.map(drop) };
            let (mut cut, mut forward) = (pin!(cut), pin!(forward(client, &shared)));
            // Whichever ends first takes both sockets with it.
            tokio::select! {
                _ = &mut cut => {}
                _ = &mut forward => {}
                _ = forget => drop(cut.await),
            }
        });
    }
}

/// Counts a connection as open while it exists; declared before the sockets, so that it ends after
/// them.
struct Open(Arc<Shared>);

impl Open {
    fn new(shared: &Arc<Shared>) -> Self {
        shared.open.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(shared))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn forward(client: TcpStream, shared: &Shared) -> io::Result<()> {
    pass(shared, |link| link.to_server_stalled).await;
    let server = TcpStream::connect(("127.0.0.1", shared.target)).await?;
    // A proxy that collects bytes would add its own delays.
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let (chunks, delayed) = mpsc::unbounded_channel();
    let asked = Asked::default();
    // What came before the server's end, or before a swallowed reply, is still delivered.
    let answer = async {
        tokio::join!(
            replies(from_server, chunks, &asked, shared),
            deliver(delayed, to_client, shared)
        )
    };
    tokio::select! {
        ended = requests(from_client, to_server, &asked, shared) => ended,
        (read, written) = answer => read.and(written),
    }
}

/// The commands without a reply yet, oldest first, each with whether the client should receive it.
#[derive(Default)]
struct Asked(Mutex<(VecDeque<(String, bool)>, bool)>);

impl Asked {
    fn push(&self, command: &str, heard: bool) {
        let mut asked = lock(&self.0);
        // From here on the two sides stream to each other.
        asked.1 |= ["PSYNC", "SYNC"].contains(&command);
        asked.0.push_back((command.to_owned(), heard));
    }

    fn pop(&self) -> Option<(String, bool)> {
        lock(&self.0).0.pop_front()
    }

    fn is_stream(&self) -> bool {
        lock(&self.0).1
    }
}

async fn requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    asked: &Asked,
    shared: &Shared,
) -> io::Result<()> {
    let mut splitter = Splitter::default();
    while let Some(chunk) = read(&mut from).await? {
        pass(shared, |link| link.to_server_stalled).await;
        shared.count(|traffic| traffic.bytes_to_server += chunk.len() as u64);
        splitter.foreign |= asked.is_stream();
        let before = splitter.rest.len();
        let (mut end, mut again, mut is_lost) = (0, Vec::new(), false);
        splitter.feed(&chunk, |message| {
            let command = resp::command_name(message);
            end += message.len();
            is_lost |= swallow(shared, Some(&command), |then| then == Then::Lose).is_some();
            if shared.repeats(&command) {
                asked.push(&command, false);
                again.push((end - before, message.to_vec()));
                shared.count(|traffic| traffic.repeated += 1);
            }
            asked.push(&command, true);
            shared.count(|traffic| *traffic.commands.entry(command).or_default() += 1);
        });
        if is_lost {
            return Ok(());
        }
        if splitter.foreign {
            splitter.rest.clear();
        }
        let mut sent = 0;
        for (end, message) in again {
            to.write_all(&chunk[sent..end]).await?;
            to.write_all(&message).await?;
            sent = end;
        }
        to.write_all(&chunk[sent..]).await?;
    }
    Ok(())
}

async fn replies(
    mut from: OwnedReadHalf,
    chunks: mpsc::UnboundedSender<Chunk>,
    asked: &Asked,
    shared: &Shared,
) -> io::Result<()> {
    let mut splitter = Splitter::default();
    let mut lost = None;
    while let Some(chunk) = read(&mut from).await? {
        let mut out = Vec::new();
        splitter.foreign |= asked.is_stream();
        splitter.feed(&chunk, |message| {
            let command = if resp::is_push(message) { None } else { asked.pop() };
            if command.as_ref().is_some_and(|(_, heard)| !heard) {
                return;
            }
            let command = command.map(|(name, _)| name);
            lost = lost.or_else(|| swallow(shared, command.as_deref(), |then| then != Then::Lose));
            let ahead_s = shared.ahead_s.load(Ordering::SeqCst);
            if lost.is_none() && ahead_s != 0 && command.as_deref() == Some("TIME") {
                out.extend(resp::later(message, ahead_s));
            } else if lost.is_none() {
                let alter = lock(&shared.alter).clone();
                match alter.filter(|(of, _)| command.as_ref() == Some(of)) {
                    Some((_, alter)) => out.extend(alter(message)),
                    None => out.extend_from_slice(message),
                }
            }
        });
        if splitter.foreign && lost.is_none() {
            out.append(&mut splitter.rest);
        }
        if !out.is_empty() {
            let due = Instant::now() + shared.link.borrow().delay;
            let _ = chunks.send((due, out));
        }
        if lost == Some(Then::Cut) {
            return Ok(());
        }
    }
    Ok(())
}

/// Whether the reply to this command is to be swallowed in such a way, and what then.
fn swallow(
    shared: &Shared,
    command: Option<&str>,
    is_way: impl FnOnce(Then) -> bool,
) -> Option<Then> {
    let command = command?;
    let mut swallow = lock(&shared.swallow);
    let chosen = swallow.command.as_deref().is_none_or(|chosen| chosen == command);
    if swallow.left == 0 || !chosen || !is_way(swallow.then) {
        return None;
    }
    swallow.left -= 1;
    shared.count(|traffic| traffic.swallowed += 1);
    Some(swallow.then)
}

/// Sends each chunk when it is due, and holds all of them back while replies are stalled.
async fn deliver(
    mut chunks: mpsc::UnboundedReceiver<Chunk>,
    mut to: OwnedWriteHalf,
    shared: &Shared,
) -> io::Result<()> {
    while let Some((due, chunk)) = chunks.recv().await {
        sleep_until(due).await;
        pass(shared, |link| link.to_clients_stalled).await;
        // Counted first, because a client that has read the bytes may read the count.
        shared.count(|traffic| traffic.bytes_to_clients += chunk.len() as u64);
        to.write_all(&chunk).await?;
    }
    // A stalled network does not deliver the end of a connection either.
    pass(shared, |link| link.to_clients_stalled).await;
    Ok(())
}

/// Waits while this direction is stalled.
async fn pass(shared: &Shared, is_stalled: impl Fn(&Link) -> bool) {
    // The sender lives as long as `shared` does.
    let _ = shared.link.subscribe().wait_for(|link| !is_stalled(link)).await;
}

async fn read(from: &mut OwnedReadHalf) -> io::Result<Option<Vec<u8>>> {
    let mut chunk = Vec::with_capacity(16 * 1024);
    let size = from.read_buf(&mut chunk).await?;
    Ok((size > 0).then_some(chunk))
}

/// Cuts a stream into messages.
#[derive(Default)]
struct Splitter {
    rest: Vec<u8>,
    /// The stream is not, or no longer, one of messages; all of it stays in `rest`.
    foreign: bool,
}

impl Splitter {
    fn feed(&mut self, chunk: &[u8], mut each: impl FnMut(&[u8])) {
        self.rest.extend_from_slice(chunk);
        let mut at = 0;
        while !self.foreign && at < self.rest.len() {
            match resp::first(&self.rest[at..]) {
                Message::Whole(size) => {
                    each(&self.rest[at..at + size]);
                    at += size;
                }
                Message::Partial => break,
                Message::Foreign => self.foreign = true,
            }
        }
        self.rest.drain(..at);
    }
}
