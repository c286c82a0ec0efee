//! The limits file: `ratelimit.yaml`.
//!
//! A file is accepted or rejected as a whole, and one report has every problem with its line and
//! column. Parsing is always cheap: at most 256 KiB, 16 levels and 10 000 limiters, and no YAML
//! that a list of limits does not need (anchors, tags, block scalars, several documents, values
//! over several lines).
//!
//! Every option:
//!
//! ```yaml
#![doc = include_str!("limits_file/reference.yaml")]
//! ```

use std::fmt;
use std::time::Duration;

use crate::header_name::HeaderName;
use crate::network::Network;
use crate::settings::Settings;
use crate::words::{WordError, words};

#[cfg(feature = "serde")]
mod block;
mod env;
mod fields;
mod node;
mod problem;
mod program;
mod reach;
mod read;
mod schema;
mod shape;
mod shards;
#[cfg(any(feature = "limits-file", feature = "serde"))]
mod tree;
#[cfg(feature = "limits-file")]
mod yaml;
#[cfg(not(feature = "limits-file"))]
#[path = "limits_file/no_yaml.rs"]
mod yaml;

#[cfg(feature = "serde")]
pub use block::settings_block;
pub use env::expand_env;
pub use problem::{Context, Position, Problem, Step};
pub use program::{check_deadline, check_max_remembered, check_revision};
pub use schema::schema;
pub use shards::{MAX_SHARDS, shard_of};

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
    /// The prefix of the name of every limiter, as written.
    pub key_prefix: Option<String>,
    /// The revision, which decides which of two different files is the later one.
    pub revision: Option<u64>,
    /// Whether every annotated key must be declared.
    pub strict: bool,
    /// What to do with an entry that matches no limiter.
    pub unmatched: Unmatched,
    /// Whether limiters without a `shadow` of their own only count the calls that they would reject.
    pub shadow: bool,
    /// How long a decision may take.
    pub deadline: Option<Duration>,
    /// How many processes share the limits.
    pub instances: Option<u32>,
    /// How many limiters a process remembers.
    pub max_remembered: Option<u32>,
    /// The file with the certificates that a TLS connection trusts, as written.
    pub tls_ca: Option<String>,
    /// The proxies that are trusted to name the address of a client.
    pub trusted_proxies: Vec<Network>,
    /// The header in which they do so, if it is only one.
    pub client_ip_header: Option<HeaderName>,
    /// The settings that apply if no others do.
    pub default: Settings,
    /// The limiters, in the order of the file.
    pub limiters: Vec<LimiterEntry>,
    /// The settings of keys built at run time, in the order of the file.
    pub prefixes: Vec<PrefixEntry>,
    /// The indices of `limiters`, by key.
    by_key: Vec<usize>,
    /// The values as they were read, for their positions.
    root: Node,
}

/// One entry under `limiters`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimiterEntry {
    /// The key, which is a valid [`Template`](crate::Template).
    pub key: String,
    /// The settings of all its names.
    pub settings: Settings,
    /// The settings of some of its names instead; the first match decides.
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

/// The names that an entry matches, without the key prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Match {
    /// `key`: the one with this name.
    Key(String),
    /// `prefix`: all that start like this.
    Prefix(String),
}

impl Match {
    /// Returns whether it matches this name.
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
    /// The prefix of the names.
    pub prefix: String,
    /// What applies to them.
    pub settings: Settings,
}

/// The treatment of an entry that matches no limiter of the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Unmatched {
    /// `warn`: report it. Several programs may share one file.
    #[default]
    Warn,
    /// `error`: do not start.
    Error,
    /// `ignore`: nothing, not even if it is nearly the name of a limiter.
    Ignore,
}

words!(Unmatched, "unmatched", "warn" => Warn, "error" => Error, "ignore" => Ignore);

/// Decodes the bytes of a limits file.
///
/// # Errors
///
/// Returns the problem of bytes that are not UTF-8.
pub fn decode(bytes: Vec<u8>) -> Result<String, Problem> {
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let lines = String::from_utf8_lossy(valid);
        let line = lines.rsplit('\n').next().unwrap_or_default();
        Problem {
            position: Some(Position {
                line: lines.matches('\n').count() + 1,
                column: line.chars().count() + 1,
            }),
            message: "not UTF-8; save the file as UTF-8".to_owned(),
            is_syntax: true,
        }
    })
}

impl Default for LimitsFile {
    /// Returns the settings of an empty file.
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
            max_remembered: None,
            tls_ca: None,
            trusted_proxies: Vec::new(),
            client_ip_header: None,
            default: Settings::default(),
            limiters: Vec::new(),
            prefixes: Vec::new(),
            by_key: Vec::new(),
            root: Node { position: None, value: Value::Null },
        }
    }
}

impl LimitsFile {
    /// Parses a limits file.
    ///
    /// # Errors
    ///
    /// Returns every problem in the order of the file, or after 50 that there are more. Text that
    /// is not YAML is one problem. Without the feature `limits-file`, every text is an error.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        let (file, problems) = Self::parse_in_part(text);
        if problems.is_empty() { Ok(file) } else { Err(problems) }
    }

    /// Parses the valid parts of a limits file and returns the problems of the rest, so that
    /// callers can add their own. Parts with a problem are left out.
    #[must_use]
    pub fn parse_in_part(text: &str) -> (Self, Vec<Problem>) {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let root = match yaml::read(text) {
            Ok(root) => root,
            Err(problem) => return (Self::default(), vec![problem]),
        };
        let mut report = Report::default();
        let mut file = read::file(&root, &mut report);
        file.by_key = (0..file.limiters.len()).collect();
        file.by_key.sort_unstable_by_key(|index| &file.limiters[*index].key);
        file.root = root;
        (file, report.finish())
    }

    /// Returns whether the file has no content; `{}` is content.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(self.root.value, Value::Null)
    }

    /// Returns the entry under `limiters` with exactly this key.
    #[must_use]
    pub fn limiter(&self, key: &str) -> Option<&LimiterEntry> {
        let entry = |index: &usize| self.limiters.get(*index);
        let key_of = |index: &usize| entry(index).map(|entry| entry.key.as_str());
        let at = self.by_key.binary_search_by(|index| key_of(index).cmp(&Some(key))).ok()?;
        self.by_key.get(at).and_then(entry)
    }

    /// Returns the limiter and the setting at a position.
    #[must_use]
    pub fn context(&self, position: Position) -> Context<'_> {
        let keys = self.root.keys_to(position).unwrap_or_default();
        // A limiter may have the name of a setting.
        let (limiter, inside) = match &keys[..] {
            ["limiters", limiter, inside @ ..] => (Some(*limiter), inside),
            ["default" | "prefixes", inside @ ..] => (None, inside),
            [field, ..] => return Context { limiter: None, setting: read::file_field(field) },
            [] => return Context::default(),
        };
        let setting = inside.iter().rev().find_map(|key| read::setting(key));
        Context { limiter, setting }
    }

    /// Returns the position of a value, or of the key of a list or map.
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
            .field("max_remembered", &self.max_remembered)
            .field("tls_ca", &self.tls_ca)
            .field("trusted_proxies", &self.trusted_proxies)
            .field("client_ip_header", &self.client_ip_header)
            .field("default", &self.default)
            .field("limiters", &self.limiters)
            .field("prefixes", &self.prefixes)
            .finish_non_exhaustive()
    }
}
