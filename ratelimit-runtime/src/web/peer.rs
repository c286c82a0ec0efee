//! The address a request arrived from, as each server reports it.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use http::Extensions;

use crate::{Event, Limits, Reason, Rejection, StoreError};

/// Returns the peer's address from the extensions that the server added to a request: a
/// `SocketAddr`, an `IpAddr`, axum's `ConnectInfo<SocketAddr>`, or tonic's `TcpConnectInfo`.
pub(crate) fn peer_of(extensions: &Extensions) -> Option<IpAddr> {
    let socket = extensions.get::<SocketAddr>().map(SocketAddr::ip);
    let address = || extensions.get::<IpAddr>().copied();
    socket.or_else(address).or_else(|| by_axum(extensions)).or_else(|| by_tonic(extensions))
}

#[cfg(feature = "axum")]
fn by_axum(extensions: &Extensions) -> Option<IpAddr> {
    use ::axum::extract::{ConnectInfo, connect_info::MockConnectInfo};

    let connected = extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip());
    let mock = || extensions.get::<MockConnectInfo<SocketAddr>>();
    connected.or_else(|| mock().map(|MockConnectInfo(peer)| peer.ip()))
}

#[cfg(not(feature = "axum"))]
fn by_axum(_: &Extensions) -> Option<IpAddr> {
    None
}

#[cfg(feature = "tonic")]
fn by_tonic(extensions: &Extensions) -> Option<IpAddr> {
    use ::tonic::transport::server::TcpConnectInfo;

    extensions.get::<TcpConnectInfo>()?.remote_addr().map(|peer| peer.ip())
}

#[cfg(not(feature = "tonic"))]
fn by_tonic(_: &Extensions) -> Option<IpAddr> {
    None
}

/// Reports that the client of a request is unknown, and creates the rejection.
pub(crate) fn unknown_peer(limits: &Limits, limiter: &Arc<str>) -> Rejection {
    const WHY: &str = "the address of the peer is unknown; serve axum with \
                       `into_make_service_with_connect_info::<SocketAddr>()`, or insert a `SocketAddr` into the \
                       request's extensions";

    let (limiter, error) = (Arc::clone(limiter), StoreError::misconfigured(WHY));
    let rejection = Rejection::new(&limiter, Reason::NotConfigured).with_source(&error);
    limits.services().events.emit(&Event::Misconfigured { limiter, error });
    rejection
}
