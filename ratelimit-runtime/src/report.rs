//! The snapshot that [`Limits::report`](crate::Limits::report) returns: every limiter, its settings
//! with their sources, and its counts.

use std::fmt;

use crate::Quotas;
pub use crate::store::Reconciled;

/// A snapshot of all limiters. Implements `Display`: settings that no source sets are left out, unless it is formatted
/// by `{:#}`; overrides and prefixes are listed as in the limits file. With the feature `serde` it can be serialized.
///
/// # Examples
///
/// ```
/// use ratelimit_runtime::{Limits, report::Source};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let yaml = "limiters: { search: { rate: 5, per: 1s } }";
/// let limits = Limits::builder().memory().limits_yaml(yaml).build().await?;
/// let report = limits.report();
/// let search = report.limiter("search").expect("it is in the limits file");
/// let rate = search.setting("rate").expect("it has one");
/// assert_eq!((&*rate.value, rate.source), ("5", Source::LimitsFile));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Report {
    /// `memory`, or the address of Redis without its password.
    pub store: String,
    /// The settings of the program as a whole, by their names in the limits file: `deadline`, `max_remembered`, and
    /// `revision` and `instances` if they are set.
    pub settings: Vec<Setting>,
    /// Every limiter that is compiled in, written in the limits file, or belongs to a layer. Names that are built at run
    /// time are counted in the entry of the limits file that applies to them, if there is one.
    pub limiters: Vec<LimiterReport>,
    /// The settings of the limits file for names that are built at run time, by prefix. The first match applies.
    pub prefixes: Vec<Entry>,
}

/// The settings of the limits file for some names: an entry of `overrides` or of `prefixes`.
///
/// # Examples
///
/// ```
/// use ratelimit_runtime::Limits;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let yaml = "
/// limiters:
///   search:{user}:
///     rate: 5
///     per: 1s
///     overrides: [{ key: 'search:7', rate: 50 }]
/// ";
/// let limits = Limits::builder().memory().limits_yaml(yaml).build().await?;
/// let report = limits.report();
/// let entry = &report.limiter("search:{user}").expect("it is in the limits file").overrides[0];
/// assert_eq!(entry.names, "search:7");
/// assert_eq!(entry.to_string(), "search:7: rate: 50");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Entry {
    /// A name such as `orders:42`, or a prefix of names, such as `orders:vip-*`.
    pub names: String,
    /// Its settings, by their names in the limits file.
    pub settings: Vec<Setting>,
}

impl Report {
    /// Returns the limiter with this key, as it is written, or of a prefix with a `*`. If both are `a*`, it is that of
    /// the key.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::Limits;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let yaml = "limiters: { 'search:{user}': { rate: 5, per: 1s } }";
    /// let limits = Limits::builder().memory().limits_yaml(yaml).build().await?;
    /// let report = limits.report();
    /// assert!(report.limiter("search:{user}").is_some());
    /// assert!(report.limiter("search:7").is_none());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn limiter(&self, key: &str) -> Option<&LimiterReport> {
        self.limiters.iter().find(|limiter| limiter.key == key)
    }
}

/// One limiter in a [`Report`]; all keys of a template are one.
///
/// # Examples
///
/// ```
/// use ratelimit_runtime::Limits;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let yaml = "limiters: { search: { rate: 2, per: 1m } }";
/// let limits = Limits::builder().memory().limits_yaml(yaml).build().await?;
/// for _ in 0..3 {
///     let _ = limits.configured("search").try_acquire(1).await;
/// }
/// let report = limits.report();
/// let search = report.limiter("search").expect("it is in the limits file");
/// assert_eq!((search.allowed, search.rejected), (2, 1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct LimiterReport {
    /// The key as it is written.
    pub key: String,
    /// The configured quotas; `None` if none are configured, or the limiter is disabled.
    pub quotas: Option<Quotas>,
    /// The quotas that apply instead, according to the last reply of the store: another process, or an operator, has
    /// changed them. `None` if the configured ones apply, and for a key with placeholders or shards, which has many
    /// limiters.
    pub in_force: Option<Quotas>,
    /// Its settings by their names in the limits file; empty if it has no quota, unless it is a prefix, whose names can
    /// have quotas in code. Functions that share the limiter and wait differently have one `wait` each.
    pub settings: Vec<Setting>,
    /// The overrides of the limits file for some of its names. The first match applies.
    pub overrides: Vec<Entry>,
    /// The annotated places that use it, as `module::function (file:line)`.
    pub call_sites: Vec<String>,
    /// Number of calls that were admitted.
    pub allowed: u64,
    /// Number of calls that were rejected.
    pub rejected: u64,
    /// Number of admitted calls that had to wait.
    pub waited: u64,
    /// Number of calls that `on_store_error` decided.
    pub degraded: u64,
    /// Number of admitted calls that would have been rejected, or made to wait, outside shadow mode.
    pub shadowed: u64,
    /// Number of calls whose key is beyond `max_keys`, so that it shared a limiter.
    pub shared: u64,
    /// The outcomes of reconciling the configured and the stored configuration, and the number of each.
    pub reconciled: Vec<(Reconciled, u64)>,
}

impl LimiterReport {
    /// Returns the setting with this name in the limits file, such as `rate`; of several, the first.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::Limits;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let yaml = "limiters: { search: { rate: 5, per: 1s, on_store_error: allow } }";
    /// let limits = Limits::builder().memory().limits_yaml(yaml).build().await?;
    /// let report = limits.report();
    /// // Limits that fail open during an outage.
    /// let open = report.limiters.iter().filter(|limiter| {
    ///     limiter.setting("on_store_error").is_some_and(|setting| setting.value == "allow")
    /// });
    /// assert!(open.map(|limiter| &*limiter.key).any(|key| key == "search"));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn setting(&self, name: &str) -> Option<&Setting> {
        self.settings.iter().find(|setting| setting.name == name)
    }

    /// Returns whether it was used, perhaps before a reload disabled it or removed its quota.
    fn has_counts(&self) -> bool {
        let counts = [self.allowed, self.rejected, self.degraded, self.shadowed, self.shared];
        counts.into_iter().any(|count| count > 0) || !self.reconciled.is_empty()
    }
}

/// One setting of a limiter, or of the program.
///
/// # Examples
///
/// ```
/// use ratelimit_runtime::Limits;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let yaml = "prefixes: [{ prefix: 'partner:', rate: 5, per: 1m }]";
/// let limits = Limits::builder().memory().limits_yaml(yaml).build().await?;
/// let rate = &limits.report().prefixes[0].settings[0];
/// assert_eq!((rate.name, &*rate.value), ("rate", "5"));
/// assert_eq!(rate.to_string(), "rate: 5 (prefix)");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Setting {
    /// Its name in the limits file.
    pub name: &'static str,
    /// Its value, as the limits file writes it.
    pub value: String,
    /// Its source.
    pub source: Source,
}

/// The source of a setting; an earlier one in this list takes precedence.
///
/// # Examples
///
/// ```
/// use ratelimit_runtime::{Limits, report::{Setting, Source}};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let yaml = "limiters: { search: { rate: 5, per: 1s } }";
/// let limits = Limits::builder().memory().limits_yaml(yaml).build().await?;
/// let report = limits.report();
/// let search = report.limiter("search").expect("it is in the limits file");
/// let is_set = |setting: &&Setting| setting.source != Source::BuiltIn;
/// let set: Vec<&str> = search.settings.iter().filter(is_set).map(|setting| setting.name).collect();
/// assert_eq!(set, ["rate", "per"]);
///
/// assert!(Source::Override < Source::LimitsFile, "an override takes precedence");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Source {
    /// The builder, for a setting of the program as a whole.
    Builder,
    /// An entry under `overrides` in the limits file.
    Override,
    /// The limiter's entry in the limits file; of the program, its top level.
    LimitsFile,
    /// An entry under `prefixes` in the limits file.
    Prefix,
    /// The attribute.
    Annotation,
    /// The settings that code gives a layer, or a limiter that it names.
    Code,
    /// The limits file as it was when the program was compiled.
    Compiled,
    /// A setting for all limiters: the top-level `shadow` of the limits file, or the builder's.
    Global,
    /// `default` in the limits file.
    Default,
    /// No source sets it, so the default applies.
    BuiltIn,
}

impl Source {
    /// Returns whether it is the limits file, or a part of it.
    pub(crate) fn is_of_the_file(self) -> bool {
        matches!(self, Self::Override | Self::LimitsFile | Self::Prefix | Self::Default)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Builder => "builder",
            Self::Override => "override",
            Self::LimitsFile => "limits file",
            Self::Prefix => "prefix",
            Self::Annotation => "annotation",
            Self::Code => "code",
            Self::Compiled => "limits file at compile time",
            Self::Global => "global",
            Self::Default => "default",
            Self::BuiltIn => "built in",
        })
    }
}

impl fmt::Display for Reconciled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.name, self.value, self.source)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "store {}", self.store)?;
        write_settings(f, &self.settings)?;
        self.limiters.iter().try_for_each(|limiter| {
            f.write_str("\n")?;
            fmt::Display::fmt(limiter, f)
        })?;
        self.prefixes.iter().try_for_each(|prefix| write!(f, "\nprefix {prefix}"))
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names)?;
        let mut settings = self.settings.iter().enumerate();
        settings.try_for_each(|(n, Setting { name, value, .. })| {
            write!(f, "{} {name}: {value}", if n == 0 { ":" } else { "," })
        })
    }
}

fn write_settings(f: &mut fmt::Formatter<'_>, settings: &[Setting]) -> fmt::Result {
    let is_one_of_several = |name| settings.iter().filter(|other| other.name == name).count() > 1;
    let all = f.alternate();
    let is_shown = |setting: &&Setting| {
        all || setting.source != Source::BuiltIn || is_one_of_several(setting.name)
    };
    settings.iter().filter(is_shown).try_for_each(|setting| write!(f, "\n  {setting}"))
}

impl fmt::Display for LimiterReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.key)?;
        let off = self.setting("enabled").filter(|enabled| enabled.value == "false");
        match off {
            None if self.settings.is_empty() && self.in_force.is_none() => {
                f.write_str("\n  no quota")?;
            }
            Some(enabled) => write!(f, "\n  off ({})", enabled.source)?,
            None => write_settings(f, &self.settings)?,
        }
        if let Some(quotas) = &self.in_force {
            write!(f, "\n  in force: {quotas} (store)")?;
        }
        self.overrides.iter().try_for_each(|entry| write!(f, "\n  override {entry}"))?;
        let is_in_force = off.is_none() && !self.settings.is_empty();
        if !is_in_force && !self.has_counts() {
            return Ok(());
        }
        self.call_sites.iter().try_for_each(|site| write!(f, "\n  used by {site}"))?;
        write!(
            f,
            "\n  allowed {}, rejected {}, waited {}, degraded {}, shadowed {}",
            self.allowed, self.rejected, self.waited, self.degraded, self.shadowed
        )?;
        if self.shared > 0 {
            write!(f, "\n  {} calls with keys beyond `max_keys`", self.shared)?;
        }
        let mut outcomes = self.reconciled.iter();
        outcomes.try_for_each(|(outcome, n)| write!(f, "\n  reconciled: {outcome} {n}"))
    }
}
