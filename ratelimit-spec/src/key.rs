//! Renders keys: distinct values give distinct names, and every name is safe in Redis.
//!
//! A limiter called `n` owns three Redis keys: `n` itself, and `n` with `:value` and `:permits`
//! appended (in braces when it has none, so that all three hash to one cluster slot). Names come
//! from users: one that could hold a brace of its own would put the three keys on different nodes,
//! where every call fails; one that could hold a separator could spend another user's permits.

use std::borrow::Cow;
use std::fmt::{self, Write};

use hmac_sha256::Hash;

use crate::name::KeyName;

/// The most bytes a rendered name can have, not counting the key prefix.
pub const MAX_NAME: usize = 480;

/// The most bytes a value takes in a name; a longer value is hashed.
pub(crate) const MAX_PART: usize = 64;

/// The most bytes of a key prefix.
const MAX_PREFIX: usize = 31;

/// The text for an absent value.
const ABSENT: &str = "~";

/// The text for an empty value.
const EMPTY: &str = "~~";

/// What follows a name that could be a Redis key of another limiter.
pub(crate) const MARK: char = '~';

/// Writes the name of a limiter: literals of a template, and values between them.
///
/// A value keeps its letters, digits and `_`, `.`, `-`; every other byte becomes `%XX`. A value
/// that would be longer than 64 bytes becomes `~` and 32 digits of its hash. So a name holds
/// nothing of a value that Redis, a terminal or a separator could take for something else.
///
/// # Examples
///
/// ```
/// use ratelimit_spec::KeyWriter;
///
/// let mut key = KeyWriter::new("shop:");
/// key.literal("orders:");
/// key.part("a:b");
/// key.literal(":");
/// key.display(&42);
/// assert_eq!(key.finish(), "shop:orders:a%3Ab:42");
/// ```
#[derive(Debug)]
pub struct KeyWriter {
    name: KeyName,
}

impl KeyWriter {
    /// Starts a name with the key prefix, which may be empty.
    #[inline]
    #[must_use]
    pub fn new(prefix: &str) -> Self {
        let mut name = KeyName::new();
        name.push_str(prefix);
        Self { name }
    }

    /// Writes a literal of the template unchanged.
    #[inline]
    pub fn literal(&mut self, text: &str) {
        self.name.push_str(text);
    }

    /// Writes a value.
    pub fn part(&mut self, value: &str) {
        let mut part = Part::start(&mut self.name);
        part.push(value);
        if part.is_too_long() { part.hash(value) } else { part.end() }
    }

    /// Writes a value by its `Display`.
    pub fn display(&mut self, value: &impl fmt::Display) {
        let mut part = Part::start(&mut self.name);
        // If `Display` fails, the text written so far is the value: a key must not panic.
        let _ = write!(part, "{value}");
        if part.is_too_long() {
            let mut text = String::new();
            let _ = write!(text, "{value}");
            part.hash(&text);
        } else {
            part.end();
        }
    }

    /// Writes a value that is a number.
    pub fn number(&mut self, value: u64) {
        self.name.push_str(itoa::Buffer::new().format(value));
    }

    /// Writes a value that is an IPv4 address.
    pub fn ipv4(&mut self, octets: [u8; 4]) {
        for (at, octet) in octets.into_iter().enumerate() {
            if at > 0 {
                self.name.push_str(".");
            }
            self.name.push_str(itoa::Buffer::new().format(octet));
        }
    }

    /// Writes that a value is absent. No value is written like this.
    pub fn absent(&mut self) {
        self.name.push_str(ABSENT);
    }

    /// Returns the name.
    ///
    /// One that another limiter's counter or log could have, such as `{orders}:value`, ends in one
    /// more `~`; so does one that differs from such a name only by a `~` at its end, to stay another
    /// name. Only a template with literal braces can come to that.
    #[inline]
    #[must_use]
    pub fn finish(mut self) -> KeyName {
        if is_marked(&self.name) {
            self.name.push(MARK);
        }
        self.name
    }

    /// Returns the name, which has no brace.
    #[inline]
    pub(crate) fn finish_plain(self) -> KeyName {
        self.name
    }
}

/// A value being written into a name.
struct Part<'a> {
    name: &'a mut KeyName,
    start: usize,
}

impl<'a> Part<'a> {
    fn start(name: &'a mut KeyName) -> Self {
        let start = name.len();
        Self { name, start }
    }

    fn push(&mut self, text: &str) {
        if text.is_empty() || self.is_too_long() {
            return;
        }
        if text.len() <= MAX_PART && text.bytes().all(is_plain) {
            self.name.push_str(text);
            return;
        }
        for byte in text.bytes() {
            if is_plain(byte) {
                self.name.push(char::from(byte));
            } else {
                push_escaped(self.name, byte);
            }
            if self.is_too_long() {
                return;
            }
        }
    }

    /// Writes a marker for an empty value, so that it differs from an absent one.
    fn end(self) {
        if self.name.len() == self.start {
            self.name.push_str(EMPTY);
        }
    }

    fn is_too_long(&self) -> bool {
        self.name.len() - self.start > MAX_PART
    }

    /// Writes the hash of the whole value in its place.
    fn hash(self, value: &str) {
        self.name.truncate(self.start);
        self.name.push_str(&hash(value));
    }
}

impl fmt::Write for Part<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text);
        Ok(())
    }
}

/// Returns whether a byte of a value stands for itself.
fn is_plain(byte: u8) -> bool {
    is_value_char(char::from(byte)) && !matches!(byte, b'%' | b'~')
}

/// Makes a name that is built at run time safe for Redis. Different names stay different.
///
/// A name is kept as it is when it has 1 to 480 bytes, no control character, `%` or `~`, and either
/// no braces or a hash tag that works on a cluster. In any other, control characters, `{`, `}`, `%`
/// and `~` become `%XX`, and a name that is then too long becomes its hash.
///
/// # Examples
///
/// ```
/// use ratelimit_spec::safe_name;
///
/// assert_eq!(safe_name("upload:{tenant-7}:image"), "upload:{tenant-7}:image");
/// assert_eq!(safe_name("upload:}{"), "upload:%7D%7B");
/// ```
#[must_use]
pub fn safe_name(raw: &str) -> Cow<'_, str> {
    if raw.is_empty() {
        return Cow::Borrowed(ABSENT);
    }
    let is_plain = !raw.contains(|c: char| c.is_control() || matches!(c, '%' | '~'));
    if raw.len() <= MAX_NAME && is_plain && works_on_cluster(raw) && !is_derived(raw) {
        return Cow::Borrowed(raw);
    }
    let mut name = KeyName::new();
    for c in raw.chars() {
        if c.is_control() || matches!(c, '{' | '}' | '%' | '~') {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                push_escaped(&mut name, byte);
            }
        } else {
            name.push(c);
        }
        if name.len() > MAX_NAME {
            return Cow::Owned(hash(raw));
        }
    }
    Cow::Owned(name.into())
}

/// Checks the text that every name of a program starts with.
///
/// # Errors
///
/// Returns an error if it is longer than 31 bytes, or contains a brace or a control character.
pub fn check_prefix(prefix: &str) -> Result<(), PrefixError> {
    if prefix.len() > MAX_PREFIX {
        Err(PrefixError("is too long; write at most 31 bytes"))
    } else if prefix.contains(['{', '}']) {
        // A tag here would gather every limiter on one node, and let the name `a:value` pass for
        // the counter of the limiter `a`.
        Err(PrefixError("contains a brace; remove it"))
    } else if prefix.contains(char::is_control) {
        Err(PrefixError("contains a control character; write printable characters only"))
    } else {
        Ok(())
    }
}

/// A text that cannot be a key prefix. Its [`Display`](fmt::Display) says why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixError(&'static str);

impl fmt::Display for PrefixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the key prefix {}", self.0)
    }
}

impl std::error::Error for PrefixError {}

/// Returns whether a value, once written, can hold this character. A separator needs another.
pub(crate) fn is_value_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '%' | '~')
}

/// Returns whether the three Redis keys of this name hash to one slot.
///
/// With a `{` in the name the other two are made by appending, so that the name's own hash tag (from
/// its first `{` to the next `}`, not empty) must decide. Without one they get the whole name in
/// braces, which a `}` in it would cut short.
pub(crate) fn works_on_cluster(name: &str) -> bool {
    match name.split_once('{') {
        Some((_, tag)) => tag.find('}').is_some_and(|length| length > 0),
        None => !name.contains('}'),
    }
}

/// Returns whether this name has a [`MARK`] appended, or gets one: without those at its end, it could be
/// a Redis key of another limiter.
pub(crate) fn is_marked(name: &str) -> bool {
    is_derived(name.trim_end_matches(MARK))
}

/// Returns whether this could be a Redis key of another limiter: `{a}:value` is the counter of `a`,
/// and `{a}:value:` and the id of a process, which never ends in `~`, that of one process.
fn is_derived(name: &str) -> bool {
    let appended = |suffix: &str| {
        name.match_indices(suffix)
            .map(|(at, _)| &name[at + suffix.len()..])
            .any(|rest| rest.is_empty() || rest.starts_with(':'))
    };
    // Searching bytes is faster, and most names have no brace.
    name.as_bytes().contains(&b'{') && (appended(":value") || appended(":permits"))
}

fn push_escaped(name: &mut KeyName, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    name.push('%');
    name.push(char::from(DIGITS[usize::from(byte >> 4)]));
    name.push(char::from(DIGITS[usize::from(byte & 15)]));
}

/// Returns `~` and the first 128 bits of the SHA-256 of a text.
fn hash(raw: &str) -> String {
    let mut hash = String::from("~");
    for byte in &Hash::hash(raw.as_bytes())[..16] {
        // Writing to a string cannot fail.
        let _ = write!(hash, "{byte:02x}");
    }
    hash
}

#[cfg(test)]
mod tests;
