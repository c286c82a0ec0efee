//! Where Redis is, read from one URL, with its password kept out of every message.

use std::fmt;

use redis::{ConnectionInfo, IntoConnectionInfo};

use crate::SetupError;

/// A parsed store address.
#[derive(Clone)]
pub(crate) struct Address {
    pub(super) topology: Topology,
    /// The server, the seed nodes, or the sentinels.
    pub(super) nodes: Vec<ConnectionInfo>,
    shown: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Topology {
    Standalone,
    Cluster,
    Sentinel { master: String },
}

const SCHEMES: &str = "`redis://`, `rediss://`, `unix://`, `redis-cluster://`, `rediss-cluster://`, \
                       `redis-sentinel://` or `rediss-sentinel://`";

impl Address {
    pub(crate) fn parse(url: &str) -> Result<Self, SetupError> {
        let shown = redact(url);
        let refuse = |why: &str| SetupError::one(format!("store `{shown}`: {why}"));
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(refuse(&format!("expected `memory` or an address with {SCHEMES}")));
        };
        let (topology, node_scheme) = match scheme {
            "redis" | "rediss" | "unix" | "redis+unix" => (Topology::Standalone, scheme),
            "redis-cluster" => (Topology::Cluster, "redis"),
            "rediss-cluster" => (Topology::Cluster, "rediss"),
            "redis-sentinel" => (Topology::Sentinel { master: master_of(rest) }, "redis"),
            "rediss-sentinel" => (Topology::Sentinel { master: master_of(rest) }, "rediss"),
            _ => return Err(refuse(&format!("unknown scheme; expected {SCHEMES}"))),
        };
        missing_feature(&topology, node_scheme).map_or(Ok(()), |feature| {
            Err(refuse(&format!("this needs the crate feature `{feature}`; it is not enabled")))
        })?;
        if matches!(&topology, Topology::Sentinel { master } if master.is_empty()) {
            return Err(refuse("the master's name is missing; write `?master=NAME` at the end"));
        }

        let urls = if topology == Topology::Standalone {
            vec![url.to_owned()]
        } else {
            node_urls(node_scheme, rest)
        };
        let nodes = urls
            .iter()
            .map(|url| url.as_str().into_connection_info())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| refuse(&error.to_string()))?;
        Ok(Self { topology, nodes, shown })
    }
}

/// One URL for each of the hosts in `[user:password@]host:port,host:port[/db][?query]`.
fn node_urls(scheme: &str, rest: &str) -> Vec<String> {
    let rest = rest.split('?').next().unwrap_or_default();
    let (authority, db) = rest.split_once('/').unwrap_or((rest, ""));
    let (user, hosts) =
        authority.rsplit_once('@').map_or(("", authority), |(user, hosts)| (user, hosts));
    let at = if user.is_empty() { "" } else { "@" };
    hosts.split(',').map(|host| format!("{scheme}://{user}{at}{}/{db}", host.trim())).collect()
}

fn master_of(rest: &str) -> String {
    let query = rest.split_once('?').map_or("", |(_, query)| query);
    let master = query.split('&').find_map(|pair| pair.strip_prefix("master="));
    master.unwrap_or_default().to_owned()
}

fn missing_feature(topology: &Topology, scheme: &str) -> Option<&'static str> {
    match topology {
        Topology::Cluster if !cfg!(feature = "cluster") => Some("cluster"),
        Topology::Sentinel { .. } if !cfg!(feature = "sentinel") => Some("sentinel"),
        _ if scheme == "rediss" && !cfg!(feature = "tls") => Some("tls"),
        _ => None,
    }
}

/// The address without its password.
fn redact(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        // Not an address: perhaps a password that was put in the wrong place.
        return if url.contains('@') { "***".to_owned() } else { url.to_owned() };
    };
    let Some((user, hosts)) = rest.rsplit_once('@') else {
        return url.to_owned();
    };
    let name = user.split(':').next().unwrap_or_default();
    format!("{scheme}://{name}:***@{hosts}")
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Address").field(&self.shown).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        for url in
            ["redis://me:s3cr3t@h:1/0", "redis://:s3cr3t@h", "nonsense://a:s3cr3t@h", "s3cr3t@h"]
        {
            let shown =
                Address::parse(url).map_or_else(|error| error.to_string(), |a| a.to_string());
            assert!(!shown.contains("s3cr3t"), "{shown}");
        }
    }

    #[test]
    fn several_hosts_share_credentials_and_database() {
        assert_eq!(
            node_urls("redis", "me:pw@a:1,b:2/3?master=m"),
            ["redis://me:pw@a:1/3", "redis://me:pw@b:2/3"]
        );
        assert_eq!(master_of("a:1,b:2/3?master=m"), "m");
    }

    #[test]
    fn a_bad_address_says_what_to_write() {
        let error = |url| Address::parse(url).unwrap_err().to_string();
        assert_eq!(
            error("localhost:6379"),
            format!("store `localhost:6379`: expected `memory` or an address with {SCHEMES}")
        );
        assert_eq!(
            error("reddis://localhost"),
            format!("store `reddis://localhost`: unknown scheme; expected {SCHEMES}")
        );
    }
}
