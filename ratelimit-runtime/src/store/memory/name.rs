//! The name of a limiter, as its slot stores it.

use std::sync::Arc;

/// A short name is stored beside the state, so that a look-up follows no further pointer.
pub(super) enum Name {
    Short(u8, [u8; SHORT]),
    Long(Arc<str>),
}

/// With its length and the tag, three words.
const SHORT: usize = 22;

impl Name {
    pub(super) fn new(name: &Arc<str>) -> Self {
        let bytes = name.as_bytes();
        let mut short = [0; SHORT];
        match (u8::try_from(bytes.len()), short.get_mut(..bytes.len())) {
            (Ok(length), Some(place)) => {
                place.copy_from_slice(bytes);
                Self::Short(length, short)
            }
            _ => Self::Long(Arc::clone(name)),
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Short(length, bytes) => &bytes[..usize::from(*length).min(SHORT)],
            Self::Long(name) => name.as_bytes(),
        }
    }

    /// Returns whether this is the name, in two parts.
    #[inline]
    pub(super) fn is(&self, prefix: &str, name: &str) -> bool {
        let own = self.bytes().split_at_checked(prefix.len());
        own.is_some_and(|(start, rest)| {
            same(start, prefix.as_bytes()) && same(rest, name.as_bytes())
        })
    }
}

/// Returns whether two names are equal. Compares words: on some processors, `memcmp` is many times slower for
/// a short text that was just written.
#[inline]
fn same(one: &[u8], other: &[u8]) -> bool {
    let words = || one.as_chunks::<8>().0.iter().zip(other.as_chunks::<8>().0);
    one.len() == other.len()
        && match (one.last_chunk::<8>(), other.last_chunk::<8>()) {
            (Some(end), Some(other_end)) => {
                end == other_end && words().all(|(one, other)| one == other)
            }
            _ => same_short(one, other),
        }
}

/// Returns whether two names of fewer than eight bytes are equal: their first four bytes and their last four
/// are all of them.
#[inline]
fn same_short(one: &[u8], other: &[u8]) -> bool {
    match (one.last_chunk::<4>(), other.last_chunk::<4>()) {
        (Some(end), Some(other_end)) => {
            end == other_end && one.first_chunk::<4>() == other.first_chunk()
        }
        _ => one.iter().eq(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_in_one_byte_are_two() {
        for length in 0..=20 {
            let text = &"orders:42:refunds:17"[..length];
            let name = Name::new(&text.into());
            assert!(name.is("", text));
            assert!(!name.is("", &format!("{text}:")));
            for at in 0..length {
                let other = [&text[..at], "~", &text[at + 1..]].concat();
                assert!(!name.is("", &other), "{text} {other}");
            }
        }
    }
}
