use std::time::Duration;

use super::{AGREEMENT, RedisCluster, SLOTS};
use crate::{
    eventually,
    ports::Port,
    proxy::Proxy,
    redis_server::{RedisServer, field_of},
};

/// Settings of a [`RedisCluster`] to be started.
#[derive(Debug)]
#[must_use]
pub struct Builder {
    replicas: usize,
    proxied: bool,
    node_timeout: Duration,
    config: Vec<(String, String)>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            replicas: 0,
            proxied: false,
            node_timeout: Duration::from_secs(2),
            config: Vec::new(),
        }
    }
}

impl Builder {
    /// Gives each master this many replicas.
    pub fn replicas(mut self, per_master: usize) -> Self {
        self.replicas = per_master;
        self
    }

    /// Puts a proxy before each node and makes the nodes name the proxies to clients, redirections
    /// included. The nodes themselves talk to each other directly.
    pub fn proxied(mut self) -> Self {
        self.proxied = true;
        self
    }

    /// How long a node may be silent before it counts as failed, by default two seconds.
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.node_timeout = timeout;
        self
    }

    /// Adds a line to the `redis.conf` of every node.
    pub fn config(mut self, name: &str, value: &str) -> Self {
        self.config.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts the nodes and forms the cluster; all slots are served when this returns.
    ///
    /// # Panics
    ///
    /// Panics if a node does not start, or the nodes do not find together.
    pub fn start(self) -> RedisCluster {
        let count = RedisCluster::MASTERS * (1 + self.replicas);
        let (nodes, proxies): (Vec<_>, Vec<_>) = (0..count).map(|_| self.start_node()).unzip();
        let ids = nodes.iter().map(|node| node.cli(&["cluster", "myid"])).collect();
        let proxies = proxies.into_iter().flatten().collect();
        let cluster = RedisCluster { nodes, proxies, ids };
        share_slots(&cluster);
        introduce(&cluster);
        self.attach_replicas(&cluster);
        cluster.wait_until_ok();
        cluster
    }

    fn start_node(&self) -> (RedisServer, Option<Proxy>) {
        let port = Port::reserve();
        let proxy = self.proxied.then(|| Proxy::start(port.number()));
        let mut server = RedisServer::builder()
            .config("cluster-enabled", "yes")
            // Beside the data, not among it: a node restarted with empty data is still a member.
            .config("cluster-config-file", "../nodes.conf")
            .config("cluster-node-timeout", &self.node_timeout.as_millis().to_string())
            .config("cluster-announce-bus-port", &(port.number() + 10_000).to_string());
        if let Some(proxy) = &proxy {
            server = server.config("cluster-announce-port", &proxy.port().to_string());
        }
        for (name, value) in &self.config {
            server = server.config(name, value);
        }
        (server.port(port).start(), proxy)
    }

    fn attach_replicas(&self, cluster: &RedisCluster) {
        if self.replicas == 0 {
            return;
        }
        let (masters, replicas) = cluster.nodes.split_at(RedisCluster::MASTERS);
        for (index, node) in replicas.iter().enumerate() {
            node.cli::<()>(&["cluster", "replicate", &cluster.ids[index / self.replicas]]);
        }
        for node in replicas {
            eventually("a replica is in sync", AGREEMENT, || {
                node.info("master_link_status") == "up"
            });
        }
        let expected = self.replicas.to_string();
        for node in masters {
            eventually("a master knows its replicas", AGREEMENT, || {
                node.info("connected_slaves") == expected
            });
        }
        for node in &cluster.nodes {
            eventually("every node knows every replica", AGREEMENT, || {
                let known: String = node.try_cli(&["cluster", "nodes"]).unwrap_or_default();
                known.lines().filter(|line| line.contains("slave")).count() == replicas.len()
            });
        }
    }
}

fn share_slots(cluster: &RedisCluster) {
    let masters = u16::try_from(RedisCluster::MASTERS).expect("few masters");
    for (index, node) in (0..masters).zip(&cluster.nodes) {
        // Not `ADDSLOTSRANGE`, which 6.2 does not have.
        let bound = |part: u16| u32::from(part) * u32::from(SLOTS) / u32::from(masters);
        let slots: Vec<_> = (bound(index)..bound(index + 1)).map(|slot| slot.to_string()).collect();
        let mut command = vec!["cluster", "addslots"];
        command.extend(slots.iter().map(String::as_str));
        node.cli::<()>(&command);
    }
}

fn introduce(cluster: &RedisCluster) {
    // Different epochs from the start, or the nodes first spend seconds on resolving the collision.
    for (index, node) in cluster.nodes.iter().enumerate() {
        node.cli::<()>(&["cluster", "set-config-epoch", &(index + 1).to_string()]);
    }
    let (first, others) = cluster.nodes.split_first().expect("a cluster has nodes");
    for node in others {
        let port = node.port().to_string();
        let bus = (node.port() + 10_000).to_string();
        first.cli::<()>(&["cluster", "meet", "127.0.0.1", &port, &bus]);
    }
    let expected = cluster.nodes.len().to_string();
    for node in &cluster.nodes {
        eventually("every node knows every other", AGREEMENT, || {
            let info: String = node.try_cli(&["cluster", "info"]).unwrap_or_default();
            field_of(&info, "cluster_known_nodes") == expected
        });
    }
}
