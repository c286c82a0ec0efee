//! How the permits of one very hot limiter are split.

/// The most shards of one limiter. Each costs a store call when all of them are exhausted.
pub const MAX_SHARDS: u32 = 256;

/// Returns one shard's part of a number that all `shards` add up to. The shards with the lowest
/// `index` get the remainder, one each.
///
/// # Examples
///
/// ```
/// use ratelimit_spec::shard_of;
///
/// assert_eq!([0, 1, 2].map(|index| shard_of(11, 3, index)), [4, 4, 3]);
/// ```
#[must_use]
pub fn shard_of(number: u32, shards: u32, index: u32) -> u32 {
    let shards = shards.max(1);
    number / shards + u32::from(index < number % shards)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_add_up_to_the_whole() {
        for (number, shards) in [(1, 1), (10, 3), (7, 7), (2_147_483_647, 256)] {
            let parts = (0..shards).map(|index| u64::from(shard_of(number, shards, index)));
            assert_eq!(parts.sum::<u64>(), number.into());
        }
    }
}
