//! Numbers that look random, the same for the same seed.

/// A small generator of such numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator that begins with this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below this one; 0 if that is 0.
    pub fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % below.max(1)
    }
}
