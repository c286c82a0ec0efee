//! Reads `Forwarded` (RFC 7239) and `X-Forwarded-For`.
//!
//! Both are lists to which each proxy appends the sender of the request, so they are read from right to left: text of the
//! client, such as a quote that it leaves open, hides no entry of a proxy. An entry without an address is `None`: nothing to
//! the left of it can be trusted.

use std::{
    iter,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use ratelimit_spec::is_token_char;

/// Returns the addresses in a line of `X-Forwarded-For`, from right to left.
pub(super) fn x_addresses(line: &str) -> Vec<Option<IpAddr>> {
    line.rsplit(',').map(|entry| address(entry.trim_matches([' ', '\t']))).collect()
}

/// Returns the addresses in a line of `Forwarded`, from right to left.
pub(super) fn addresses(line: &str) -> Vec<Option<IpAddr>> {
    let mut rest = Some(line);
    let last = || {
        let (before, element) = split_last(rest?);
        rest = before;
        Some(Reader { rest: element }.element())
    };
    iter::from_fn(last).collect()
}

/// Splits off the last element: what is behind the last comma that is not quoted.
fn split_last(line: &str) -> (Option<&str>, &str) {
    let mut is_quoted = false;
    for (at, byte) in line.bytes().enumerate().rev() {
        match byte {
            b'"' if !is_escaped(&line.as_bytes()[..at]) => is_quoted = !is_quoted,
            b',' if !is_quoted => return (Some(&line[..at]), &line[at + 1..]),
            _ => {}
        }
    }
    (None, line)
}

/// Returns whether the character after this text is escaped.
fn is_escaped(text: &[u8]) -> bool {
    text.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

/// Reads an address, with or without a port. `unknown` and obfuscated identifiers are not addresses.
fn address(text: &str) -> Option<IpAddr> {
    if let Some(inner) = text.strip_prefix('[') {
        let (address, port) = inner.split_once(']')?;
        let port_fits = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
        return address.parse::<Ipv6Addr>().ok().filter(|_| port_fits).map(IpAddr::V6);
    }
    text.parse().ok().or_else(|| {
        let (address, port) = text.split_once(':')?;
        address.parse::<Ipv4Addr>().ok().filter(|_| is_port(port)).map(IpAddr::V4)
    })
}

/// Returns whether this is a port, which may be obfuscated.
fn is_port(port: &str) -> bool {
    port.starts_with('_') || (!port.starts_with('+') && port.parse::<u16>().is_ok())
}

/// The rest of an element of `Forwarded`.
struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    /// Reads `for=192.0.2.43;proto=http`, and returns the address of `for`; `None` too if anything is malformed.
    fn element(&mut self) -> Option<IpAddr> {
        let mut found = None;
        loop {
            self.skip_space();
            let name = self.take_while(is_token_char);
            if !name.is_empty() {
                if !self.eat('=') {
                    return None;
                }
                let value = self.value()?;
                if name.eq_ignore_ascii_case("for") {
                    if found.is_some() {
                        return None;
                    }
                    found = Some(address(&value));
                }
            }
            self.skip_space();
            if !self.eat(';') {
                return found.flatten().filter(|_| self.rest.is_empty());
            }
        }
    }

    /// Reads a token or a quoted string.
    fn value(&mut self) -> Option<String> {
        if !self.eat('"') {
            // Addresses with a colon should be quoted, but often are not.
            let value = self.take_while(|c| is_token_char(c) || matches!(c, ':' | '[' | ']'));
            return (!value.is_empty()).then(|| value.to_owned());
        }
        let mut value = String::new();
        let mut chars = self.rest.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Some(value);
                }
                '\\' => value.push(chars.next()?.1),
                c => value.push(c),
            }
        }
        None
    }

    fn eat(&mut self, c: char) -> bool {
        let rest = self.rest.strip_prefix(c);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn take_while(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !fits(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }
}
