//! A typical wrapper around a limiter: checks whether it exists, checks its configuration, sets the
//! configuration if there is none, and then takes a permit. Four commands per decision.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, Ordering},
};

use ratelimit_runtime::__private::store::StateKeys;
use redis::{RedisResult, Script, aio::MultiplexedConnection};

use super::{Limit, bare::connect};
use crate::load::Decide;

const ACQUIRE: &str = include_str!("naive.lua");

pub struct Naive {
    connection: MultiplexedConnection,
    sha: String,
    limit: Limit,
    keys: Vec<StateKeys>,
    count: AtomicU64,
}

impl Naive {
    /// # Errors
    ///
    /// Returns an error from Redis.
    pub async fn new(url: &str, limit: Limit) -> RedisResult<Self> {
        let mut connection = connect(url).await?;
        let sha = Script::new(ACQUIRE).prepare_invoke().load_async(&mut connection).await?;
        let keys = limit.names("naive").into_iter().map(StateKeys::new).collect();
        let naive = Self { connection, sha, limit, keys, count: AtomicU64::new(0) };
        for key in 0..limit.keys {
            naive.ask(key).await?;
        }
        Ok(naive)
    }

    async fn ask(&self, key: usize) -> RedisResult<bool> {
        let mut connection = self.connection.clone();
        let keys = &self.keys[key];
        let per_ms = self.limit.per.as_millis().to_string();
        let exists: bool =
            redis::cmd("EXISTS").arg(keys.config()).query_async(&mut connection).await?;
        let mut stored: HashMap<String, String> =
            redis::cmd("HGETALL").arg(keys.config()).query_async(&mut connection).await?;
        if !exists || stored.remove("interval").as_ref() != Some(&per_ms) {
            let mut write = redis::cmd("HSET");
            write.arg(keys.config()).arg("interval").arg(&per_ms).arg("type").arg(0);
            write.exec_async(&mut connection).await?;
        }
        let mut set = redis::cmd("HSETNX");
        set.arg(keys.config()).arg("rate").arg(self.limit.rate).exec_async(&mut connection).await?;
        let id = self.count.fetch_add(1, Ordering::Relaxed);
        let mut acquire = redis::cmd("EVALSHA");
        acquire.arg(&self.sha).arg(3).arg(keys.config()).arg(keys.counter()).arg(keys.log());
        acquire.arg(id).query_async(&mut connection).await
    }
}

impl Decide for Naive {
    fn keys(&self) -> usize {
        self.keys.len()
    }

    async fn decide(&self, key: usize) -> Result<bool, ()> {
        self.ask(key).await.map_err(|_| ())
    }
}
