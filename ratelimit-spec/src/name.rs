//! A rendered name, on the stack unless it is unusually long.

use std::{fmt, ops::Deref};

use arrayvec::ArrayString;

/// Bytes a name may have before it moves to the heap: a template with two short values.
const INLINE: usize = 96;

/// The name of a limiter, as a [`KeyWriter`](crate::KeyWriter) wrote it. Up to 96 bytes cost no
/// allocation.
///
/// # Examples
///
/// ```
/// use ratelimit_spec::KeyWriter;
///
/// let mut key = KeyWriter::new("orders:");
/// key.display(&42);
/// let name = key.finish();
/// assert_eq!(&*name, "orders:42");
/// assert_eq!(String::from(name), "orders:42");
/// ```
#[derive(Clone)]
pub struct KeyName(Text);

#[derive(Clone)]
enum Text {
    Inline(ArrayString<INLINE>),
    Heap(String),
}

impl KeyName {
    #[inline]
    pub(crate) fn new() -> Self {
        Self(Text::Inline(ArrayString::new()))
    }

    #[inline]
    pub(crate) fn push_str(&mut self, text: &str) {
        let fits = match &mut self.0 {
            Text::Inline(name) => name.try_push_str(text).is_ok(),
            Text::Heap(_) => false,
        };
        if !fits {
            self.push_to_heap(text);
        }
    }

    #[cold]
    fn push_to_heap(&mut self, text: &str) {
        match &mut self.0 {
            Text::Inline(name) => {
                let mut heap = String::with_capacity(2 * (name.len() + text.len()));
                heap.push_str(name);
                heap.push_str(text);
                self.0 = Text::Heap(heap);
            }
            Text::Heap(name) => name.push_str(text),
        }
    }

    pub(crate) fn push(&mut self, c: char) {
        self.push_str(c.encode_utf8(&mut [0; 4]));
    }

    pub(crate) fn truncate(&mut self, length: usize) {
        match &mut self.0 {
            Text::Inline(name) => name.truncate(length),
            Text::Heap(name) => name.truncate(length),
        }
    }
}

impl Deref for KeyName {
    type Target = str;

    fn deref(&self) -> &str {
        match &self.0 {
            Text::Inline(name) => name,
            Text::Heap(name) => name,
        }
    }
}

impl From<&str> for KeyName {
    fn from(name: &str) -> Self {
        let mut own = Self::new();
        own.push_str(name);
        own
    }
}

impl From<KeyName> for String {
    fn from(name: KeyName) -> Self {
        match name.0 {
            Text::Inline(name) => name.as_str().to_owned(),
            Text::Heap(name) => name,
        }
    }
}

impl PartialEq<str> for KeyName {
    fn eq(&self, other: &str) -> bool {
        **self == *other
    }
}

impl PartialEq<&str> for KeyName {
    fn eq(&self, other: &&str) -> bool {
        **self == **other
    }
}

impl fmt::Debug for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::{INLINE, KeyName};

    #[test]
    fn a_name_is_the_same_on_the_heap() {
        for length in [0, 1, INLINE - 1, INLINE, INLINE + 1, 480] {
            let text = "é".repeat(length / 2) + &"a".repeat(length % 2);
            let (mut whole, mut pieces) = (KeyName::new(), KeyName::new());
            whole.push_str(&text);
            text.chars().for_each(|c| pieces.push(c));
            assert_eq!((&*whole, &*pieces), (&*text, &*text));
            pieces.truncate(0);
            assert_eq!(pieces, "");
        }
    }
}
