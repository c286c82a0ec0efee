//! The proxies that are trusted to name the client of a request, and the header in which they do so.

use std::sync::atomic::AtomicBool;

use ratelimit_spec::{HeaderName, Network};

/// What the program sets. The limits file decides what it does not set.
#[cfg_attr(not(feature = "_web"), expect(dead_code, reason = "only web frameworks have clients"))]
#[derive(Debug)]
pub(super) struct Proxies {
    trusted: Option<Vec<Network>>,
    client_ip_header: Option<HeaderName>,
    /// Whether a proxy that is not trusted was reported.
    has_reported: AtomicBool,
}

impl Proxies {
    pub(super) fn new(trusted: Option<Vec<Network>>, client_ip_header: Option<HeaderName>) -> Self {
        Self { trusted, client_ip_header, has_reported: AtomicBool::default() }
    }
}

#[cfg(feature = "_web")]
impl super::Limits {
    /// Returns whether this is the address of a trusted proxy.
    pub(crate) fn trusts(&self, address: std::net::IpAddr) -> bool {
        let contains = |proxies: &[Network]| proxies.iter().any(|proxy| proxy.contains(address));
        match &self.made.proxies.trusted {
            Some(proxies) => contains(proxies),
            None => contains(self.services().current().trusted_proxies()),
        }
    }

    /// Returns the only header in which trusted proxies name the client, if it is only one.
    pub(crate) fn client_ip_header(&self) -> Option<HeaderName> {
        let chosen = self.made.proxies.client_ip_header.clone();
        chosen.or_else(|| self.services().current().client_ip_header().cloned())
    }

    /// Returns whether no proxy that is not trusted was reported before.
    pub(crate) fn is_first_proxy(&self) -> bool {
        use std::sync::atomic::Ordering::Relaxed;

        let reported = &self.made.proxies.has_reported;
        // A write takes the cache line from other threads, so later requests only read.
        !reported.load(Relaxed) && !reported.swap(true, Relaxed)
    }
}
