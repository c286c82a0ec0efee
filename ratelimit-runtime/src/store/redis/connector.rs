//! Connections that the program opens.

use std::{future::Future, io, pin::Pin, sync::Arc, time::Duration};

use redis::{RedisResult, aio::MultiplexedConnection};

/// Longer than any decision waits for a reply, so that only its own deadline counts. The driver's default is 500 ms.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(90);

type Connecting = Pin<Box<dyn Future<Output = RedisResult<MultiplexedConnection>> + Send>>;

/// A function of the program that opens a connection.
#[derive(Clone)]
pub(crate) struct Connector(Arc<dyn Fn() -> Connecting + Send + Sync>);

impl Connector {
    pub(crate) fn new<F, Fut>(connect: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = RedisResult<MultiplexedConnection>> + Send + 'static,
    {
        Self(Arc::new(move || Box::pin(connect())))
    }

    pub(super) async fn connect(&self, within: Duration) -> RedisResult<MultiplexedConnection> {
        let opened = tokio::time::timeout(within, (self.0)()).await;
        let mut connection = opened.map_err(|_| {
            let late = format!("`redis_connect` opened no connection within {within:?}");
            io::Error::new(io::ErrorKind::TimedOut, late)
        })??;
        connection.set_response_timeout(RESPONSE_TIMEOUT);
        Ok(connection)
    }
}
