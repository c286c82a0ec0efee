//! The address of Redis, parsed from one URL, with its password kept out of every message.

use std::fmt;

use ratelimit_spec::nearest;
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};

#[cfg(feature = "redis-connect")]
use super::connector::Connector;
use crate::{Problem, ProblemKind};

/// A parsed store address.
#[derive(Clone)]
pub(crate) struct Address {
    pub(super) topology: Topology,
    /// The server, the seed nodes, or the sentinels; none if the program opens the connections.
    pub(super) nodes: Vec<ConnectionInfo>,
    /// Whether the connections use RESP2 although the server may know RESP3.
    pub(super) only_resp2: bool,
    #[cfg(feature = "redis-connect")]
    pub(super) connector: Option<Connector>,
    shown: String,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) enum Topology {
    Standalone,
    Cluster,
    /// Contains the login of the sentinels themselves; that of the servers is part of each node.
    Sentinel {
        master: String,
        user: Option<String>,
        password: Option<String>,
    },
}

const SCHEMES: &str = "`redis://`, `rediss://`, `unix://`, `redis-cluster://`, `rediss-cluster://`, \
                       `redis-sentinel://` or `rediss-sentinel://`";

impl Address {
    pub(crate) fn parse(url: &str) -> Result<Self, Box<Problem>> {
        let shown = redact(url);
        let refuse = |why: &str| {
            Box::new(Problem::new(ProblemKind::Store, format!("store `{shown}`: {why}")))
        };
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(refuse(&format!("expected `memory` or a URL with {SCHEMES}")));
        };
        let (topology, node_scheme) = match scheme {
            "redis" | "rediss" | "unix" | "redis+unix" => (Topology::Standalone, scheme),
            "redis-cluster" => (Topology::Cluster, "redis"),
            "rediss-cluster" => (Topology::Cluster, "rediss"),
            "redis-sentinel" => (sentinel(rest).map_err(|why| refuse(&why))?, "redis"),
            "rediss-sentinel" => (sentinel(rest).map_err(|why| refuse(&why))?, "rediss"),
            _ => return Err(refuse(&format!("unknown scheme; expected {SCHEMES}"))),
        };
        if let Some(advice) = cut_off(scheme, rest) {
            let example = example(scheme);
            return Err(refuse(&format!(
                "not a valid address; write one such as `{example}`, {advice}"
            )));
        }
        if let Some(name) = misplaced_parameter(scheme, rest) {
            return Err(refuse(&format!(
                "the parameter `{name}` has no effect here; write an address such as `{}`",
                example(scheme)
            )));
        }
        let only_resp2 = only_resp2(rest).map_err(|why| refuse(&why))?;
        if let Some(feature) = missing_feature(&topology, node_scheme) {
            let why = format!("this URL requires the crate feature `{feature}`; enable it");
            return Err(refuse(&why));
        }

        if topology != Topology::Standalone && has_several_logins(rest) {
            let example = example(scheme);
            return Err(refuse(&format!(
                "write the login once, before the first host, and percent-encode the password: `{example}`"
            )));
        }
        if let "redis" | "rediss" = scheme
            && hosts(rest).contains(',')
        {
            return Err(refuse(&format!(
                "`{scheme}://` is for one server; write `{scheme}-cluster://` or `{scheme}-sentinel://` for several"
            )));
        }
        let urls = match topology {
            Topology::Standalone => vec![url.to_owned()],
            Topology::Cluster => node_urls(node_scheme, rest, 6379),
            Topology::Sentinel { .. } => node_urls(node_scheme, rest, 26379),
        };
        let nodes = urls
            .iter()
            .map(|url| url.as_str().into_connection_info())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| {
                // Possibly a password with a `/`, a `#` or a `?`.
                let encode =
                    if rest.contains('@') { ", and percent-encode the password" } else { "" };
                let example = example(scheme);
                refuse(&format!("not a valid address; write one such as `{example}`{encode}"))
            })?;
        if let Some(why) = nodes.iter().find_map(|node| mistake(scheme, node)) {
            return Err(refuse(&why));
        }
        Ok(Self {
            topology,
            nodes,
            only_resp2,
            #[cfg(feature = "redis-connect")]
            connector: None,
            shown,
        })
    }

    /// Returns why certificates have no effect, unless all connections use TLS.
    pub(crate) fn without_tls(&self) -> Option<String> {
        let by_tls = |node: &ConnectionInfo| matches!(node.addr(), ConnectionAddr::TcpTls { .. });
        if self.nodes.iter().all(by_tls) {
            return None;
        }
        let (scheme, _) = self.shown.split_once("://").unwrap_or_default();
        let advice = match scheme.strip_prefix("redis") {
            Some(kind) if kind != "+unix" => format!("write `rediss{kind}://`, or remove `tls_ca`"),
            _ => "remove `tls_ca`".to_owned(),
        };
        Some(format!("`tls_ca` has no effect with `{scheme}://`; {advice}"))
    }

    /// Returns what to write if either the server or the address uses TLS, and the other does not. A server with TLS
    /// closes other connections; one without TLS waits for a command that never comes.
    pub(super) fn advice_on_tls(&self, is_timeout: bool) -> Option<String> {
        let (scheme, _) = self.shown.split_once("://")?;
        let (with_tls, kind) = match (scheme.strip_prefix("rediss"), scheme.strip_prefix("redis")) {
            (Some(kind), _) => (true, kind),
            (None, Some(kind)) if kind != "+unix" => (false, kind),
            _ => return None,
        };
        (with_tls == is_timeout).then(|| match with_tls {
            true => format!("; if the server does not use TLS, write `redis{kind}://`"),
            false => format!("; if the server uses TLS, write `rediss{kind}://`"),
        })
    }

    /// The server to which these connections lead.
    #[cfg(feature = "redis-connect")]
    pub(crate) fn by_program(connector: Connector) -> Self {
        let (topology, nodes) = (Topology::Standalone, Vec::new());
        let shown = "Redis by `redis_connect`".to_owned();
        Self { topology, nodes, only_resp2: false, connector: Some(connector), shown }
    }
}

/// Returns what is wrong with an address that the driver accepts, although it ignores a part of it.
fn mistake(scheme: &str, node: &ConnectionInfo) -> Option<String> {
    let settings = node.redis_settings();
    // Without a login, a connection has the default user.
    let user = settings.username().filter(|user| *user != "default");
    (user.is_some() && settings.password().is_none()).then(|| {
        format!(
            "the user has no password, so it would not log in; write an address such as `{}`",
            example(scheme)
        )
    })
}

/// Returns an address of a scheme with everything that it usually has.
fn example(scheme: &str) -> String {
    match scheme {
        "unix" | "redis+unix" => {
            format!("{scheme}:///run/redis/redis.sock?db=0&user=name&pass=password")
        }
        "redis-cluster" | "rediss-cluster" => format!("{scheme}://user:password@one:6379,two:6379"),
        "redis-sentinel" | "rediss-sentinel" => {
            format!("{scheme}://user:password@one:26379,two:26379/0?master=main")
        }
        _ => format!("{scheme}://user:password@host:6379/0"),
    }
}

/// Returns the hosts in `[user:password@]host[:port],host[:port][/db][?query]`.
fn hosts(rest: &str) -> &str {
    let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
    place.split(['?', '/']).next().unwrap_or_default()
}

/// Returns whether there is an `@` in front of several hosts: the driver would take all but the last one for a part of
/// the password.
fn has_several_logins(rest: &str) -> bool {
    let place = rest.split('?').next().unwrap_or_default();
    let logins = place.rsplit_once('@').and_then(|(logins, _)| logins.split_once('@'));
    logins.is_some_and(|(_, others)| others.contains(','))
}

/// Returns one URL for each of the hosts in `[user:password@]host[:port],host[:port][/db][?query]`.
fn node_urls(scheme: &str, rest: &str, default_port: u16) -> Vec<String> {
    let rest = rest.split('?').next().unwrap_or_default();
    let (authority, db) = rest.split_once('/').unwrap_or((rest, ""));
    let (user, hosts) =
        authority.rsplit_once('@').map_or(("", authority), |(user, hosts)| (user, hosts));
    let at = if user.is_empty() { "" } else { "@" };
    let node_url = |host: &str| {
        // After the bracket of an IPv6 address.
        let has_port = host.rsplit(']').next().is_some_and(|end| end.contains(':'));
        let port = if has_port { String::new() } else { format!(":{default_port}") };
        format!("{scheme}://{user}{at}{host}{port}/{db}")
    };
    hosts.split(',').map(|host| node_url(host.trim())).collect()
}

/// Reads the query of a Sentinel address.
fn sentinel(rest: &str) -> Result<Topology, String> {
    let query = rest.split_once('?').map_or("", |(_, query)| query);
    let (mut master, mut user, mut password) = ("", "", None);
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        match parameter.split_once('=') {
            Some(("master", value)) => master = value,
            Some(("sentinel_user", value)) => user = value,
            Some(("sentinel_password", value)) => password = Some(value),
            Some(("protocol", _)) => {}
            other => {
                // Before an `@`, it may be a part of a password.
                let shown = other.filter(|_| !query.contains('@'));
                let name = shown.map_or("***", |(name, _)| name);
                return Err(format!(
                    "unknown parameter `{name}`; write `master`, `protocol`, `sentinel_user` or `sentinel_password`"
                ));
            }
        }
    }
    if master.is_empty() {
        return Err("missing master name; write `?master=NAME` at the end".to_owned());
    }
    if password.is_none() && !user.is_empty() {
        return Err(
            "`sentinel_user` has no effect without `sentinel_password`; write both".to_owned()
        );
    }
    // Percent-encoded, like the login of an address.
    let login = format!("redis://{user}:{}@sentinel", password.unwrap_or_default());
    let login = login.into_connection_info().map_err(
        |_| "`sentinel_user` or `sentinel_password` is not valid in an address; percent-encode it",
    )?;
    let login = login.redis_settings();
    Ok(Topology::Sentinel {
        master: master.to_owned(),
        user: login.username().map(str::to_owned),
        password: login.password().map(str::to_owned),
    })
}

/// Reads the protocol in the query of an address. A cluster or a sentinel has it too.
fn only_resp2(rest: &str) -> Result<bool, String> {
    let query = rest.split_once('?').map_or("", |(_, query)| query);
    match query.split('&').find_map(|parameter| parameter.strip_prefix("protocol=")) {
        Some("2" | "resp2") => Ok(true),
        Some("3" | "resp3") | None => Ok(false),
        Some(_) => Err("unknown `protocol`; write `resp2` or `resp3`".to_owned()),
    }
}

/// Parameters with a meaning in some address.
const MEANT: [&str; 8] =
    ["db", "master", "pass", "password", "sentinel_password", "sentinel_user", "user", "username"];

/// Returns what to write if the driver would take a part of the login for the place of the server, and report it as such:
/// the start of a password with a `?` or a `#`, or parameters behind that place without a `?` between.
fn cut_off(scheme: &str, rest: &str) -> Option<&'static str> {
    let is_socket = scheme.ends_with("unix");
    let place = rest.split('?').next().unwrap_or_default();
    let place = if is_socket { place } else { place.rsplit('@').next().unwrap_or_default() };
    let mut names = place.split(['&', ';']).skip(1).filter_map(|it| Some(it.split_once('=')?.0));
    // A path may contain anything, a host none of it.
    if names.any(|name| !is_socket || nearest(name, MEANT).is_some()) {
        return Some("with a `?` before the first parameter");
    }
    let end = rest.split_once(['?', '#']).map_or("", |(_, end)| end);
    // A parameter of another driver may have an `@`.
    let is_of_login = !is_socket && end.split('=').next().is_some_and(|start| start.contains('@'));
    is_of_login.then_some("and percent-encode the password")
}

/// Returns a parameter with a meaning in some address, or that resembles one, but that has none in an address of this scheme.
/// Others are ignored: programs in other languages may share the address.
fn misplaced_parameter<'a>(scheme: &str, rest: &'a str) -> Option<&'a str> {
    let known: &[_] = match scheme {
        "unix" | "redis+unix" => &["db", "pass", "user"],
        // Of these, every parameter is read.
        "redis-sentinel" | "rediss-sentinel" => return None,
        _ => &[],
    };
    let (_, query) = rest.split_once('?')?;
    let mut names = query.split('&').filter_map(|parameter| Some(parameter.split_once('=')?.0));
    names.find(|name| !known.contains(name) && nearest(name, MEANT).is_some())
}

fn missing_feature(topology: &Topology, scheme: &str) -> Option<&'static str> {
    match topology {
        Topology::Sentinel { .. } if !cfg!(feature = "sentinel") => Some("sentinel"),
        _ if scheme == "rediss" && !cfg!(feature = "tls") => Some("tls"),
        _ => None,
    }
}

/// Parameters whose values are shown.
const SHOWN: &[&str] = &["db", "master", "protocol", "sentinel_user", "user"];

/// Returns the address without anything that may be a password. Before the last `@` it shows only the user's
/// name, after it hosts, ports, the database and the values of known parameters. What has a `=` elsewhere is
/// a parameter after a wrong separator, and is not shown.
fn redact(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        // Not an address, but perhaps a password in the wrong place.
        return if url.contains(['@', '=']) { "***".to_owned() } else { url.to_owned() };
    };
    if scheme.contains(['@', '=', ':', '/', '?', '#']) {
        return "***".to_owned();
    }
    let (login, rest) = match rest.rsplit_once('@') {
        // The path of a socket may have an `@`.
        _ if scheme.ends_with("unix") && rest.starts_with('/') => (String::new(), rest),
        Some((login, _)) if has_more_than_a_login(login) => return format!("{scheme}://***"),
        Some((login, rest)) => (redact_login(login), rest),
        None => (String::new(), rest),
    };
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = place.split_at(place.find('/').unwrap_or(place.len()));
    let path = if path.contains('=') { "/***" } else { path };
    let hosts: Vec<_> = authority.split(',').map(redact_host).collect();
    let parameters: Vec<_> = query.split('&').map(redact_parameter).collect();
    let mark = if query.is_empty() { "" } else { "?" };
    format!("{scheme}://{login}{}{path}{mark}{}", hosts.join(","), parameters.join("&"))
}

/// Returns whether the `@` behind this text may be one of a parameter, so that a part of a password follows it; the
/// text may also be a login with a password that is not encoded.
fn has_more_than_a_login(login: &str) -> bool {
    let mut after_separators = login.split(['&', ';']).skip(1);
    login.contains(['/', '?', '#']) || after_separators.any(|parameter| parameter.contains('='))
}

fn redact_login(login: &str) -> String {
    match login.split_once(':') {
        Some((name, password)) if !name.contains('@') && !password.is_empty() => {
            format!("{name}:***@")
        }
        // A single word is a name or a password.
        _ => "***@".to_owned(),
    }
}

/// Redacts a host with its port. A port that is not a number may be the password of an address without a host.
fn redact_host(host: &str) -> String {
    match host.rsplit_once(':') {
        _ if host.contains('=') => "***".to_owned(),
        Some((host, port))
            if !host.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            format!("{host}:{port}")
        }
        Some((host, _)) if !host.starts_with('[') => format!("{host}:***"),
        _ => host.to_owned(),
    }
}

fn redact_parameter(parameter: &str) -> String {
    match parameter.split_once('=') {
        Some((name, value)) if SHOWN.contains(&name) && !value.contains('=') => {
            parameter.to_owned()
        }
        Some((name, _)) => format!("{name}=***"),
        None if parameter.is_empty() => String::new(),
        None => "***".to_owned(),
    }
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
mod tests;
