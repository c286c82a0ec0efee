//! The limits file, and when it is read.

#[cfg(feature = "limits-file")]
use std::{path::PathBuf, time::Duration};

use super::LimitsBuilder;
use crate::limits::file::Source;

impl LimitsBuilder {
    /// Reads this limits file, which must exist.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use ratelimit_runtime::Limits;
    ///
    /// # async fn setup() -> Result<(), ratelimit_runtime::SetupError> {
    /// let limits = Limits::builder().limits_file("deploy/ratelimit.yaml").install().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "limits-file")]
    pub fn limits_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.source = Source::Path(path.into());
        self
    }

    /// Reads limits from this YAML text instead of a file.
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
    ///   search: { rate: 5, per: 1m }
    ///   reports: { rate: 2, per: 1h }
    /// ";
    /// let limits = Limits::builder().memory().limits_yaml(yaml).build().await?;
    /// assert_eq!(limits.configured("search").available_permits().await?, 5);
    /// assert_eq!(limits.configured("reports").available_permits().await?, 2);
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "limits-file")]
    pub fn limits_yaml(mut self, yaml: impl Into<String>) -> Self {
        self.source = Source::Text(yaml.into());
        self
    }

    /// Reads no limits file, even if one exists.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::{Limits, Reason};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limits = Limits::builder().memory().no_limits_file().build().await?;
    /// let rejection = limits.configured("search").try_acquire(1).await.unwrap_err();
    /// assert_eq!(rejection.reason(), Reason::NotConfigured);
    /// # Ok(())
    /// # }
    /// ```
    pub fn no_limits_file(mut self) -> Self {
        self.source = Source::Nothing;
        self
    }

    /// Checks the limits file at this interval, and [reloads](crate::Limits::reload) it if its text changed. A changed
    /// file is loaded once its text has been stable for 100 ms, so a file that is written in steps is not loaded in part.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use ratelimit_runtime::Limits;
    ///
    /// # async fn setup() -> Result<(), ratelimit_runtime::SetupError> {
    /// let limits = Limits::builder()
    ///     .limits_file("/etc/shop/ratelimit.yaml")
    ///     .watch(Duration::from_secs(5))
    ///     .install()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "limits-file")]
    pub fn watch(mut self, every: Duration) -> Self {
        self.watch = Some(every);
        self
    }

    /// [Reloads](crate::Limits::reload) the limits file when the process gets `SIGHUP`, as operators expect of a
    /// service. From the start of the setup on, the signal no longer ends the process. A handler that the program
    /// has already, and those of tokio, are called too; one that it sets later with `sigaction` or `signal` replaces
    /// this one.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use ratelimit_runtime::Limits;
    ///
    /// # async fn setup() -> Result<(), ratelimit_runtime::SetupError> {
    /// let limits = Limits::builder()
    ///     .limits_file("/etc/shop/ratelimit.yaml")
    ///     .reload_on_hangup()
    ///     .on_event(|event| eprintln!("{event}"))
    ///     .install()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(all(unix, feature = "signal"))]
    pub fn reload_on_hangup(mut self) -> Self {
        self.on_hangup = true;
        self
    }
}
