//! The words an attribute and a limits file use, and the values they stand for.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::duration::{format_duration, parse_duration};
use crate::quote::{Quoted, either};
use crate::suggest::nearest;

/// The greatest rate, 2³¹ − 1: the greatest that every peer of the shared state supports.
pub const MAX_RATE: u32 = 2_147_483_647;

/// Words that other tools use, or that are nearly right.
const SYNONYMS: [(&str, &str); 15] = [
    ("deny", "reject"),
    ("distributed", "overall"),
    ("error", "err"),
    ("errors", "err"),
    ("fail_closed", "reject"),
    ("fail_open", "allow"),
    ("failure", "err"),
    ("gcra", "token_bucket"),
    ("global", "overall"),
    ("infinite", "forever"),
    ("no", "none"),
    ("per_instance", "per_client"),
    ("per_process", "per_client"),
    ("sliding_log", "sliding_window"),
    ("success", "ok"),
];

/// A word that is not one of those expected. Its [`Display`](fmt::Display) names the nearest one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WordError(String);

impl WordError {
    pub(crate) fn unknown(what: &str, word: &str, known: &[&str], or: &str) -> Self {
        let synonym =
            SYNONYMS.iter().find(|(synonym, _)| *synonym == word).map(|(_, meant)| *meant);
        let synonym = synonym.filter(|meant| known.contains(meant));
        let hint = match synonym.or_else(|| nearest(word, known.iter().copied())) {
            Some(known) => format!("did you mean `{known}`?"),
            None if or.is_empty() => format!("expected {}", either(known)),
            None => format!("expected `{}` or {or}", known.join("`, `")),
        };
        Self(format!("unknown `{what}` value {}; {hint}", Quoted(word)))
    }

    pub(crate) fn new(message: String) -> Self {
        Self(message)
    }
}

impl fmt::Display for WordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WordError {}

/// Gives an enum of plain words its `as_str`, `Display` and `FromStr`.
macro_rules! words {
    ($ty:ident, $what:literal, $($word:literal => $variant:ident),+) => {
        impl $ty {
            /// Every word, in the order in which messages list them.
            pub const WORDS: &[&str] = &[$($word),+];

            /// Returns the word that stands for this value.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),+
                }
            }
        }

        impl std::fmt::Display for $ty {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $ty {
            type Err = WordError;

            fn from_str(word: &str) -> Result<Self, WordError> {
                match word {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(WordError::unknown($what, word, Self::WORDS, "")),
                }
            }
        }
    };
}
pub(crate) use words;

/// The processes that share one budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// `overall`: all processes together.
    #[default]
    Overall,
    /// `per_client`: each process has the whole budget to itself.
    PerClient,
}

words!(Mode, "mode", "overall" => Overall, "per_client" => PerClient);

/// How calls are decided while the store is unavailable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnStoreError {
    /// `local`: this process counts by itself, with its share of the quota.
    #[default]
    Local,
    /// `allow`: the call is admitted.
    Allow,
    /// `reject`: the call is rejected.
    Reject,
}

words!(OnStoreError, "on_store_error", "local" => Local, "allow" => Allow, "reject" => Reject);

/// The effect of a change of a limiter's configuration on its state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnDrift {
    /// `reset`: the state is reset.
    #[default]
    Reset,
    /// `carry`: permits in use still count.
    Carry,
}

words!(OnDrift, "on_drift", "reset" => Reset, "carry" => Carry);

/// Which calls are refunded, by the result of their body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RefundOn {
    /// `never`: none of them.
    #[default]
    Never,
    /// `err`: those that fail, so that only successes count.
    Err,
    /// `ok`: those that succeed, so that only failures count.
    Ok,
}

words!(RefundOn, "refund_on", "never" => Never, "err" => Err, "ok" => Ok);

/// How long a call may wait for its permit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Wait {
    /// `forever`: until the permit is free.
    #[default]
    Forever,
    /// `none`: the call does not wait.
    None,
    /// A duration: at most this long.
    UpTo(Duration),
}

impl Wait {
    /// Every word; a duration is the third possibility.
    pub const WORDS: &[&str] = &["forever", "none"];

    /// Returns the word or the duration that stands for this value.
    #[must_use]
    pub fn as_str(self) -> Cow<'static, str> {
        match self {
            Self::Forever => Cow::Borrowed("forever"),
            Self::None => Cow::Borrowed("none"),
            Self::UpTo(limit) => Cow::Owned(format_duration(limit)),
        }
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.as_str())
    }
}

impl FromStr for Wait {
    type Err = WordError;

    fn from_str(word: &str) -> Result<Self, WordError> {
        match word {
            "forever" => Ok(Self::Forever),
            "none" => Ok(Self::None),
            // A digit, a sign or a point begins a duration.
            _ if word.starts_with(|c: char| !c.is_alphabetic()) => {
                parse_duration(word).map(Self::UpTo).map_err(|error| {
                    let or_none = if error.is_too_short() { ", or `none`" } else { "" };
                    WordError(format!("{error}{or_none}"))
                })
            }
            _ => {
                let or = "a duration such as `250ms`";
                Err(WordError::unknown("wait", word, Self::WORDS, or))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Mode, OnDrift, OnStoreError, RefundOn, Wait};
    use std::fmt::{Debug, Display};
    use std::str::FromStr;
    use std::time::Duration;

    fn round_trips<T: FromStr<Err: Debug> + Display + PartialEq + Debug>(values: &[(T, &str)]) {
        for (value, word) in values {
            assert_eq!(value.to_string(), *word);
            assert_eq!(word.parse::<T>().unwrap(), *value);
        }
    }

    #[test]
    fn every_word_means_its_value_and_back() {
        round_trips(&[(Mode::Overall, "overall"), (Mode::PerClient, "per_client")]);
        round_trips(&[
            (OnStoreError::Local, "local"),
            (OnStoreError::Allow, "allow"),
            (OnStoreError::Reject, "reject"),
        ]);
        round_trips(&[(OnDrift::Reset, "reset"), (OnDrift::Carry, "carry")]);
        round_trips(&[(RefundOn::Never, "never"), (RefundOn::Err, "err"), (RefundOn::Ok, "ok")]);
        round_trips(&[
            (Wait::Forever, "forever"),
            (Wait::None, "none"),
            (Wait::UpTo(Duration::from_millis(1500)), "1s500ms"),
        ]);
    }

    #[test]
    fn the_defaults_are_the_documented_ones() {
        assert_eq!(Mode::default(), Mode::Overall);
        assert_eq!(OnStoreError::default(), OnStoreError::Local);
        assert_eq!(OnDrift::default(), OnDrift::Reset);
        assert_eq!(Wait::default(), Wait::Forever);
    }

    #[test]
    fn an_unknown_word_names_the_nearest_or_all() {
        let message = |result: Result<(), super::WordError>| result.unwrap_err().to_string();
        for (found, expected) in [
            (
                message("overal".parse::<Mode>().map(drop)),
                "unknown `mode` value `overal`; did you mean `overall`?",
            ),
            (
                message("PER_CLIENT".parse::<Mode>().map(drop)),
                "unknown `mode` value `PER_CLIENT`; did you mean `per_client`?",
            ),
            (
                message("shared".parse::<Mode>().map(drop)),
                "unknown `mode` value `shared`; expected `overall` or `per_client`",
            ),
            (
                message("per_process".parse::<Mode>().map(drop)),
                "unknown `mode` value `per_process`; did you mean `per_client`?",
            ),
            (
                message("error".parse::<RefundOn>().map(drop)),
                "unknown `refund_on` value `error`; did you mean `err`?",
            ),
            (
                message("open".parse::<OnStoreError>().map(drop)),
                "unknown `on_store_error` value `open`; expected `local`, `allow` or `reject`",
            ),
            (
                message("carrry".parse::<OnDrift>().map(drop)),
                "unknown `on_drift` value `carrry`; did you mean `carry`?",
            ),
            (
                message("sometimes".parse::<Wait>().map(drop)),
                "unknown `wait` value `sometimes`; expected `forever`, `none` or a duration such as `250ms`",
            ),
            (
                message("for_ever".parse::<Wait>().map(drop)),
                "unknown `wait` value `for_ever`; did you mean `forever`?",
            ),
            (
                message("250".parse::<Wait>().map(drop)),
                "missing unit in `250`; write `250ms`, `250s`, `250m`, `250h` or `250d`",
            ),
            (
                message("".parse::<Wait>().map(drop)),
                "unknown `wait` value ``; expected `forever`, `none` or a duration such as `250ms`",
            ),
        ] {
            assert_eq!(found, expected);
        }
    }
}
