//! Our script without our client: one `EVALSHA` per decision, the cost in Redis itself.

use ratelimit_runtime::__private::store::{
    CalendarCall, Config, Group, Mode, Outcome, Request, StateKeys, script_decide, script_decisions,
};
use redis::{Client, Cmd, RedisResult, Value, aio::MultiplexedConnection};
use tokio::time::Instant;

use super::Limit;
use crate::load::Decide;

pub struct Bare {
    connection: MultiplexedConnection,
    config: Config,
    since: Instant,
    keys: Vec<StateKeys>,
}

impl Bare {
    /// # Errors
    ///
    /// Returns an error from Redis.
    pub async fn new(url: &str, limit: Limit) -> RedisResult<Self> {
        let connection = connect(url).await?;
        let per_ms = u64::try_from(limit.per.as_millis()).unwrap_or(u64::MAX);
        let config = Config::new(limit.rate.into(), per_ms, Mode::Overall);
        let keys = limit.names("bare").into_iter().map(StateKeys::new).collect();
        let bare = Self { connection, config, since: Instant::now(), keys };
        // By text, so that the server knows the script by name from then on.
        bare.send(&bare.command(0, false)).await?;
        for key in 0..limit.keys {
            bare.send(&bare.command(key, true)).await?;
        }
        Ok(bare)
    }

    fn command(&self, key: usize, by_name: bool) -> Cmd {
        let request = Request::new(&self.keys[key], self.config, self.since);
        script_decide(&[Group { requests: &[request], costs: &[&[1]] }], |_| 1, by_name)
    }

    async fn send(&self, command: &Cmd) -> RedisResult<Value> {
        command.query_async(&mut self.connection.clone()).await
    }
}

impl Decide for Bare {
    fn keys(&self) -> usize {
        self.keys.len()
    }

    async fn decide(&self, key: usize) -> Result<bool, ()> {
        let reply = self.send(&self.command(key, true)).await.map_err(|_| ())?;
        let requests = &[Request::new(&self.keys[key], self.config, self.since)];
        let group = Group { requests, costs: &[&[1]] };
        let decided = script_decisions(&reply, &[group], &mut CalendarCall::default());
        match decided.map_err(|_| ())?.pop() {
            Some(Ok(Some(replies))) if replies[0][0].outcome == Outcome::Granted => Ok(true),
            Some(Ok(Some(replies))) if replies[0][0].outcome == Outcome::Refused => Ok(false),
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
