//! Reads `Forwarded` (RFC 7239) and `X-Forwarded-For`.
//!
//! Both are lists to which each proxy appends the sender of the request. An entry without an
//! address is `None`: nothing to the left of it can be trusted.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns the addresses in a line of `X-Forwarded-For`, from left to right.
pub(super) fn x_addresses(line: &str) -> Vec<Option<IpAddr>> {
    line.split(',').map(|entry| address(entry.trim_matches([' ', '\t']))).collect()
}

/// Returns the addresses in a line of `Forwarded`, from left to right. A line that is malformed
/// anywhere has none: a quote that a client leaves open must not hide entries of proxies.
pub(super) fn addresses(line: &str) -> Vec<Option<IpAddr>> {
    let mut reader = Reader { rest: line };
    let mut addresses = Vec::new();
    loop {
        let Some(address) = reader.element() else { return vec![None] };
        addresses.push(address);
        if reader.rest.is_empty() {
            return addresses;
        }
        if !reader.eat(',') {
            return vec![None];
        }
    }
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

/// The rest of a line of `Forwarded`.
struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    /// Reads `for=192.0.2.43;proto=http`, and returns the address of `for`; the outer `None` means malformed.
    fn element(&mut self) -> Option<Option<IpAddr>> {
        let mut found = None;
        loop {
            self.skip_space();
            let name = self.take_while(is_token);
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
                return Some(found.flatten());
            }
        }
    }

    /// Reads a token or a quoted string.
    fn value(&mut self) -> Option<String> {
        if !self.eat('"') {
            // Addresses with a colon should be quoted, but often are not.
            let value = self.take_while(|c| is_token(c) || matches!(c, ':' | '[' | ']'));
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

fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}
