use std::{collections::HashMap, fmt::Write, time::Duration};

use super::{AGREEMENT, RedisSentinel};
use crate::{
    eventually,
    ports::Port,
    proxy::Proxy,
    redis_server::{self, RedisServer},
};

/// Settings of a [`RedisSentinel`] to be started.
#[derive(Debug)]
#[must_use]
pub struct Builder {
    replicas: usize,
    proxied: bool,
    down_after: Duration,
    password: Option<String>,
    config: Vec<(String, String)>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            replicas: 1,
            proxied: false,
            down_after: AGREEMENT,
            password: None,
            config: Vec::new(),
        }
    }
}

impl Builder {
    /// How many replicas the master has, by default one.
    pub fn replicas(mut self, count: usize) -> Self {
        self.replicas = count;
        self
    }

    /// Puts a proxy before the first master. Cutting it separates the master from the replicas and
    /// sentinels, while [`RedisSentinel::servers`] still returns the master's own address.
    pub fn master_behind_proxy(mut self) -> Self {
        self.proxied = true;
        self
    }

    /// How long a master may be silent before the sentinels promote a replica; by default longer than it ever is
    /// on a busy machine.
    pub fn down_after(mut self, silence: Duration) -> Self {
        self.down_after = silence;
        self
    }

    /// Demands a password of the sentinels' default user; the servers need none.
    pub fn sentinel_password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// Adds a line to the `redis.conf` of the master and the replicas.
    pub fn config(mut self, name: &str, value: &str) -> Self {
        self.config.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts them all; see [`RedisSentinel::start`].
    ///
    /// # Panics
    ///
    /// Panics if a process does not start, or they do not find together.
    pub fn start(self) -> RedisSentinel {
        let (servers, proxy) = self.start_servers();
        let master_port = proxy.as_ref().map_or_else(|| servers[0].port(), Proxy::port);
        let sentinels = self.start_sentinels(master_port, &servers[1..]);
        let group = RedisSentinel { servers, sentinels, proxy };
        for sentinel in &group.sentinels {
            eventually("a sentinel knows the group", AGREEMENT, || knows(sentinel, self.replicas));
        }
        group
    }

    fn start_servers(&self) -> (Vec<RedisServer>, Option<Proxy>) {
        let port = Port::reserve();
        let proxy = self.proxied.then(|| Proxy::start(port.number()));
        let seen_port = proxy.as_ref().map_or_else(|| port.number(), Proxy::port).to_string();
        let mut master = RedisServer::builder().port(port);
        if proxy.is_some() {
            master = master.config("replica-announce-port", &seen_port);
        }
        let mut servers = vec![self.configured(master).start()];
        for _ in 0..self.replicas {
            let replica =
                RedisServer::builder().config("replicaof", &format!("127.0.0.1 {seen_port}"));
            servers.push(self.configured(replica).start());
        }
        // Only now: a sentinel that finds the master without replicas looks again after ten
        // seconds.
        for replica in &servers[1..] {
            eventually("a replica is in sync", AGREEMENT, || {
                replica.info("master_link_status") == "up"
            });
        }
        (servers, proxy)
    }

    fn configured(&self, builder: redis_server::Builder) -> redis_server::Builder {
        let config = self.config.iter();
        config.fold(builder, |builder, (name, value)| builder.config(name, value))
    }

    /// Lists the others and the replicas in the configuration of each sentinel, in the lines that it would
    /// write itself once it had found them, which takes seconds.
    fn start_sentinels(&self, master_port: u16, replicas: &[RedisServer]) -> Vec<RedisServer> {
        let name = RedisSentinel::MASTER_NAME;
        let ports: Vec<_> = (0..RedisSentinel::SENTINELS).map(|_| Port::reserve()).collect();
        let known: Vec<_> = ports.iter().map(|port| (port.number(), sentinel_id(port))).collect();
        let start = |port: Port| {
            let mut lines = format!("monitor {name} 127.0.0.1 {master_port} 2\n");
            let down_after = self.down_after.as_millis();
            writeln!(lines, "down-after-milliseconds {name} {down_after}").expect("a string");
            writeln!(lines, "failover-timeout {name} 10000").expect("a string");
            writeln!(lines, "myid {}", sentinel_id(&port)).expect("a string");
            for replica in replicas {
                let port = replica.port();
                writeln!(lines, "known-replica {name} 127.0.0.1 {port}").expect("a string");
            }
            for (other, id) in known.iter().filter(|(other, _)| *other != port.number()) {
                writeln!(lines, "known-sentinel {name} 127.0.0.1 {other} {id}").expect("a string");
            }
            let mut builder = RedisServer::builder().sentinel().port(port);
            if let Some(password) = &self.password {
                writeln!(lines, "sentinel-pass {password}").expect("a string");
                builder = builder.password(password);
            }
            lines.lines().fold(builder, |builder, line| builder.config("sentinel", line)).start()
        };
        let sentinels: Vec<_> = ports.into_iter().map(start).collect();
        hurry(&sentinels[0]);
        sentinels
    }
}

/// Makes the sentinel that leads forced failovers check the servers every second instead of every ten. Otherwise it
/// demotes a former master only after some ten seconds, as version 6.2 does, which has no such setting. The other
/// sentinels would demote a new master within a second, if they learned so late of the failover.
fn hurry(sentinel: &RedisServer) {
    let periods = ["info-period", "1000", "publish-period", "200"];
    let _ = sentinel.try_cli::<()>(&[&["sentinel", "debug"], &periods[..]].concat());
}

/// Forty hex digits, different for each sentinel.
fn sentinel_id(port: &Port) -> String {
    format!("{:040x}", port.number())
}

/// Whether a sentinel could lead a failover now: it sees the replicas attached and the other
/// sentinels alive.
fn knows(sentinel: &RedisServer, replicas: usize) -> bool {
    let others = RedisSentinel::SENTINELS - 1;
    let in_order = |entry: &HashMap<String, String>, role: &str| entry["flags"] == role;
    let ask = |what| {
        let command = ["sentinel", what, RedisSentinel::MASTER_NAME];
        sentinel.try_cli::<Vec<HashMap<String, String>>>(&command).unwrap_or_default()
    };
    let (seen, fellows) = (ask("replicas"), ask("sentinels"));
    seen.len() == replicas
        && seen.iter().all(|replica| in_order(replica, "slave"))
        && seen.iter().all(|replica| replica["master-link-status"] == "ok")
        && fellows.len() == others
        && fellows.iter().all(|fellow| in_order(fellow, "sentinel"))
}
