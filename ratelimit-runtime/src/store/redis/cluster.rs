//! The nodes of a Redis Cluster: which node serves a slot, and how a call reaches it.
//!
//! Each node has its own connection, so that calls to one node never wait for another. The driver's client
//! for clusters stops all calls while it looks for a node, for two to four seconds if the node hangs.

use std::sync::Arc;

use redis::{Cmd, ConnectionAddr, ConnectionInfo, RedisError, RedisResult, Value};
use tokio::task::JoinSet;

use super::{
    address::Address,
    connect::CONNECT_TIMEOUT,
    fault::store_error,
    gate::slot,
    line::{Line, Live},
    link::Link,
    nodes::{Nodes, UNKNOWN, host_of, next_of},
    reply::unknown_reply,
};
use crate::{StoreError, clock, home::Home, store::StateKeys};

impl Address {
    /// Returns the nodes to start with.
    pub(super) fn seeds(&self) -> impl Iterator<Item = Arc<str>> {
        self.nodes.iter().filter_map(|node| match node.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                Some(format!("{host}:{port}").into())
            }
            _ => None,
        })
    }

    /// Returns how to connect to a node: as to the first seed.
    pub(super) fn node(&self, server: &str) -> Option<ConnectionInfo> {
        let (host, port) = server.rsplit_once(':')?;
        let (host, port) = (host.to_owned(), port.parse().ok()?);
        let seed = self.nodes.first()?;
        let addr = match seed.addr().clone() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                ConnectionAddr::TcpTls { host, port, insecure, tls_params }
            }
            _ => ConnectionAddr::Tcp(host, port),
        };
        Some(seed.clone().set_addr(addr))
    }
}

impl Link {
    /// Returns the last known node that serves these keys.
    pub(super) async fn node_of(
        self: &Arc<Self>,
        line: &Arc<Home<Line>>,
        keys: &StateKeys,
    ) -> Result<Arc<str>, StoreError> {
        if let Some(node) = self.gates.node_of(keys) {
            return Ok(Arc::clone(&node.address));
        }
        self.look_for_nodes(line).await?;
        let node = self.gates.node_of(keys).map(|node| Arc::clone(&node.address));
        node.ok_or_else(|| {
            StoreError::unavailable(format!("redis: no node serves slot {}", slot(keys)))
        })
    }

    /// Queries the nodes in the background, if this is a cluster.
    pub(super) fn look_again(self: &Arc<Self>, line: &Arc<Home<Line>>) {
        if self.gates.are_of_a_cluster() {
            let (link, line) = (Arc::clone(self), Arc::clone(line));
            line.runtime().clone().spawn(async move { link.look_for_nodes(&line).await });
        }
    }

    /// Queries all nodes for the slots of each, and keeps the first reply.
    pub(super) async fn look_for_nodes(
        self: &Arc<Self>,
        line: &Arc<Home<Line>>,
    ) -> Result<(), StoreError> {
        let (link, own, asked) = (Arc::clone(self), Arc::clone(line), clock::instant());
        // The query outlives a caller whose deadline is shorter.
        let look = line.runtime().spawn(async move {
            let mut last = own.looks.lock().await;
            match &*last {
                Some((ended, result)) if *ended >= asked => return result.clone(),
                _ => {}
            }
            let result = link.ask_for_nodes(&own).await;
            *last = Some((clock::instant(), result.clone()));
            result
        });
        look.await.unwrap_or_else(|_| {
            Err(StoreError::unavailable("redis: the look for nodes was aborted"))
        })
    }

    /// Queries the known nodes, then the seeds of the address if none of them replies: these may be other
    /// names of the same nodes.
    async fn ask_for_nodes(self: &Arc<Self>, line: &Arc<Home<Line>>) -> Result<(), StoreError> {
        let known = self.gates.nodes().map_or_else(Vec::new, |nodes| nodes.addresses());
        let mut error = StoreError::unavailable("redis: the cluster has no nodes");
        for servers in [known, self.address.seeds().collect()] {
            let mut asked = JoinSet::new();
            for server in servers {
                let (link, line) = (Arc::clone(self), Arc::clone(line));
                asked.spawn(async move { link.ask_a_node(&line, &server).await });
            }
            while let Some(answer) = asked.join_next().await {
                match answer {
                    Ok(Ok(nodes)) => {
                        self.keep(nodes);
                        return Ok(());
                    }
                    Ok(Err(why)) => error = why,
                    Err(_) => {}
                }
            }
        }
        Err(error)
    }

    /// Keeps the slots of the nodes, and what belongs to nodes that serve any.
    fn keep(&self, nodes: Nodes) {
        let known = nodes.addresses();
        for line in self.lines.all().iter() {
            line.keep(|server| known.iter().any(|known| **known == *server));
        }
        self.loaded().retain(|server| known.contains(server));
        self.gates.learn(nodes);
    }

    async fn ask_a_node(
        self: &Arc<Self>,
        line: &Arc<Home<Line>>,
        server: &Arc<str>,
    ) -> Result<Nodes, StoreError> {
        let live = self.connected(line, server).await?;
        let question = redis::cmd("CLUSTER").arg("SLOTS").to_owned();
        let reply = tokio::time::timeout(CONNECT_TIMEOUT, live.query(&question)).await;
        let reply = reply
            .map_err(|_| StoreError::timeout("redis: no reply about the slots of the cluster"))?
            .map_err(|error| store_error(&error))?;
        let nodes = Nodes::read(&reply, host_of(server)).ok_or_else(|| unknown_reply(&reply))?;
        // It left the cluster, or has not joined it yet.
        if nodes.is_empty() {
            let unknown = format!("redis: {server} lists no slots; it is not part of a cluster");
            return Err(StoreError::unavailable(unknown));
        }
        Ok(nodes)
    }

    /// Returns keys on each node, or of the single server; their names are this one and a number.
    pub(super) fn keys_on_each_node(&self, name: &str) -> Vec<StateKeys> {
        /// Enough to find one, with a chance of 98 %, for a node with a single slot.
        const NAMES: u32 = 65_536;

        let mut all = (0..NAMES).map(|n| StateKeys::new(format!("{name}-{n}")));
        match self.gates.nodes() {
            Some(nodes) => nodes
                .iter()
                .filter_map(|node| all.clone().find(|keys| node.serves(slot(keys))))
                .collect(),
            None => all.next().into_iter().collect(),
        }
    }

    /// Connects to the single server, or to all nodes that serve slots, and sends each this command. A server that is not
    /// reached has no reply.
    pub(super) fn ask_servers(
        self: &Arc<Self>,
        line: &Arc<Home<Line>>,
        command: &Cmd,
    ) -> JoinSet<Option<RedisResult<Value>>> {
        let servers = match self.gates.are_of_a_cluster() {
            true => self.gates.nodes().map(|nodes| nodes.addresses()).unwrap_or_default(),
            false => vec![Arc::default()],
        };
        let mut replies = JoinSet::new();
        for server in servers {
            let (link, of, command) = (Arc::clone(self), Arc::clone(line), command.clone());
            let ask =
                async move { Some(link.connected(&of, &server).await.ok()?.query(&command).await) };
            // The caller may have no runtime.
            replies.spawn_on(ask, line.runtime());
        }
        replies
    }

    /// Returns the node that another node named as the present or future owner of the slot.
    pub(super) async fn home_of_slot(
        self: &Arc<Self>,
        line: &Arc<Home<Line>>,
        from: &Live,
        error: &RedisError,
    ) -> Option<Arc<str>> {
        if error.code() == Some("MOVED") {
            self.look_again(line);
        }
        let (address, slot) = error.redirect_node()?;
        let (host, port) = address.rsplit_once(':')?;
        match host {
            // A node that does not know its own host is on the host of the node that replied.
            "" => Some(format!("{}:{port}", host_of(&from.server)).into()),
            // The look for nodes finds the owner, but not a future one.
            UNKNOWN if error.code() == Some("ASK") => {
                let question = redis::cmd("CLUSTER").arg("NODES").to_owned();
                let reply: String =
                    redis::from_redis_value(from.query(&question).await.ok()?).ok()?;
                Some(next_of(slot, &reply)?.into())
            }
            UNKNOWN => None,
            _ => Some(address.into()),
        }
    }
}

impl Live {
    /// Runs a command on a node to which the slot may still be moving.
    pub(super) async fn query_moving(&self, command: &Cmd) -> RedisResult<Value> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("ASKING").add_command(command.clone());
        // The error of `query_async` does not have the server's code.
        let mut replies = self.connection.clone().send_packed_commands(&pipeline, 1, 1).await?;
        replies.pop().unwrap_or(Value::Nil).extract_error()
    }
}

#[cfg(all(test, feature = "tls"))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{events::Events, store::redis::Certificates};

    #[test]
    fn a_node_is_connected_to_as_the_first_seed() {
        let address = Address::parse("rediss-cluster://me:s3cr3t@a:1,b:2").unwrap();
        assert_eq!(
            address.seeds().map(|seed| seed.to_string()).collect::<Vec<_>>(),
            ["a:1", "b:2"]
        );
        let node = address.node("10.0.0.7:7001").unwrap();
        let ConnectionAddr::TcpTls { host, port, insecure, .. } = node.addr() else {
            panic!("{:?}", node.addr())
        };
        assert_eq!((&**host, *port, *insecure), ("10.0.0.7", 7001, false));
        assert_eq!(node.redis_settings().password(), Some("s3cr3t"));
        assert_eq!(address.node("fe80::1:7001").unwrap().addr().to_string(), "fe80::1:7001");
        assert!(address.node("").is_none() && address.node("a:port").is_none());
    }

    #[test]
    fn nodes_that_are_gone_are_forgotten() {
        let address = Address::parse("redis-cluster://a:1").unwrap();
        let (deadline, events) = (Duration::from_millis(100), Events::default());
        let link = Link::new(address, Certificates::default(), deadline, events, Arc::default());
        for port in 0..100 {
            let node = Value::Array(vec![Value::BulkString(b"a".to_vec()), Value::Int(port)]);
            let range = Value::Array(vec![Value::Int(0), Value::Int(16_383), node]);
            link.loaded().insert(format!("a:{port}").into());
            link.keep(Nodes::read(&Value::Array(vec![range]), "a").unwrap());
        }
        assert_eq!(link.loaded().len(), 1);
    }
}
