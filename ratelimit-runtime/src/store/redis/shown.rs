//! Texts of the server in messages.

use std::fmt;

use ratelimit_spec::write_shortened;

/// The most characters of a server's text that a message repeats.
const MOST_SHOWN: usize = 300;

/// Shows a text of the server on one line and shortened: it may be of any length, or come from another server than Redis.
pub(super) struct Shown<'a>(pub(super) &'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_shortened(f, self.0, MOST_SHOWN).map(drop)
    }
}
