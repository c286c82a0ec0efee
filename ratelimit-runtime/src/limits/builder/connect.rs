//! A store behind connections that the program opens.

use std::future::Future;

use redis::{RedisResult, aio::MultiplexedConnection};

use super::{LimitsBuilder, program::Named};
use crate::store::redis::Connector;

impl LimitsBuilder {
    /// Stores limits in a standalone Redis, over connections that this function opens: with a client certificate,
    /// a password that changes, or through a tunnel.
    ///
    /// The function is called whenever a connection is needed, such as after one was lost, and may take 2 s. It is called
    /// by any runtime that calls limiters, and by a thread of the limits, so each call must open a new connection, whose
    /// task runs where it was opened. Its error counts as that of the store: `on_store_error` decides until a connection
    /// is open.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use ratelimit_runtime::Limits;
    /// use redis::{Client, IntoConnectionInfo};
    ///
    /// # async fn token() -> String { String::new() }
    /// # async fn setup() -> Result<(), ratelimit_runtime::SetupError> {
    /// let connect = || async {
    ///     let address = "rediss://cache.example:6379".into_connection_info()?;
    ///     // Of an identity service, and valid for minutes.
    ///     let login = address.redis_settings().clone().set_username("shop").set_password(token().await);
    ///     Client::open(address.set_redis_settings(login))?.get_multiplexed_async_connection().await
    /// };
    /// let limits = Limits::builder().redis_connect(connect).install().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn redis_connect<F, Fut>(mut self, connect: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = RedisResult<MultiplexedConnection>> + Send + 'static,
    {
        self.store = Some(Named::Through(Connector::new(connect)));
        self
    }
}
