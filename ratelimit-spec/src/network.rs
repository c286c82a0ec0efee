//! Networks whose addresses are trusted: `10.0.0.0/8`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net};

use crate::quote::Quoted;

/// A range of IP addresses, written in CIDR notation or as a single address. A range of IPv4 addresses can be
/// mapped into IPv6.
///
/// # Examples
///
/// ```
/// use ratelimit_spec::Network;
///
/// let network: Network = "10.0.0.0/8".parse()?;
/// assert!(network.contains("10.1.2.3".parse().unwrap()));
/// assert!(!network.contains("11.0.0.1".parse().unwrap()));
/// # Ok::<(), ratelimit_spec::NetworkError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network(IpNet);

impl Network {
    /// Returns whether the address is in this range. An IPv4 address that is mapped into IPv6 is an
    /// IPv4 address.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let address = || text.parse::<IpAddr>().map(IpNet::from);
        text.parse::<IpNet>()
            .or_else(|_| address())
            .map(|network| Self(canonical(network)))
            .map_err(|_| NetworkError(text.to_owned()))
    }
}

/// Returns the range of IPv4 addresses that is mapped into a range of IPv6, if it is one.
fn canonical(network: IpNet) -> IpNet {
    let mapped = || {
        let IpNet::V6(network) = network else { return None };
        let bits = network.prefix_len().checked_sub(96)?;
        Ipv4Net::new(network.addr().to_ipv4_mapped()?, bits).ok()
    };
    mapped().map_or(network, IpNet::V4)
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A text that is not a range of IP addresses. Its [`Display`](fmt::Display) says what to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkError(String);

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = Quoted(&self.0);
        write!(f, "{text} is not a range of IP addresses; write one such as `10.0.0.0/8`")
    }
}

impl std::error::Error for NetworkError {}

#[cfg(test)]
mod tests {
    use super::Network;

    #[test]
    fn a_network_is_a_range_or_one_address() {
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.1"),
            ("192.0.2.1", "192.0.2.1", "192.0.2.2"),
            ("2001:db8::/32", "2001:db8:1::1", "2001:db9::1"),
            ("::1", "::1", "::2"),
            ("::ffff:192.0.2.1", "192.0.2.1", "192.0.2.2"),
            ("::ffff:10.0.0.0/104", "10.1.2.3", "11.0.0.1"),
            ("::ffff:0.0.0.0/96", "::ffff:8.8.8.8", "::1"),
            ("::/0", "2001:db8::1", "8.8.8.8"),
            ("0.0.0.0/0", "::ffff:8.8.8.8", "::1"),
        ] {
            let network: Network = network.parse().unwrap();
            assert!(network.contains(inside.parse().unwrap()), "{network}");
            assert!(!network.contains(outside.parse().unwrap()), "{network}");
        }
        for text in ["", "10.0.0.0/33", "10.0.0", "localhost", "10.0.0.0/8 ", "::1/129"] {
            let error = text.parse::<Network>().unwrap_err().to_string();
            assert!(error.ends_with("write one such as `10.0.0.0/8`"), "{error}");
        }
    }
}
