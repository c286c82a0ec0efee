//! The client of a request, also behind proxies.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
};

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{FORWARDED, ValueIter},
};

use super::forwarded;
use crate::{Event, KeyPart, Limits, key::PlainPart};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The length of the IPv6 prefix that a provider usually assigns to one customer.
const PREFIX: u8 = 64;

/// The address of the client that sent a request.
///
/// It is the address of the peer, unless the peer is a [trusted proxy]. Then it is the rightmost address
/// in `Forwarded` or `X-Forwarded-For` that is no trusted proxy: entries further to the left were
/// written by the client, or by a proxy that only the client trusts. Without trusted proxies both
/// headers are ignored. An entry that is malformed or obfuscated (`unknown`, `_hidden`) hides
/// the entries to its left, and the proxy that wrote it counts as the client.
///
/// If the two headers contradict each other, the peer counts as the client, since it wrote only one of them.
/// Unless the proxies remove the other one, set [`client_ip_header`], or a client that adds it is not counted by its
/// address. With that setting only the header that it names is read.
///
/// The first request with such a header from a peer in a private network that is no trusted proxy is reported as
/// [`Event::UntrustedProxy`].
///
/// In a key, all IPv6 addresses of one `/64` are one client, because a host can use any of them. An IPv4 address that is
/// mapped into IPv6 is an IPv4 address.
///
/// With the features `actix` and `axum` it is an extractor, and so is an `Option` of it, for keys with `{ip?}`.
///
/// # Examples
///
/// ```
/// use ratelimit_runtime::{Limits, web::ClientIp};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let limits = Limits::builder().memory().no_limits_file().trusted_proxies(["10.0.0.0/8"]).build().await?;
/// let mut headers = http::HeaderMap::new();
/// headers.insert("x-forwarded-for", "192.0.2.66, 203.0.113.7, 10.0.0.2".parse()?);
///
/// let peer = "10.0.0.1".parse()?;
/// let client = limits.scope(async { ClientIp::from_headers(peer, &headers) }).await;
/// assert_eq!(client.to_string(), "203.0.113.7");
/// # Ok(())
/// # }
/// ```
///
/// [trusted proxy]: crate::LimitsBuilder::trusted_proxies
/// [`client_ip_header`]: crate::LimitsBuilder::client_ip_header
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientIp {
    address: IpAddr,
    prefix: u8,
}

impl ClientIp {
    /// Finds the client of a request that arrived from `peer`, by the trusted proxies of
    /// [`Limits::current`].
    ///
    /// # Examples
    ///
    /// ```
    /// use http::HeaderMap;
    /// use ratelimit_runtime::{Limits, web::ClientIp};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limits = Limits::builder().memory().no_limits_file()
    ///     .trusted_proxies(["10.0.0.0/8"]).client_ip_header("x-real-ip").build().await?;
    /// let headers = HeaderMap::from_iter([("x-real-ip".parse()?, "203.0.113.7".parse()?)]);
    ///
    /// let (proxy, other) = ("10.0.0.1".parse()?, "198.51.100.3".parse()?);
    /// limits.scope(async {
    ///     assert_eq!(ClientIp::from_headers(proxy, &headers).to_string(), "203.0.113.7");
    ///     assert_eq!(ClientIp::from_headers(other, &headers).to_string(), "198.51.100.3");
    /// }).await;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn from_headers(peer: IpAddr, headers: &HeaderMap) -> Self {
        Limits::with_scope(|limits, _| Self::of(limits, peer, headers))
    }

    /// Returns the address.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::HeaderMap;
    /// use ratelimit_runtime::{Limits, web::ClientIp};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().no_limits_file().build().await?;
    /// # let peer = "::ffff:127.0.0.1".parse()?;
    /// # limits.scope(async {
    /// let client = ClientIp::from_headers(peer, &HeaderMap::new());
    /// assert!(client.addr().is_loopback());
    /// # }).await;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn addr(&self) -> IpAddr {
        self.address
    }

    /// Returns the same client, which shares its key with all IPv6 addresses that start with the same
    /// `bits`, at most 128. Has no effect on IPv4.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::HeaderMap;
    /// use ratelimit_runtime::{Limits, Rejection, rate_limit, web::ClientIp};
    ///
    /// #[rate_limit(key = "sign_up:{client}", rate = 1, per = "1h", wait = "none")]
    /// async fn sign_up(client: ClientIp) -> Result<(), Rejection> {
    ///     Ok(())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().no_limits_file().build().await?;
    /// # let [one, other] = ["2001:db8:0:1::7".parse()?, "2001:db8:0:2::9".parse()?];
    /// limits.scope(async {
    ///     let client = |peer| ClientIp::from_headers(peer, &HeaderMap::new()).ipv6_prefix(48);
    ///     assert!(sign_up(client(one)).await.is_ok());
    ///     assert!(sign_up(client(other)).await.is_err(), "both are in 2001:db8::/48");
    /// }).await;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn ipv6_prefix(self, bits: u8) -> Self {
        Self { prefix: bits.min(128), ..self }
    }

    /// The same by the trusted proxies of these limits.
    pub(crate) fn of(limits: &Limits, peer: IpAddr, headers: &HeaderMap) -> Self {
        let peer = peer.to_canonical();
        let address = if limits.trusts(peer) {
            client_behind(limits, peer, headers)
        } else {
            report_proxy(limits, peer, headers);
            peer
        };
        Self { address, prefix: PREFIX }
    }

    /// Returns whether a header can name the client.
    #[cfg(feature = "actix")]
    pub(super) fn is_named_by(limits: &Limits) -> impl Fn(&HeaderName) -> bool {
        let only = limits.client_ip_header();
        move |header| match &only {
            Some(only) => only.as_str() == header,
            None => [FORWARDED, X_FORWARDED_FOR].contains(header),
        }
    }
}

/// Reports a peer that is probably a proxy, once: behind it, all clients would count as one.
fn report_proxy(limits: &Limits, peer: IpAddr, headers: &HeaderMap) {
    let is_forwarded = || match limits.client_ip_header() {
        Some(only) => headers.contains_key(only.as_str()),
        None => headers.contains_key(X_FORWARDED_FOR) || headers.contains_key(FORWARDED),
    };
    if let Some(network) = private_network(peer)
        && is_forwarded()
        && limits.is_first_proxy()
    {
        limits.services().events.emit(&Event::UntrustedProxy { network });
    }
}

/// Returns the private network of an address. No client reaches a server from there over the internet, so one cannot
/// cause a report.
fn private_network(peer: IpAddr) -> Option<&'static str> {
    match peer {
        IpAddr::V4(peer) => match peer.octets() {
            [10, ..] => Some("10.0.0.0/8"),
            [127, ..] => Some("127.0.0.0/8"),
            [100, 64..=127, ..] => Some("100.64.0.0/10"),
            [169, 254, ..] => Some("169.254.0.0/16"),
            [172, 16..=31, ..] => Some("172.16.0.0/12"),
            [192, 168, ..] => Some("192.168.0.0/16"),
            _ => None,
        },
        IpAddr::V6(peer) if peer.is_loopback() => Some("::1/128"),
        IpAddr::V6(peer) if peer.is_unique_local() => Some("fc00::/7"),
        IpAddr::V6(peer) if peer.is_unicast_link_local() => Some("fe80::/10"),
        IpAddr::V6(_) => None,
    }
}

/// Returns the client behind a trusted proxy.
fn client_behind(limits: &Limits, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
    let by = |lines, read: Read| by_header(peer, lines, read, |ip| limits.trusts(ip));
    let by_forwarded = || by(headers.get_all(FORWARDED).iter(), forwarded::addresses);
    let by_list = |lines| by(lines, forwarded::x_addresses);
    let client = match limits.client_ip_header() {
        Some(only) if only.as_str() == FORWARDED => by_forwarded(),
        Some(only) => by_list(headers.get_all(only.as_str()).iter()),
        None => match (by_forwarded(), by_list(headers.get_all(X_FORWARDED_FOR).iter())) {
            (Some(one), Some(other)) if one != other => None,
            (one, other) => one.or(other),
        },
    };
    client.unwrap_or(peer)
}

/// Reads a line of a header, from right to left.
type Read = fn(&str) -> Vec<Option<IpAddr>>;

/// Returns the client named by one header, if the request has it. All its lines form one list.
fn by_header(
    peer: IpAddr,
    lines: ValueIter<'_, HeaderValue>,
    read: Read,
    trusts: impl Fn(IpAddr) -> bool,
) -> Option<IpAddr> {
    let mut lines = lines.peekable();
    lines.peek()?;
    let of_line = |line: &HeaderValue| read(&String::from_utf8_lossy(line.as_bytes()));
    let mut client = peer;
    for address in lines.rev().flat_map(of_line) {
        let Some(address) = address else { break };
        client = address.to_canonical();
        if !trusts(client) {
            break;
        }
    }
    Some(client)
}

// Error messages about keys list the same types with and without the web features.
#[diagnostic::do_not_recommend]
impl KeyPart for ClientIp {
    fn fmt_key(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            IpAddr::V4(address) => address.fmt_key(f),
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix)).unwrap_or(0);
                let network = Ipv6Addr::from_bits(address.to_bits() & mask);
                write!(f, "{network}/{}", self.prefix)
            }
        }
    }

    fn plain(&self) -> PlainPart<'_> {
        self.address.plain()
    }
}

impl fmt::Display for ClientIp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}

impl fmt::Debug for ClientIp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Shows no key value.
        f.write_str("ClientIp(..)")
    }
}

#[cfg(test)]
mod tests;
