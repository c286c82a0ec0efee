//! The processes that share a store: which announced a configuration, and their counts.

use std::{fmt, num::NonZeroU64, str::FromStr};

/// A process that shares a store: 16 hexadecimal digits. The first half identifies its limits, the second
/// half the process itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemberId(NonZeroU64);

impl MemberId {
    /// Creates the id of the process with this number and these limits.
    #[must_use]
    pub fn new(limits: u32, process: u32) -> Self {
        let both = u64::from(limits) << 32 | u64::from(process);
        Self(NonZeroU64::new(both).unwrap_or(NonZeroU64::MIN))
    }

    /// Returns a number that is equal for processes with the same limits.
    pub(crate) fn limits(self) -> u64 {
        self.0.get() >> 32
    }

    /// Returns a number that differs for each process.
    pub(crate) fn process(self) -> u32 {
        u32::try_from(self.0.get() & u64::from(u32::MAX)).unwrap_or_default()
    }

    /// Converts to a number for an atomic; 0 is `None`.
    pub(crate) fn bits(member: Option<Self>) -> u64 {
        member.map_or(0, |member| member.0.get())
    }

    /// Converts back from [`bits`](Self::bits).
    pub(crate) fn of_bits(bits: u64) -> Option<Self> {
        NonZeroU64::new(bits).map(Self)
    }

    /// Returns the suffix of the process's own key, which stays when the limits change.
    pub(crate) fn process_text(self) -> String {
        format!("{:08x}", self.process())
    }
}

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for MemberId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let digits = text.len() == 16 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let number = u64::from_str_radix(text, 16).ok().filter(|_| digits);
        number.and_then(NonZeroU64::new).map(Self).ok_or(())
    }
}

/// A process that shares a store, as its last heartbeat describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Member {
    /// The identity of the process.
    pub id: MemberId,
    /// The file name of its program.
    pub program: String,
    /// The version of this crate that it uses.
    pub version: String,
    /// The name of its host.
    pub host: String,
    /// Its process id on the host.
    pub pid: u32,
    /// The time of its start, in microseconds by the store's clock.
    pub since_us: u64,
    /// Its busiest limiters by key template, with their counts since the process started.
    pub limiters: Vec<(String, Counts)>,
}

/// The counts of a template's limiters in one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Calls that were admitted.
    pub admitted: u64,
    /// Calls that were rejected.
    pub rejected: u64,
    /// Calls that are waiting now.
    pub waiting: u64,
    /// Decisions by `on_store_error`.
    pub degraded: u64,
}

impl Counts {
    /// Formats a line of a heartbeat. A template has no line break.
    pub(crate) fn line(&self, template: &str) -> String {
        let Self { admitted, rejected, waiting, degraded } = self;
        format!("{admitted} {rejected} {waiting} {degraded} {template}\n")
    }

    /// Reads a line of a heartbeat, or returns `None` if it is not one.
    pub(crate) fn read(line: &str) -> Option<(String, Self)> {
        let mut words = line.splitn(5, ' ');
        let mut number = || words.next()?.parse().ok();
        let (admitted, rejected, waiting, degraded) = (number()?, number()?, number()?, number()?);
        Some((words.next()?.to_owned(), Self { admitted, rejected, waiting, degraded }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let id = MemberId::new(7, u32::MAX);
        assert_eq!(id.to_string(), "00000007ffffffff");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!((id.limits(), id.process_text()), (7, "ffffffff".to_owned()));
        assert_eq!(
            [Some(id), None].map(|id| MemberId::of_bits(MemberId::bits(id))),
            [Some(id), None]
        );
        for text in ["", "7", "00000007fffffffg", "00000007ffffffff0", "+0000007ffffffff"] {
            assert_eq!(text.parse::<MemberId>(), Err(()), "{text}");
        }
    }
    #[test]
    fn counts_are_read_as_they_are_written() {
        let counts = Counts { admitted: 7, rejected: u64::MAX, waiting: 0, degraded: 2 };
        let line = counts.line("orders: {user_id}");
        assert_eq!(Counts::read(line.trim_end()), Some(("orders: {user_id}".to_owned(), counts)));
        for line in ["", "1 2 3 4", "1 2 3 -4 x", "a b c d e"] {
            assert_eq!(Counts::read(line), None, "{line}");
        }
    }
}
