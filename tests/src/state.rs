//! The states that scripts write: a letter, whole numbers of seven bytes each, and a text.

/// A state of these numbers, as a script writes it.
#[must_use]
pub fn packed(letter: u8, numbers: &[u64], text: &str) -> Vec<u8> {
    let mut state = vec![letter];
    numbers.iter().for_each(|number| state.extend(&number.to_le_bytes()[..7]));
    state.extend(text.bytes());
    state
}

/// The letter and all numbers of a state, with what is left behind them.
///
/// # Panics
///
/// Panics if the state is empty.
#[must_use]
pub fn unpacked(state: &[u8], numbers: usize) -> (u8, Vec<u64>, &[u8]) {
    let (numbers, text) = state[1..].split_at(numbers * 7);
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    (state[0], numbers.chunks(7).map(number).collect(), text)
}
