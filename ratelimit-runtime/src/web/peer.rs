//! The address a request arrived from, as servers tell it.

use std::net::{IpAddr, SocketAddr};

use http::Extensions;

/// Finds the address of the peer among what the server put in a request: a `SocketAddr`, an `IpAddr`, or
/// axum's `ConnectInfo<SocketAddr>`.
pub(crate) fn peer_of(extensions: &Extensions) -> Option<IpAddr> {
    let socket = extensions.get::<SocketAddr>().map(SocketAddr::ip);
    let address = || extensions.get::<IpAddr>().copied();
    socket.or_else(address).or_else(|| by_framework(extensions))
}

#[cfg(feature = "axum")]
fn by_framework(extensions: &Extensions) -> Option<IpAddr> {
    use ::axum::extract::{ConnectInfo, connect_info::MockConnectInfo};

    let told = extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip());
    let mock = || extensions.get::<MockConnectInfo<SocketAddr>>();
    told.or_else(|| mock().map(|MockConnectInfo(peer)| peer.ip()))
}

#[cfg(not(feature = "axum"))]
fn by_framework(_: &Extensions) -> Option<IpAddr> {
    None
}

/// What a server has to do so that a peer is known.
pub(crate) const UNKNOWN_PEER: &str = "the address of the peer is unknown; serve with \
    `into_make_service_with_connect_info::<SocketAddr>()`, or insert a `SocketAddr` into the request's extensions";
