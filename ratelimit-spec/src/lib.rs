//! The grammar of `ratelimit-runtime`: the arguments of the attribute, and the limits file.
//!
//! A procedural macro cannot export functions, yet the same text (a duration, a key, the limits
//! file) is read twice: by the macro while a program is compiled and by the runtime while it
//! starts. Both parse it here, so they cannot disagree.
//!
//! Everything here is a pure function from text to values: no I/O, no clock, no environment, and no
//! panics on any input.

pub mod algorithm;
pub mod calendar;
mod check;
mod conflict;
pub mod duration;
mod header_name;
pub mod key;
mod limit;
pub mod limits_file;
mod name;
mod network;
mod penalty;
mod per;
mod quota;
mod quote;
pub mod rate;
mod rule;
mod settings;
pub mod suggest;
pub mod template;
pub mod words;

pub use algorithm::Algorithm;
pub use calendar::{Calendar, CalendarUnit, TimeZone};
pub use conflict::Conflict;
pub use duration::{DurationError, MAX_PER, MIN_PER, format_duration, parse_duration};
pub use header_name::{HeaderName, HeaderNameError, is_token_char};
pub use key::{KeyWriter, MAX_NAME, PrefixError, check_prefix, safe_name};
pub use limit::{Limit, in_order, together};
pub use limits_file::{
    Context, LimiterEntry, LimitsFile, MAX_SHARDS, Match, Override, Position, PrefixEntry, Problem,
    Step, Unmatched, expand_env, shard_of,
};
pub use name::KeyName;
pub use network::{Network, NetworkError};
pub use penalty::Penalty;
pub use per::Per;
pub use quota::{MAX_LIMITS, Quota, QuotaError, check_count, check_number, time_zone};
pub use quote::{Quoted, either, write_on_one_line, write_shortened};
pub use rule::Rule;
pub use settings::{Merged, Settings, Sourced};
pub use suggest::{nearest, nearest_setting, nearest_words};
pub use template::{Placeholder, Template, TemplateError};
pub use words::{MAX_RATE, Mode, OnDrift, OnStoreError, RefundOn, Wait, WordError};
