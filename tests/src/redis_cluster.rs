//! A private Redis Cluster, formed over the wire; `redis-cli` is not needed.

use std::{ops::RangeInclusive, time::Duration};

use redis::Value;

use crate::{
    eventually,
    proxy::Proxy,
    redis_server::{RedisServer, field_of},
};

mod builder;
mod migration;

pub use builder::Builder;

const SLOTS: u16 = 16_384;

/// How long the nodes may take to agree on something; ample on a busy machine.
const AGREEMENT: Duration = Duration::from_secs(30);

/// Three masters that share the slots evenly, each with the configured number of replicas.
///
/// A start takes two seconds, which the nodes wait on purpose, so tests in one file may well share
/// a cluster.
#[derive(Debug)]
pub struct RedisCluster {
    /// Masters first, then the replicas of the first master, and so on.
    nodes: Vec<RedisServer>,
    /// One for each node, or none at all.
    proxies: Vec<Proxy>,
    ids: Vec<String>,
}

impl RedisCluster {
    /// The number of masters.
    pub const MASTERS: usize = 3;

    /// Starts three masters; all slots are served when this returns.
    ///
    /// # Panics
    ///
    /// Panics if a node does not start, or the nodes do not find together.
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// A cluster with replicas, proxies or other settings.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// `redis-cluster://127.0.0.1:<port>,127.0.0.1:<port>,..` over all nodes.
    pub fn url(&self) -> String {
        format!("redis-cluster://{}", self.addresses().join(","))
    }

    /// `redis://127.0.0.1:<port>` of each node, as `redis::cluster::ClusterClient` takes them.
    pub fn urls(&self) -> Vec<String> {
        self.addresses().iter().map(|address| format!("redis://{address}")).collect()
    }

    /// `127.0.0.1:<port>` of each node; the proxy's when there is one.
    pub fn addresses(&self) -> Vec<String> {
        if self.proxies.is_empty() {
            self.nodes.iter().map(RedisServer::address).collect()
        } else {
            self.proxies.iter().map(Proxy::address).collect()
        }
    }

    /// All nodes: the masters, then the replicas of the first master, and so on.
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// One node.
    ///
    /// # Panics
    ///
    /// Panics if there is no such node.
    pub fn node(&self, index: usize) -> &RedisServer {
        &self.nodes[index]
    }

    /// The proxy clients reach this node by; see [`Builder::proxied`].
    ///
    /// # Panics
    ///
    /// Panics if the cluster was started without proxies, or there is no such node.
    pub fn proxy(&self, index: usize) -> &Proxy {
        self.proxies.get(index).expect("a cluster started with `proxied()`")
    }

    /// The slot of a key.
    ///
    /// # Panics
    ///
    /// Panics if no node answers.
    pub fn slot_of(&self, key: &str) -> u16 {
        self.any_running().cli(&["cluster", "keyslot", key])
    }

    /// Returns the index of the node that serves a slot now, as reported by the running nodes.
    ///
    /// # Panics
    ///
    /// Panics if no node answers, or none serves the slot.
    pub fn master_of(&self, slot: u16) -> usize {
        let ranges: Vec<Vec<Value>> = self.any_running().cli(&["cluster", "slots"]);
        let port = ranges
            .iter()
            .filter_map(|range| master_in(range))
            .find(|(slots, _)| slots.contains(&slot))
            .map(|(_, port)| port)
            .unwrap_or_else(|| panic!("slot {slot} is served by no node"));
        let announced = |index: &usize| self.announced_port(*index) == port;
        (0..self.nodes.len()).find(announced).expect("a node of this cluster")
    }

    /// The index of the node that serves a key.
    ///
    /// # Panics
    ///
    /// As [`master_of`](Self::master_of).
    pub fn master_of_key(&self, key: &str) -> usize {
        self.master_of(self.slot_of(key))
    }

    /// Makes a replica the master of its slots, by agreement with the present one; nothing is lost.
    ///
    /// # Panics
    ///
    /// Panics if the node is no replica, or does not take over.
    pub fn fail_over_to(&self, replica: usize) {
        let node = self.node(replica);
        eventually("the replica is in sync", AGREEMENT, || node.info("master_link_status") == "up");
        node.cli::<()>(&["cluster", "failover"]);
        eventually("the replica takes over", AGREEMENT, || node.info("role") == "master");
    }

    /// Waits until every running node reports that the cluster is in order, and knows who serves each slot: with
    /// `cluster-require-full-coverage no` it reports that before.
    ///
    /// # Panics
    ///
    /// Panics if that does not happen.
    pub fn wait_until_ok(&self) {
        eventually("the cluster is in order", AGREEMENT, || {
            self.running().all(|node| {
                let info: String = node.try_cli(&["cluster", "info"]).unwrap_or_default();
                field_of(&info, "cluster_state") == "ok"
                    && field_of(&info, "cluster_slots_assigned") == "16384"
            })
        });
    }

    fn running(&self) -> impl Iterator<Item = &RedisServer> {
        self.nodes.iter().filter(|node| node.is_running())
    }

    fn any_running(&self) -> &RedisServer {
        self.running().next().expect("a node that runs")
    }

    fn announced_port(&self, index: usize) -> u16 {
        self.proxies.get(index).map_or_else(|| self.nodes[index].port(), Proxy::port)
    }
}

/// Reads `first, last, [host, port, ..], replica, ..`, as `CLUSTER SLOTS` puts it.
fn master_in(range: &[Value]) -> Option<(RangeInclusive<u16>, u16)> {
    let [first, last, Value::Array(master), ..] = range else {
        return None;
    };
    let number = |value| redis::from_redis_value_ref(value).ok();
    Some((number(first)?..=number(last)?, number(master.get(1)?)?))
}
