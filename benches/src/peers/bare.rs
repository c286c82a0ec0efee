//! Our script without us: one `EVALSHA` per decision, which is what Redis itself takes for it.

use std::sync::atomic::{AtomicU64, Ordering};

use ratelimit_runtime::store::{StateKeys, scripts};
use redis::{Client, Cmd, RedisResult, Script, Value, aio::MultiplexedConnection};

use super::{Decide, Limit};

pub struct Bare {
    connection: MultiplexedConnection,
    sha: String,
    limit: Limit,
    keys: Vec<StateKeys>,
    count: AtomicU64,
}

impl Bare {
    /// # Errors
    ///
    /// What Redis refuses.
    pub async fn new(url: &str, limit: Limit) -> RedisResult<Self> {
        let [(_, text), ..] = scripts();
        let mut connection = connect(url).await?;
        let sha = Script::new(text).prepare_invoke().load_async(&mut connection).await?;
        let keys = limit.names("bare").into_iter().map(StateKeys::new).collect();
        let bare = Self { connection, sha, limit, keys, count: AtomicU64::new(0) };
        for key in 0..limit.keys {
            bare.ask(key).await?;
        }
        Ok(bare)
    }

    async fn ask(&self, key: usize) -> RedisResult<Value> {
        let keys = &self.keys[key];
        let mut command = redis::cmd("EVALSHA");
        command.arg(&self.sha).arg(3).arg(keys.config()).arg(keys.counter()).arg(keys.log());
        self.arguments(&mut command);
        command.query_async(&mut self.connection.clone()).await
    }

    /// The arguments of the script, as the head of `acquire.lua` has them.
    fn arguments(&self, command: &mut Cmd) {
        const MODE: u32 = 0;
        const KEEP_ALIVE: u32 = 0;
        const REVISION: u32 = 0;
        const SINCE: u32 = 1;
        let id = self.count.fetch_add(1, Ordering::Relaxed).to_le_bytes();
        let per_ms = u64::try_from(self.limit.per.as_millis()).unwrap_or(u64::MAX);
        command.arg(1).arg(self.limit.rate).arg(per_ms).arg(MODE).arg(KEEP_ALIVE);
        command.arg(REVISION).arg(SINCE).arg("steady").arg(&id[..]);
    }
}

impl Decide for Bare {
    fn keys(&self) -> usize {
        self.keys.len()
    }

    async fn decide(&self, key: usize) -> Result<bool, ()> {
        let Ok(Value::Array(reply)) = self.ask(key).await else {
            return Err(());
        };
        match reply.first() {
            Some(Value::Int(1)) => Ok(true),
            Some(Value::Int(0)) => Ok(false),
            _ => Err(()),
        }
    }
}

/// A connection that many callers share and that waits as long as it takes.
pub(super) async fn connect(url: &str) -> RedisResult<MultiplexedConnection> {
    let patient =
        redis::AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
    Client::open(url)?.get_multiplexed_async_connection_with_config(&patient).await
}
