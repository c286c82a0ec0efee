//! The rules: pure functions of a state and the time, without I/O and without a clock.
//!
//! Each rule is written twice, here and as a Lua script for Redis. Neither is made from the
//! other; a property test holds the two together on random traces.

pub(crate) mod reconcile;
pub(crate) mod sliding_window;
