//! The public enums for words of settings.
//!
//! Each enum mirrors one of the macro and the limits file. Within the workspace those are matched
//! exhaustively; a further word here is not a breaking change.

use std::{fmt, time::Duration};

use ratelimit_spec as spec;

/// Declares a public enum of plain words and its conversions, so that both sides stay complete.
macro_rules! words {
    (
        $(#[$doc:meta])*
        $name:ident { $($(#[$variant_doc:meta])* $variant:ident,)+ }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
        }

        impl fmt::Display for $name {
            /// Writes the word of the limits file.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.word().fmt(f)
            }
        }

        #[allow(dead_code, reason = "not every word goes both ways")]
        impl $name {
            pub(crate) fn of(word: spec::$name) -> Self {
                match word {
                    $(spec::$name::$variant => Self::$variant,)+
                }
            }

            pub(crate) fn word(self) -> spec::$name {
                match self {
                    $(Self::$variant => spec::$name::$variant,)+
                }
            }
        }
    };
}

words! {
    /// How permits are counted; see [`guide::algorithms`](crate::guide::algorithms).
    Algorithm {
        /// At most the rate in any window.
        SlidingWindow,
        /// The rate in the long run, and up to a burst at once.
        TokenBucket,
        /// The rate in each window; windows follow each other since the Unix epoch, or are those of a
        /// calendar.
        FixedWindow,
        /// Evenly spaced permits.
        LeakyBucket,
    }
}

words! {
    /// The length of a calendar window.
    CalendarUnit {
        /// Begins with each full minute.
        Minute,
        /// Begins with each full hour of the clocks.
        Hour,
        /// Begins at midnight.
        Day,
        /// Begins on Monday.
        Week,
        /// Begins on the first.
        Month,
    }
}

words! {
    /// Which processes share one budget.
    Mode {
        /// All processes together.
        Overall,
        /// Each process has the whole budget to itself.
        PerClient,
    }
}

words! {
    /// How calls are decided while the store is unavailable; see [`guide::outages`](crate::guide::outages).
    OnStoreError {
        /// This process counts by itself, with its share of the quota.
        Local,
        /// The call is admitted.
        Allow,
        /// The call is rejected.
        Reject,
    }
}

words! {
    /// The effect of a change of the configured quota on the state of a limiter; see
    /// [`guide::reconciliation`](crate::guide::reconciliation).
    OnDrift {
        /// The state is reset: the whole quota is free.
        Reset,
        /// Permits in use still count.
        Carry,
    }
}

/// How long a call may wait for its permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Wait {
    /// Until the permits are free.
    Forever,
    /// Not at all.
    None,
    /// At most this long.
    UpTo(Duration),
}

impl Wait {
    pub(crate) fn word(self) -> spec::Wait {
        match self {
            Self::Forever => spec::Wait::Forever,
            Self::None => spec::Wait::None,
            Self::UpTo(longest) => spec::Wait::UpTo(longest),
        }
    }
}

impl fmt::Display for Wait {
    /// Writes the word of the limits file, or the duration.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.word().fmt(f)
    }
}
