//! The client of a request, also behind proxies.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
};

use http::{
    HeaderMap, HeaderName,
    header::{FORWARDED, HeaderValue},
};

use super::forwarded;
use crate::{KeyPart, Limits, key::PlainPart};

pub(super) const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The length of the IPv6 prefix that a provider usually assigns to one customer.
const PREFIX: u8 = 64;

/// The address of the client that sent a request.
///
/// It is the address of the peer, unless the peer is a [trusted proxy]. Then it is the rightmost address
/// in `Forwarded` or `X-Forwarded-For` that is no trusted proxy: entries further to the left were
/// written by the client, or by a proxy that only the client trusts. Without trusted proxies both
/// headers are ignored. An entry that is malformed or obfuscated (`unknown`, `_hidden`) hides what
/// is behind it, and the proxy that wrote it counts as the client. So does the peer if the two
/// headers contradict each other, since only one of them was written by the proxy.
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
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientIp {
    address: IpAddr,
    prefix: u8,
}

impl ClientIp {
    /// Finds the client of a request that arrived from `peer`, by the trusted proxies of
    /// [`Limits::current`].
    #[must_use]
    pub fn from_headers(peer: IpAddr, headers: &HeaderMap) -> Self {
        Limits::with_scope(|limits, _| Self::found(peer, headers, |ip| limits.trusts(ip)))
    }

    /// Returns the address.
    #[must_use]
    pub fn addr(&self) -> IpAddr {
        self.address
    }

    /// Returns the same client, which shares its key with all IPv6 addresses that start with the same
    /// `bits`, at most 128. Has no effect on IPv4.
    #[must_use]
    pub fn ipv6_prefix(self, bits: u8) -> Self {
        Self { prefix: bits.min(128), ..self }
    }

    pub(crate) fn found(
        peer: IpAddr,
        headers: &HeaderMap,
        trusts: impl Fn(IpAddr) -> bool,
    ) -> Self {
        let peer = peer.to_canonical();
        let address = if trusts(peer) { client_behind(peer, headers, trusts) } else { peer };
        Self { address, prefix: PREFIX }
    }
}

/// Returns the client behind a trusted proxy.
fn client_behind(peer: IpAddr, headers: &HeaderMap, trusts: impl Fn(IpAddr) -> bool) -> IpAddr {
    let by = |name, read: Read| by_header(peer, headers, name, read, &trusts);
    let forwarded = by(FORWARDED, forwarded::addresses);
    let x_forwarded_for = by(X_FORWARDED_FOR, forwarded::x_addresses);
    match (forwarded, x_forwarded_for) {
        (Some(one), Some(other)) if one != other => peer,
        (one, other) => one.or(other).unwrap_or(peer),
    }
}

/// Reads a line of a header.
type Read = fn(&str) -> Vec<Option<IpAddr>>;

/// Returns the client named by one header, if the request has it. All its lines form one list.
fn by_header(
    peer: IpAddr,
    headers: &HeaderMap,
    name: HeaderName,
    read: Read,
    trusts: impl Fn(IpAddr) -> bool,
) -> Option<IpAddr> {
    let mut lines = headers.get_all(name).iter().peekable();
    lines.peek()?;
    let of_line = |line: &HeaderValue| line.to_str().map_or_else(|_| vec![None], read);
    let mut client = peer;
    for address in lines.rev().flat_map(|line| of_line(line).into_iter().rev()) {
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
