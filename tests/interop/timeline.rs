//! When Java's permits were taken: by the clock of the Redis server, and by the stamp Java gave
//! them.
//!
//! Redisson stamps a permit with the time at which the call was made; the server runs the call a
//! little later. Neither does Redisson report. So this listens to `MONITOR`, which has both: Java's
//! scripts add one member to the log for each grant, and the server says when.

use std::{
    collections::HashSet,
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    thread::{self, JoinHandle},
};

use tests::redis_server::RedisServer;

use crate::state::permits;

const MARKER: &str = "the-timeline-ends-here";

/// A permit or several, taken by Java.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    /// When the server ran the call, in ms by its clock.
    pub(crate) ran_ms: u64,
    /// When Java made the call, in ms by its clock, which is the score in the log.
    pub(crate) stamp_ms: u64,
    pub(crate) permits: u64,
}

/// A running `MONITOR`, which picks out what Java is granted.
pub(crate) struct Timeline<'a> {
    server: &'a RedisServer,
    reader: JoinHandle<Vec<Grant>>,
}

impl<'a> Timeline<'a> {
    pub(crate) fn start(server: &'a RedisServer) -> Self {
        let mut stream = TcpStream::connect(server.address()).expect("the server accepts");
        stream.write_all(b"MONITOR\r\n").expect("the server reads");
        let mut lines = BufReader::new(stream);
        let mut answer = String::new();
        lines.read_line(&mut answer).expect("an answer");
        assert_eq!(answer, "+OK\r\n");
        Self { server, reader: thread::spawn(move || read(lines)) }
    }

    /// What Java was granted since the start.
    pub(crate) fn finish(self) -> Vec<Grant> {
        let _: String = self.server.cli(&["ECHO", MARKER]);
        self.reader.join().expect("lines of `MONITOR`")
    }
}

fn read(mut lines: BufReader<TcpStream>) -> Vec<Grant> {
    let (mut grants, mut members, mut by_java) = (Vec::new(), HashSet::new(), false);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).expect("a line of `MONITOR`") > 0 {
        let (time, arguments) = parse(&line);
        match arguments.first().map(|name| name.to_ascii_lowercase()).as_deref() {
            // Redisson's scripts declare five keys, ours three. A script may look like several arguments.
            Some(b"eval" | b"evalsha") => {
                let keys = arguments[2..].iter().find(|text| text.iter().all(u8::is_ascii_digit));
                by_java = keys.is_some_and(|keys| keys == b"5");
            }
            // A call that was sent twice adds its member again.
            Some(b"zadd") if by_java && members.insert(arguments[3].clone()) => {
                let stamp = String::from_utf8_lossy(&arguments[2]).into_owned();
                grants.push(Grant {
                    ran_ms: time,
                    stamp_ms: stamp.parse().expect("whole milliseconds"),
                    permits: member(&[], &arguments[3]).expect("a member of the log").into(),
                });
            }
            Some(b"echo") if arguments[1] == MARKER.as_bytes() => return grants,
            _ => {}
        }
        line.clear();
    }
    panic!("`MONITOR` ended by itself");
}

/// Reads `+1339518083.107412 [0 lua] "zadd" "key" ..`: milliseconds and arguments, as they are written.
fn parse(line: &[u8]) -> (u64, Vec<Vec<u8>>) {
    let text_end = line.windows(2).position(|pair| pair == b"] ").expect("a line of `MONITOR`");
    let time = String::from_utf8_lossy(&line[1..line.len().min(18)]).into_owned();
    let (seconds, rest) = time.split_once('.').expect("a time");
    let ms =
        seconds.parse::<u64>().expect("seconds") * 1000 + rest[..3].parse::<u64>().expect("ms");
    (ms, arguments(line[text_end + 2..].trim_ascii_end()))
}

fn arguments(text: &[u8]) -> Vec<Vec<u8>> {
    let quoted = text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\""));
    let (mut rest, mut arguments) = (quoted.expect("quotes"), Vec::new());
    while let Some(end) = rest.windows(3).position(|three| three == b"\" \"") {
        arguments.push(rest[..end].to_vec());
        rest = &rest[end + 3..];
    }
    arguments.push(rest.to_vec());
    arguments
}

/// The permits of a member of the log, whose first bytes are read. Redis escapes a backslash, Valkey 8.1 does not:
/// there it may be one.
fn member(read: &[u8], text: &[u8]) -> Option<u32> {
    let Some(at) = text.iter().position(|byte| *byte == b'\\') else {
        return permits(&[read, text].concat());
    };
    let (before, rest) = (&text[..at], &text[at + 1..]);
    let mut each = [escaped(rest), Some((b'\\', 0))].into_iter().flatten();
    each.find_map(|(byte, len)| member(&[read, before, &[byte]].concat(), &rest[len..]))
}

/// The byte that is written so behind a backslash, and in how many others.
fn escaped(text: &[u8]) -> Option<(u8, usize)> {
    let byte = match text.first()? {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'a' => 7,
        b'b' => 8,
        b'x' => {
            let digits = std::str::from_utf8(text.get(1..3)?).ok()?;
            return Some((u8::from_str_radix(digits, 16).ok()?, 3));
        }
        byte => *byte,
    };
    Some((byte, 1))
}
