//! The commands that a server received, as reported by `MONITOR`.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    time::Duration,
};

use crate::redis_server::RedisServer;

/// One command that the server ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When it ran, in milliseconds since 1970, by the server's clock.
    pub at_ms: u64,
    /// Its source: an address, or `lua` if a script ran it.
    pub source: String,
    /// The command and its arguments; bytes that are not UTF-8 are replaced.
    pub args: Vec<String>,
}

impl Entry {
    /// Returns the command in upper case, such as `EVALSHA`.
    pub fn command(&self) -> String {
        self.args.first().map(|name| name.to_uppercase()).unwrap_or_default()
    }

    /// Returns whether a script ran it.
    pub fn is_from_script(&self) -> bool {
        self.source == "lua"
    }
}

/// Runs `during` and returns every command that the server ran meanwhile, in order.
///
/// # Panics
///
/// Panics if the server does not reply.
pub fn monitor(server: &RedisServer, during: impl FnOnce()) -> Vec<Entry> {
    let monitor = Monitor::start(server);
    during();
    monitor.finish()
}

/// A running `MONITOR`, for code that does not fit in a closure, such as the steps of an async test.
#[derive(Debug)]
pub struct Monitor<'a> {
    server: &'a RedisServer,
    lines: BufReader<TcpStream>,
}

impl<'a> Monitor<'a> {
    /// Starts to listen. The commands stay in the socket's buffer, which holds thousands of them.
    ///
    /// # Panics
    ///
    /// Panics if the server does not reply.
    pub fn start(server: &'a RedisServer) -> Self {
        let stream = TcpStream::connect(server.address()).expect("the server accepts");
        let patience = Some(Duration::from_secs(5));
        stream.set_read_timeout(patience).expect("a timeout above zero");
        let mut monitor = Self { server, lines: BufReader::new(stream) };
        if let Some(password) = server.password() {
            monitor.order(&format!("AUTH {password}"));
        }
        monitor.order("MONITOR");
        monitor
    }

    /// Returns the commands that were run since the start.
    ///
    /// # Panics
    ///
    /// Panics if the server does not reply.
    pub fn finish(mut self) -> Vec<Entry> {
        // All commands that ran before this marker come before it.
        let marker = "monitor-ends-here";
        self.server.cli::<String>(&["echo", marker]);
        let mut entries = Vec::new();
        loop {
            let entry = parse(&self.line()).expect("a line of `MONITOR`");
            if entry.args.get(1).is_some_and(|arg| arg == marker) {
                entries.retain(|earlier: &Entry| earlier.source != entry.source);
                return entries;
            }
            entries.push(entry);
        }
    }

    fn order(&mut self, command: &str) {
        let stream = self.lines.get_mut();
        stream.write_all(format!("{command}\r\n").as_bytes()).expect("the server reads");
        let answer = self.line();
        assert_eq!(answer, "+OK", "`{command}`");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line of `MONITOR` within five seconds");
        line.trim_end().to_owned()
    }
}

/// Reads `+<time> [<db> <source>] "<arg>" "<arg>"`.
fn parse(line: &str) -> Option<Entry> {
    let (time, rest) = line.strip_prefix('+')?.split_once(" [")?;
    let (seconds, fraction) = time.split_once('.')?;
    let at_ms = format!("{seconds}{}", fraction.get(..3)?).parse().ok()?;
    let (source, args) = rest.split_once("] ")?;
    let source = source.split_once(' ')?.1.to_owned();
    Some(Entry { at_ms, source, args: unquote(args)? })
}

fn unquote(text: &str) -> Option<Vec<String>> {
    let mut bytes = text.bytes();
    let mut args = Vec::new();
    while bytes.next().is_some_and(|byte| byte == b'"') {
        let mut arg = Vec::new();
        loop {
            match bytes.next()? {
                b'"' => break,
                b'\\' => arg.push(escaped(&mut bytes)?),
                byte => arg.push(byte),
            }
        }
        args.push(String::from_utf8_lossy(&arg).into_owned());
        // Skip the space before the next argument.
        bytes.next();
    }
    Some(args)
}

fn escaped(bytes: &mut impl Iterator<Item = u8>) -> Option<u8> {
    Some(match bytes.next()? {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'a' => 7,
        b'b' => 8,
        b'x' => {
            let digits = [bytes.next()?, bytes.next()?];
            u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
        }
        byte => byte,
    })
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn lines_are_taken_apart() {
        let line = r#"+1339518083.107412 [0 127.0.0.1:60866] "set" "a \"b\" [\\] \xc3\xa9\n" """#;
        let entry = parse(line).expect("a line");
        assert_eq!((entry.at_ms, &*entry.source), (1_339_518_083_107, "127.0.0.1:60866"));
        assert_eq!(entry.args, ["set", "a \"b\" [\\] é\n", ""]);
        assert!(parse(r#"+1.200000 [0 lua] "get" "x""#).expect("a line").is_from_script());
    }
}
