//! The limits file: `ratelimit.yaml`.
//!
//! A file is read whole or refused whole, with every problem in one report and each at its line and
//! column. Reading one is cheap whatever it holds: at most 256 KiB, 16 levels and 10 000 limiters,
//! and no YAML that a list of limits can do without (anchors, tags, block scalars, several
//! documents, values over several lines).
//!
//! Every option:
//!
//! ```yaml
#![doc = include_str!("limits_file/reference.yaml")]
//! ```

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::algorithm::Algorithm;
use crate::calendar::{CalendarUnit, TimeZone};
use crate::limit::Limit;
use crate::network::Network;
use crate::per::Per;
use crate::words::{Mode, OnDrift, OnStoreError, RefundOn, Wait, WordError, words};

mod env;
mod fields;
mod node;
mod outline;
mod problem;
mod reach;
mod read;
mod scan;
mod shards;

pub use env::expand_env;
pub use problem::{Position, Problem, Step};
pub use shards::{MAX_SHARDS, ShardsError, check_shards, shard_of};

use node::{Node, Value};
use problem::Report;

/// The most bytes of a limits file.
pub const MAX_BYTES: usize = 256 * 1024;

/// The most levels of lists and maps in each other.
pub const MAX_DEPTH: usize = 16;

/// The most limiters.
pub const MAX_LIMITERS: usize = 10_000;

/// A limits file that was read without a problem.
#[derive(Clone)]
pub struct LimitsFile {
    /// Where state is kept, as written: `${..}` is not expanded. It may hold a password, so the
    /// [`Debug`](fmt::Debug) of this type leaves it out.
    pub store: Option<String>,
    /// What the name of every limiter starts with.
    pub key_prefix: Option<String>,
    /// Which of two different files is the later one.
    pub revision: Option<u64>,
    /// Whether every annotated key must be declared.
    pub strict: bool,
    /// What to do with an entry that matches no limiter.
    pub unmatched: Unmatched,
    /// Whether limiters that do not say so themselves only count whom they would refuse.
    pub shadow: bool,
    /// How long a decision may take.
    pub deadline: Option<Duration>,
    /// How many processes share the limits.
    pub instances: Option<u32>,
    /// The file with the certificates that a TLS connection trusts, as written.
    pub tls_ca: Option<String>,
    /// The proxies whose word about the address of a client counts.
    pub trusted_proxies: Vec<Network>,
    /// What applies where nothing else does.
    pub default: Settings,
    /// The limiters, in the order of the file.
    pub limiters: Vec<LimiterEntry>,
    /// The settings of keys built at run time, in the order of the file.
    pub prefixes: Vec<PrefixEntry>,
    /// The values as they were read, for their positions.
    root: Node,
}

/// What can be set for a limiter. A field that is absent is decided elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Whether it limits at all.
    pub enabled: Option<bool>,
    /// Whether it only counts whom it would refuse.
    pub shadow: Option<bool>,
    /// Permits per window; 0 admits nobody.
    pub rate: Option<u32>,
    /// The window.
    pub per: Option<Duration>,
    /// The unit of the calendar that [`per`](Self::per) is; its length is the usual one then.
    pub unit: Option<CalendarUnit>,
    /// By whose clocks the windows of a calendar begin.
    pub time_zone: Option<TimeZone>,
    /// Several limits that all hold, instead of one rate and window.
    pub limits: Option<Arc<[Limit]>>,
    /// Who shares the budget.
    pub mode: Option<Mode>,
    /// The rule by which permits are counted.
    pub algorithm: Option<Algorithm>,
    /// What a token bucket holds.
    pub burst: Option<u32>,
    /// How long a token bucket takes to warm up.
    pub warm_up: Option<Duration>,
    /// How long a call may wait for its permit.
    pub wait: Option<Wait>,
    /// How many calls of one process may wait at the same time.
    pub max_waiters: Option<u32>,
    /// How many permits can be owed for charges.
    pub max_debt: Option<u32>,
    /// What a call gets while the store does not answer.
    pub on_store_error: Option<OnStoreError>,
    /// Whether a call whose body fails gets its permits back.
    pub refund_on: Option<RefundOn>,
    /// What happens to the state when the numbers have changed.
    pub on_drift: Option<OnDrift>,
    /// How long an unused limiter is remembered.
    pub keep_alive: Option<Duration>,
    /// How many parts it is split into, so that one server need not carry it alone.
    pub shards: Option<u32>,
}

/// One entry under `limiters`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimiterEntry {
    /// The key, which is a valid [`Template`](crate::Template).
    pub key: String,
    /// What applies to all its names.
    pub settings: Settings,
    /// What applies to some of its names instead; the first that matches decides.
    pub overrides: Vec<Override>,
}

/// One entry under `overrides`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// The names it is for.
    pub matches: Match,
    /// What applies to them.
    pub settings: Settings,
}

/// Which names something is for. Names are without the key prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Match {
    /// `key`: the one with this name.
    Key(String),
    /// `prefix`: all that start like this.
    Prefix(String),
}

impl Match {
    /// Whether it is for this name.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        match self {
            Self::Key(key) => name == key,
            Self::Prefix(prefix) => name.starts_with(prefix.as_str()),
        }
    }
}

/// One entry under `prefixes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixEntry {
    /// What the names start with.
    pub prefix: String,
    /// What applies to them.
    pub settings: Settings,
}

/// What to do with an entry that matches no limiter of the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Unmatched {
    /// `warn`: say so. Several programs may share one file.
    #[default]
    Warn,
    /// `error`: do not start.
    Error,
}

words!(Unmatched, "unmatched", "warn" => Warn, "error" => Error);

impl Settings {
    /// The window, with what it is called.
    #[must_use]
    pub fn window(&self) -> Option<Per> {
        self.per.map(|length| Per { length, unit: self.unit })
    }

    /// Fills the fields that are absent here from other settings. Several limits and one are
    /// alternatives: whoever has either of them here needs neither from there.
    #[must_use]
    pub fn or(self, other: &Self) -> Self {
        let one = self.rate.is_some() || self.per.is_some();
        let several = self.limits.is_some();
        let other_one = |field: Option<u32>| field.filter(|_| !several);
        Self {
            enabled: self.enabled.or(other.enabled),
            shadow: self.shadow.or(other.shadow),
            rate: self.rate.or(other_one(other.rate)),
            per: self.per.or(other.per.filter(|_| !several)),
            unit: if self.per.is_some() || several { self.unit } else { other.unit },
            time_zone: self.time_zone.or(other.time_zone),
            limits: self.limits.or_else(|| other.limits.clone().filter(|_| !one)),
            mode: self.mode.or(other.mode),
            algorithm: self.algorithm.or(other.algorithm),
            burst: self.burst.or(other_one(other.burst)),
            warm_up: self.warm_up.or(other.warm_up.filter(|_| !several)),
            wait: self.wait.or(other.wait),
            max_waiters: self.max_waiters.or(other.max_waiters),
            max_debt: self.max_debt.or(other.max_debt),
            on_store_error: self.on_store_error.or(other.on_store_error),
            refund_on: self.refund_on.or(other.refund_on),
            on_drift: self.on_drift.or(other.on_drift),
            keep_alive: self.keep_alive.or(other.keep_alive),
            shards: self.shards.or(other.shards),
        }
    }
}

impl Default for LimitsFile {
    /// What an empty file says.
    fn default() -> Self {
        Self {
            store: None,
            key_prefix: None,
            revision: None,
            strict: true,
            unmatched: Unmatched::default(),
            shadow: false,
            deadline: None,
            instances: None,
            tls_ca: None,
            trusted_proxies: Vec::new(),
            default: Settings::default(),
            limiters: Vec::new(),
            prefixes: Vec::new(),
            root: Node { position: None, value: Value::Null },
        }
    }
}

impl LimitsFile {
    /// Reads a limits file.
    ///
    /// # Errors
    ///
    /// When there is anything wrong with it: every problem in the order of the file, or after 50 that
    /// there are more. What is no YAML is one problem.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        let (file, problems) = Self::parse_in_part(text);
        if problems.is_empty() { Ok(file) } else { Err(problems) }
    }

    /// Reads as much of a limits file as can be read, and tells what cannot: for who has more to say
    /// of a file that is refused. What has a problem is left out.
    #[must_use]
    pub fn parse_in_part(text: &str) -> (Self, Vec<Problem>) {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let root = match Self::read(text) {
            Ok(root) => root,
            Err(problem) => return (Self::default(), vec![problem]),
        };
        let mut report = Report::default();
        let mut file = read::file(&root, &mut report);
        file.root = root;
        (file, report.finish())
    }

    /// Reads the values and their places.
    fn read(text: &str) -> Result<Node, Problem> {
        let tokens = scan::scan(text)?;
        let mut root = Node::parse(text)?;
        if let Some(outline) = outline::outline(&tokens) {
            root.place(&outline);
        }
        Ok(root)
    }

    /// The entry under `limiters` with exactly this key.
    #[must_use]
    pub fn limiter(&self, key: &str) -> Option<&LimiterEntry> {
        self.limiters.iter().find(|entry| entry.key == key)
    }

    /// Where something stands in the file: a value, or the key of a list or map.
    #[must_use]
    pub fn position(&self, path: &[Step<'_>]) -> Option<Position> {
        self.root.find(path)
    }
}

impl fmt::Debug for LimitsFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitsFile")
            .field("store", &self.store.as_ref().map(|_| "..."))
            .field("key_prefix", &self.key_prefix)
            .field("revision", &self.revision)
            .field("strict", &self.strict)
            .field("unmatched", &self.unmatched)
            .field("shadow", &self.shadow)
            .field("deadline", &self.deadline)
            .field("instances", &self.instances)
            .field("tls_ca", &self.tls_ca)
            .field("trusted_proxies", &self.trusted_proxies)
            .field("default", &self.default)
            .field("limiters", &self.limiters)
            .field("prefixes", &self.prefixes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
