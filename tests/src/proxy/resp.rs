//! The part of the Redis protocol that finds the end of a message and the name of a command.

/// What the bytes received so far begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// A whole message, and its length in bytes.
    Whole(usize),
    /// A message that goes on.
    Partial,
    /// Something else, such as TLS.
    Foreign,
}

/// Finds the end of the first message of `bytes`.
pub(super) fn first(bytes: &[u8]) -> Message {
    let mut at = 0;
    // How many values are still to come; aggregates add to it, so nesting needs no recursion.
    let mut missing = 1_usize;
    while missing > 0 {
        let Some(&kind) = bytes.get(at) else {
            return Message::Partial;
        };
        let is_inline = at == 0 && kind.is_ascii_alphabetic();
        if !is_inline && !b"+-:_#,($=!*~>%|".contains(&kind) {
            return Message::Foreign;
        }
        let Some(line) = line_at(bytes, at) else {
            return Message::Partial;
        };
        at += line.len() + 2;
        missing -= 1;
        if is_inline || b"+-:_#,(".contains(&kind) {
            continue;
        }
        let Some(size) = size_in(line) else {
            return Message::Foreign;
        };
        match kind {
            b'*' | b'~' | b'>' => missing += size.unwrap_or(0),
            b'%' => missing += 2 * size.unwrap_or(0),
            // An attribute stands before the value it belongs to.
            b'|' => missing += 2 * size.unwrap_or(0) + 1,
            _ => at += size.map_or(0, |size| size + 2),
        }
        if at > bytes.len() {
            return Message::Partial;
        }
    }
    Message::Whole(at)
}

/// The name of a command in upper case; of an inline command too.
pub(super) fn command_name(message: &[u8]) -> String {
    let text = String::from_utf8_lossy(message);
    let mut lines = text.split("\r\n");
    let name = if message.first() == Some(&b'*') {
        lines.nth(2)
    } else {
        lines.next().and_then(|line| line.split(' ').next())
    };
    name.unwrap_or_default().to_uppercase()
}

/// Whether a reply is out of band and answers no command.
pub(super) fn is_push(message: &[u8]) -> bool {
    message.first() == Some(&b'>')
}

/// Adds this many seconds to a reply to `TIME`.
pub(super) fn later(message: &[u8], seconds: i64) -> Vec<u8> {
    let text = String::from_utf8_lossy(message);
    let mut lines: Vec<_> = text.split("\r\n").map(str::to_owned).collect();
    let time: i64 = lines[2].parse().expect("the seconds since 1970");
    lines[2] = (time + seconds).to_string();
    lines.join("\r\n").into_bytes()
}

fn line_at(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let rest = &bytes[at..];
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    Some(&rest[..end])
}

/// The number after the first byte, inside `None` for -1, which announces a null.
fn size_in(line: &[u8]) -> Option<Option<usize>> {
    let number: i64 = std::str::from_utf8(&line[1..]).ok()?.parse().ok()?;
    Some(usize::try_from(number).ok())
}

#[cfg(test)]
mod tests {
    use super::{Message, command_name, first};

    #[test]
    fn messages_end_where_they_end() {
        let whole: &[&[u8]] = &[
            b"+OK\r\n",
            b":12\r\n",
            b"$-1\r\n",
            b"$0\r\n\r\n",
            b"$5\r\na\r\nbc\r\n",
            b"*-1\r\n",
            b"*0\r\n",
            b"*2\r\n*1\r\n:1\r\n$1\r\nx\r\n",
            b"%1\r\n+a\r\n*1\r\n:1\r\n",
            b"|1\r\n+a\r\n:1\r\n+OK\r\n",
            b"PING\r\n",
        ];
        for message in whole {
            let text = String::from_utf8_lossy(message);
            assert_eq!(first(message), Message::Whole(message.len()), "{text:?}");
            let more = [message, &b"+NEXT\r\n"[..]].concat();
            assert_eq!(first(&more), Message::Whole(message.len()), "{text:?}");
            for cut in 0..message.len() {
                assert_eq!(first(&message[..cut]), Message::Partial, "{text:?} up to {cut}");
            }
        }
    }

    #[test]
    fn other_protocols_are_not_mistaken_for_messages() {
        assert_eq!(first(&[0x16, 3, 1, 2, 0]), Message::Foreign);
        assert_eq!(first(b"$EOF:0123\r\n"), Message::Foreign);
    }

    #[test]
    fn commands_have_names() {
        assert_eq!(command_name(b"*2\r\n$7\r\nevalsha\r\n$1\r\nx\r\n"), "EVALSHA");
        assert_eq!(command_name(b"ping x\r\n"), "PING");
    }
}
