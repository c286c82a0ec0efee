//! The cost of decisions on the server.

use redis::{Connection, RedisResult};
use tests::redis_server::RedisServer;

/// The server's counters, or their change.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Calls of scripts, and the time in them.
    pub scripts: f64,
    pub script_us: f64,
    /// Commands executed, those inside scripts included.
    pub commands: f64,
    /// Processor time of the whole process, the kernel's work for it included.
    pub cpu_us: f64,
}

/// Reads the counters of one server.
pub struct Meter {
    redis: Connection,
    before: Cost,
}

impl Meter {
    /// # Panics
    ///
    /// Panics if the server does not accept a connection.
    pub fn of(server: &RedisServer) -> Self {
        let redis = server.connect().expect("the server accepts");
        Self { redis, before: Cost::default() }
    }

    pub fn start(&mut self) {
        self.before = self.read();
    }

    /// Returns the change of the counters since the start.
    pub fn stop(&mut self) -> Cost {
        let (before, after) = (self.before, self.read());
        Cost {
            scripts: after.scripts - before.scripts,
            script_us: after.script_us - before.script_us,
            commands: after.commands - before.commands,
            cpu_us: after.cpu_us - before.cpu_us,
        }
    }

    /// Returns the bytes of a key, or 0 if it does not exist.
    pub fn bytes(&mut self, key: &str) -> f64 {
        let bytes: RedisResult<Option<u32>> =
            redis::cmd("MEMORY").arg("USAGE").arg(key).query(&mut self.redis);
        bytes.ok().flatten().map_or(0.0, f64::from)
    }

    /// Deletes all keys.
    pub fn flush(&mut self) {
        let flushed: RedisResult<()> = redis::cmd("FLUSHALL").query(&mut self.redis);
        flushed.expect("the server flushes");
    }

    fn read(&mut self) -> Cost {
        let info: RedisResult<String> = redis::cmd("INFO").arg("everything").query(&mut self.redis);
        let info = info.expect("the server tells of itself");
        let of = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("");
        let number = |name: &str| of(name).parse().unwrap_or(0.0);
        let scripts = [of("cmdstat_evalsha:"), of("cmdstat_eval:")];
        let total = |name| scripts.iter().map(|fields| field(fields, name)).sum();
        Cost {
            scripts: total("calls="),
            script_us: total("usec="),
            commands: number("total_commands_processed:"),
            cpu_us: (number("used_cpu_user:") + number("used_cpu_sys:")) * 1e6,
        }
    }
}

/// A field of `calls=1,usec=2,..`.
fn field(fields: &str, name: &str) -> f64 {
    let value = fields.split(',').find_map(|field| field.strip_prefix(name));
    value.and_then(|value| value.parse().ok()).unwrap_or(0.0)
}
