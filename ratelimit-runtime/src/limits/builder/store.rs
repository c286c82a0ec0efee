//! The store, and its use by this process.

#[cfg(feature = "tls")]
use std::path::PathBuf;
use std::time::Duration;

use super::{LimitsBuilder, program::Named};

impl LimitsBuilder {
    /// Stores limits in Redis, at a `redis://`, `rediss://`, `unix://`, `redis-cluster://`,
    /// `rediss-cluster://`, `redis-sentinel://` or `rediss-sentinel://` address. A cluster takes several
    /// hosts, `redis-cluster://a:7000,b:7000`; so do sentinels, which also need the master's name:
    /// `redis-sentinel://a,b/0?master=main`. The default port is 26379 for sentinels, otherwise 6379. The path is the number
    /// of the database.
    ///
    /// The login of an address is that of the servers: `redis://user:password@host`. Sentinels that demand one take it from
    /// `&sentinel_user=` and `&sentinel_password=`. For a socket, all of this is in the query:
    /// `unix:///run/redis/redis.sock?db=0&user=name&pass=password`. With `?protocol=resp2`, connections use RESP2, for a
    /// proxy that mishandles `HELLO`.
    ///
    /// Passwords are percent-encoded, and appear in no message, report or `Debug` output.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use ratelimit_runtime::Limits;
    ///
    /// # async fn setup() -> Result<(), ratelimit_runtime::SetupError> {
    /// let cluster = "rediss-cluster://shop:p%40ss@10.0.0.1:7000,10.0.0.2:7000";
    /// let limits = Limits::builder().redis(cluster).install().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "redis")]
    pub fn redis(mut self, url: impl Into<String>) -> Self {
        self.store = Some(Named::At(url.into()));
        self
    }

    /// Stores limits in this process.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::Limits;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limits = Limits::builder().memory().build().await?;
    /// assert_eq!(limits.report().store, "memory");
    /// # Ok(())
    /// # }
    /// ```
    pub fn memory(mut self) -> Self {
        self.store = Some(Named::At("memory".to_owned()));
        self
    }

    /// Trusts the certificate authorities in this PEM file, instead of the system's. Each new connection reads it
    /// again, so they can change while the program runs; if the file cannot be used then, the last ones remain trusted.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use ratelimit_runtime::Limits;
    ///
    /// # async fn setup() -> Result<(), ratelimit_runtime::SetupError> {
    /// let limits = Limits::builder()
    ///     .redis("rediss://redis.internal:6379")
    ///     .tls_ca("/etc/ssl/internal-ca.pem")
    ///     .install()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "tls")]
    pub fn tls_ca(mut self, path: impl Into<PathBuf>) -> Self {
        self.tls_ca = Some(path.into());
        self
    }

    /// Sets the prefix of every key in the store: at most 31 bytes, without braces or control characters. Services and
    /// environments that share a server, but no limits, each need their own, such as `shop-test:`.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::{Limits, Quota};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limits = Limits::builder().memory().key_prefix("shop-test:").build().await?;
    /// let search = limits.limiter("search", Quota::per_second(100));
    /// assert_eq!(search.name(), "shop-test:search");
    /// # Ok(())
    /// # }
    /// ```
    pub fn key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.key_prefix = Some(prefix.into());
        self
    }

    /// Sets how long a decision may take, connection setup included: 1 ms to 1 min (100 ms by
    /// default). After that `on_store_error` decides.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use ratelimit_runtime::Limits;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limits = Limits::builder().memory().deadline(Duration::from_millis(30)).build().await?;
    /// assert!(limits.report().to_string().contains("deadline: 30ms (builder)"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Sets how many limiters this process caches, of all keys together: 1 to 10^8 (100 000 by
    /// default). Limiters in use, and those of the embedded store with permits in use, are never
    /// evicted. An evicted limiter is created again when it is used: its state is in the store.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::Limits;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// assert!(Limits::builder().memory().max_remembered(1_000_000).build().await.is_ok());
    ///
    /// let error = Limits::builder().memory().max_remembered(0).build().await.unwrap_err();
    /// assert_eq!(error.problems()[0].setting(), Some("max_remembered"));
    /// # }
    /// ```
    pub fn max_remembered(mut self, limiters: usize) -> Self {
        self.max_remembered = Some(limiters);
        self
    }

    /// Sets how many processes share each quota while the store is unavailable, at least 1. The default is the
    /// number that last shared the store: each sends a heartbeat every ten seconds.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "test-util")]
    /// use ratelimit_runtime::{Limits, Quota, StoreErrorKind, test_util::set_store_error};
    ///
    /// # #[cfg(not(feature = "test-util"))]
    /// # fn main() {}
    /// # #[cfg(feature = "test-util")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limits = Limits::builder().memory().instances(4).build().await?;
    /// let search = limits.limiter("search", Quota::per_minute(100));
    /// assert_eq!(search.peek(1).await?.remaining(), 100);
    ///
    /// set_store_error(&limits, Some(StoreErrorKind::Unavailable));
    /// assert_eq!(search.peek(1).await?.remaining(), 25);
    /// # Ok(())
    /// # }
    /// ```
    pub fn instances(mut self, instances: u32) -> Self {
        self.instances = Some(instances);
        self
    }
}
