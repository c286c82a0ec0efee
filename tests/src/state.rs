//! What scripts write into a limiter's hash as bytes: states and epochs.

/// A state of these numbers, as a script writes it: most numbers take seven bytes.
#[must_use]
pub fn packed(letter: u8, numbers: &[u64], text: &str) -> Vec<u8> {
    let first: &[usize] = if letter == b'b' { &[7, 4, 4, 7, 6] } else { &[] };
    let widths = first.iter().copied().chain(std::iter::repeat(7));
    let mut state = vec![letter];
    numbers.iter().zip(widths).for_each(|(number, width)| {
        state.extend(&number.to_le_bytes()[..width]);
    });
    state.extend(text.bytes());
    state
}

/// The letter and all numbers of a state whose numbers take seven bytes each, with what is left behind them.
///
/// # Panics
///
/// Panics if the state is empty.
#[must_use]
pub fn unpacked(state: &[u8], numbers: usize) -> (u8, Vec<u64>, &[u8]) {
    let (numbers, text) = state[1..].split_at(numbers * 7);
    (state[0], numbers.chunks(7).map(number).collect(), text)
}

/// A whole number with its lowest byte first.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// What a script writes of the last announcement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Epoch {
    /// The last heartbeat of a process that has the configuration, in milliseconds since the Unix epoch.
    pub beat_ms: u64,
    /// Since when the process that announced it has had it, in microseconds since the Unix epoch.
    pub since_us: u64,
    /// The id of that process, 0 if it sends no heartbeats.
    pub member: u64,
    /// The name of the configuration.
    pub name: [u8; 4],
    /// The revision of the limits file, in decimal digits; empty for 0.
    pub revision: String,
}

impl Epoch {
    /// Reads an epoch as a script writes it, or returns `None` if it is not one.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (beat, rest) = bytes.split_at_checked(6)?;
        let (since, rest) = rest.split_at_checked(7)?;
        let (member, rest) = rest.split_first_chunk()?;
        let (name, revision) = rest.split_first_chunk()?;
        Some(Self {
            beat_ms: number(beat),
            since_us: number(since),
            member: u64::from_be_bytes(*member),
            name: *name,
            revision: String::from_utf8(revision.to_vec()).ok()?,
        })
    }

    /// Returns whether this is the configuration with these numbers, such as `10/60000/0`.
    #[must_use]
    pub fn names(&self, numbers: &str) -> bool {
        let digest = redis::Script::new(numbers).get_hash().to_owned();
        let name: String = self.name.iter().map(|byte| format!("{byte:02x}")).collect();
        digest.starts_with(&name)
    }
}
