//! Maps the nodes of a cluster to their slots.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write,
    ops::RangeInclusive,
    sync::Arc,
};

use redis::Value;

/// The most ranges of slots that an event lists of one node.
const MOST_LISTED: usize = 8;
/// The host of a node that announces no name, in a cluster whose nodes are reached by their names.
pub(super) const UNKNOWN: &str = "?";

/// A node, and the slots that it served when the cluster was last queried.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) address: Arc<str>,
    slots: Vec<RangeInclusive<u16>>,
}

/// All nodes that serve slots.
#[derive(Debug, Default)]
pub(super) struct Nodes(Vec<Arc<Node>>);

impl Node {
    pub(super) fn serves(&self, slot: u16) -> bool {
        self.slots.iter().any(|range| range.contains(&slot))
    }

    /// Formats its slots: `0-5460`, or several ranges.
    pub(super) fn slots(&self) -> Arc<str> {
        let mut text = String::new();
        for (n, range) in self.slots.iter().take(MOST_LISTED).enumerate() {
            let separator = if n == 0 { "" } else { ", " };
            // Writing to a string cannot fail.
            let _ = write!(text, "{separator}{}", range.start());
            if range.start() < range.end() {
                let _ = write!(text, "-{}", range.end());
            }
        }
        if let Some(more) = self.slots.len().checked_sub(MOST_LISTED + 1) {
            let _ = write!(text, " and {} more ranges", more + 1);
        }
        text.into()
    }
}

impl Nodes {
    /// Reads the reply of the node on this host to `CLUSTER SLOTS`: for each range its first slot, its last
    /// slot and its nodes, with the master first.
    pub(super) fn read(reply: &Value, asked: &str) -> Option<Self> {
        let Value::Array(ranges) = reply else { return None };
        let mut nodes = BTreeMap::<String, Vec<RangeInclusive<u16>>>::new();
        for range in ranges {
            let Value::Array(range) = range else { return None };
            let [Value::Int(first), Value::Int(last), Value::Array(node), ..] = &range[..] else {
                return None;
            };
            let [host, Value::Int(port), rest @ ..] = &node[..] else { return None };
            let mut host: String = redis::from_redis_value_ref(host).unwrap_or_default();
            if host == UNKNOWN {
                host = rest.get(1).and_then(ip_of).unwrap_or_default();
            }
            // A node that does not know its own host is on the host that replied.
            let host = if host.is_empty() { asked } else { &host };
            let slots = u16::try_from(*first).ok()?..=u16::try_from(*last).ok()?;
            nodes.entry(format!("{host}:{port}")).or_default().push(slots);
        }
        let nodes = nodes.into_iter().map(|(address, mut slots)| {
            slots.sort_by_key(|range| *range.start());
            Arc::new(Node { address: address.into(), slots })
        });
        Some(Self(nodes.collect()))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Node> {
        self.0.iter().map(|node| &**node)
    }

    pub(super) fn addresses(&self) -> Vec<Arc<str>> {
        self.0.iter().map(|node| Arc::clone(&node.address)).collect()
    }

    /// Returns the node at this address, with one slot more than it is known to serve.
    pub(super) fn with_slot(&self, address: &Arc<str>, slot: u16) -> Node {
        let known = self.0.iter().find(|node| node.address == *address);
        let mut slots = known.map_or_else(Vec::new, |node| node.slots.clone());
        slots.push(slot..=slot);
        Node { address: Arc::clone(address), slots }
    }

    pub(super) fn of(&self, slot: u16) -> Option<Arc<Node>> {
        self.0.iter().find(|node| node.serves(slot)).cloned()
    }
}

/// Returns the address in the metadata of a node.
fn ip_of(metadata: &Value) -> Option<String> {
    let mut metadata: HashMap<String, String> = redis::from_redis_value_ref(metadata).ok()?;
    metadata.remove("ip")
}

/// Returns the address of the node to which the node that replied this to `CLUSTER NODES` moves a slot. Each line is
/// `ID HOST:PORT@BUS ..`, and its own ends with the slots that move: `[SLOT->-ID]`.
pub(super) fn next_of(slot: u16, reply: &str) -> Option<&str> {
    let (_, id) = reply.split_once(&format!("[{slot}->-"))?;
    let (id, _) = id.split_once(']')?;
    let (address, _) = reply.lines().find_map(|line| line.strip_prefix(id))?.split_once('@')?;
    Some(address.trim_start())
}

/// Returns the host of `host:port`.
pub(super) fn host_of(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: i64, last: i64, port: i64) -> Value {
        let host = Value::BulkString(b"10.0.0.1".to_vec());
        let id = Value::BulkString(b"id".to_vec());
        let node = Value::Array(vec![host, Value::Int(port), id]);
        let replica = Value::Array(vec![Value::Nil, Value::Int(9), Value::Nil]);
        Value::Array(vec![Value::Int(first), Value::Int(last), node, replica])
    }

    #[test]
    fn each_slot_has_the_node_that_decides() {
        let reply = [range(5461, 10922, 2), range(0, 5460, 1), range(16_000, 16_383, 1)];
        let nodes = Nodes::read(&Value::Array(reply.to_vec()), "h").unwrap();
        let of = |slot| nodes.of(slot).map(|node| node.address.to_string());
        assert_eq!(of(5460).as_deref(), Some("10.0.0.1:1"));
        assert_eq!(of(5461).as_deref(), Some("10.0.0.1:2"));
        assert_eq!(of(12_000), None);
        assert_eq!(&*nodes.of(0).unwrap().slots(), "0-5460, 16000-16383");
        assert!(nodes.of(0).unwrap().serves(16_383) && !nodes.of(0).unwrap().serves(6000));
    }

    #[test]
    fn many_ranges_are_not_all_listed() {
        let reply = (0..20).map(|n| range(n * 10, n * 10 + 4, 1)).collect();
        let nodes = Nodes::read(&Value::Array(reply), "h").unwrap();
        let slots = nodes.of(0).unwrap().slots();
        assert!(slots.starts_with("0-4, 10-14, ") && slots.ends_with("70-74 and 12 more ranges"));
    }

    #[test]
    fn a_node_without_a_host_name_has_its_address() {
        let text = |text: &str| Value::BulkString(text.into());
        let list = Value::Array(vec![text("ip"), text("10.0.0.2")]);
        let map = Value::Map(vec![(text("ip"), text("10.0.0.2"))]);
        for (metadata, expected) in [
            (vec![text("id"), list], "10.0.0.2:1"),
            (vec![text("id"), map], "10.0.0.2:1"),
            (vec![text("id"), Value::Array(Vec::new())], "h:1"),
            (Vec::new(), "h:1"),
        ] {
            let node = Value::Array([vec![text("?"), Value::Int(1)], metadata].concat());
            let range = Value::Array(vec![Value::Int(7), Value::Int(7), node]);
            let nodes = Nodes::read(&Value::Array(vec![range]), "h").unwrap();
            let node = nodes.of(7).unwrap();
            assert_eq!((&*node.address, &*node.slots()), (expected, "7"));
        }
    }

    #[test]
    fn a_slot_moves_to_one_of_the_listed_nodes() {
        let reply = "a1 10.0.0.1:1@2,one myself,master - 0 0 1 connected 0-9 [7->-b2] [8-<-a3]\n\
                     b2 fe80::1:1@2 master - 0 0 2 connected 10-16383\n\
                     a3 10.0.0.3:1@2 master - 0 0 3 connected\n";
        assert_eq!(next_of(7, reply), Some("fe80::1:1"));
        assert_eq!((next_of(8, reply), next_of(9, reply)), (None, None));
    }

    #[test]
    fn another_reply_is_none() {
        for reply in [Value::Nil, Value::Array(vec![Value::Int(1)])] {
            assert!(Nodes::read(&reply, "h").is_none());
        }
    }
}
