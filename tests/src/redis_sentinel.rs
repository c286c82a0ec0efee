//! A private master with replicas and the three sentinels that watch over them.

use std::{collections::HashMap, time::Duration};

use crate::{eventually, proxy::Proxy, redis_server::RedisServer};

mod builder;

pub use builder::Builder;

/// How long the processes may take to agree on something; ample on a busy machine.
const AGREEMENT: Duration = Duration::from_secs(90);

/// One master, its replicas, three sentinels.
#[derive(Debug)]
pub struct RedisSentinel {
    /// The first master first.
    servers: Vec<RedisServer>,
    sentinels: Vec<RedisServer>,
    proxy: Option<Proxy>,
}

impl RedisSentinel {
    /// What the sentinels call the master.
    pub const MASTER_NAME: &'static str = "mymaster";
    /// The number of sentinels; two of them decide.
    pub const SENTINELS: usize = 3;

    /// Starts a master, a replica and the sentinels. When this returns the replica is in sync, and
    /// every sentinel knows the replica and the other sentinels.
    ///
    /// # Panics
    ///
    /// Panics if a process does not start, or they do not find together.
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// More replicas, a proxy before the master, other settings.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// `redis-sentinel://127.0.0.1:<port>,../0?master=mymaster` over all sentinels.
    pub fn url(&self) -> String {
        let addresses: Vec<_> = self.sentinels.iter().map(RedisServer::address).collect();
        format!("redis-sentinel://{}/0?master={}", addresses.join(","), Self::MASTER_NAME)
    }

    /// `redis://127.0.0.1:<port>` of each sentinel, as `redis::sentinel` takes them.
    pub fn sentinel_urls(&self) -> Vec<String> {
        self.sentinels.iter().map(|sentinel| format!("redis://{}", sentinel.address())).collect()
    }

    /// The servers: the first master, then its replicas, even if their roles have changed.
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// The sentinels.
    pub fn sentinels(&self) -> &[RedisServer] {
        &self.sentinels
    }

    /// The proxy that replicas, sentinels and clients reach the first master by; see
    /// [`Builder::master_behind_proxy`].
    ///
    /// # Panics
    ///
    /// Panics if there is none.
    pub fn proxy(&self) -> &Proxy {
        self.proxy.as_ref().expect("sentinels started with `master_behind_proxy()`")
    }

    /// The master, as most sentinels see it now.
    ///
    /// # Panics
    ///
    /// Panics if no two sentinels agree.
    pub fn master(&self) -> &RedisServer {
        let mut votes = HashMap::new();
        for port in self.master_ports() {
            *votes.entry(port).or_insert(0) += 1;
        }
        let majority = votes.into_iter().find(|(_, votes)| *votes > Self::SENTINELS / 2);
        let (port, _) = majority.expect("a master most sentinels agree on");
        self.server_at(port).expect("a server of this group")
    }

    /// The servers that are not the [`master`](Self::master).
    ///
    /// # Panics
    ///
    /// As `master`.
    pub fn replicas(&self) -> Vec<&RedisServer> {
        let master = self.master().port();
        self.servers.iter().filter(|server| server.port() != master).collect()
    }

    /// Makes the sentinels promote a replica, and waits until they all name it, it takes writes,
    /// and the former master follows it.
    ///
    /// # Panics
    ///
    /// Panics if that does not happen.
    pub fn failover(&self) {
        self.wait_until_synced();
        self.promote();
        self.wait_until_synced();
    }

    /// Makes the sentinels promote a replica, and waits until they all name it and it takes writes: all that
    /// is possible while the former master is cut off.
    ///
    /// # Panics
    ///
    /// Panics if that does not happen.
    pub fn promote(&self) {
        let old = self.master().port();
        // Refused for a moment after the start or the last failover.
        eventually("a sentinel starts a failover", AGREEMENT, || {
            let command = ["sentinel", "failover", Self::MASTER_NAME];
            self.sentinels[0].try_cli::<()>(&command).is_ok()
        });
        self.wait_for_another_master(old);
    }

    /// Waits until all sentinels that run name a master other than the one on this port, and it
    /// takes writes; for failovers that a dead or stopped master causes.
    ///
    /// # Panics
    ///
    /// Panics if that does not happen.
    pub fn wait_for_another_master(&self, old_port: u16) {
        eventually("the sentinels name another master", AGREEMENT, || {
            let ports = self.master_ports();
            let Some(first) = ports.first().filter(|first| ports.iter().all(|port| port == *first))
            else {
                return false;
            };
            self.server_at(*first)
                .is_some_and(|server| server.port() != old_port && server.info("role") == "master")
        });
    }

    /// Waits until every other server follows the master and has its data.
    ///
    /// # Panics
    ///
    /// Panics if that does not happen.
    pub fn wait_until_synced(&self) {
        let master = self.master();
        for server in self.servers.iter().filter(|server| server.port() != master.port()) {
            eventually("a replica is in sync", AGREEMENT, || {
                server.info("master_link_status") == "up"
                    && server.info("master_port") == self.announced_port(master).to_string()
            });
        }
    }

    fn master_ports(&self) -> Vec<u16> {
        let command = ["sentinel", "get-master-addr-by-name", Self::MASTER_NAME];
        let running = self.sentinels.iter().filter(|sentinel| sentinel.is_running());
        let answers = running.filter_map(|sentinel| sentinel.try_cli(&command).ok());
        answers.map(|(_, port): (String, u16)| port).collect()
    }

    fn server_at(&self, port: u16) -> Option<&RedisServer> {
        self.servers.iter().find(|server| self.announced_port(server) == port)
    }

    fn announced_port(&self, server: &RedisServer) -> u16 {
        match &self.proxy {
            Some(proxy) if server.port() == self.servers[0].port() => proxy.port(),
            _ => server.port(),
        }
    }
}
