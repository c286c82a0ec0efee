//! Opens a connection to one server.
//!
//! The driver does not retry: a script whose reply was lost would run twice. The store retries calls
//! that certainly did not run.

#[cfg(feature = "sentinel")]
mod sentinel;

#[cfg(feature = "tls")]
use std::{fs, sync::PoisonError};
use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, ProtocolVersion, PushInfo,
    PushKind, RedisError, RedisResult, aio::MultiplexedConnection, io::tcp::TcpSettings,
};
use tokio::{io::AsyncReadExt, net::TcpStream};

use super::address::Address;
#[cfg(feature = "sentinel")]
use super::address::Topology;
use super::fault::is_unknown_command;

/// The longest connection setup. A caller's deadline is usually shorter, and the attempt continues without the caller.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How the error of a master that was not reached begins; its address, as the sentinels announce it, follows.
pub(super) const UNREACHED_MASTER: &str = "master at ";

/// The longest wait for the error of a server that closes new connections.
const FAREWELL_TIMEOUT: Duration = Duration::from_millis(200);
/// The most bytes of such an error.
const MOST_READ: u64 = 4096;

/// Certificates for TLS.
#[derive(Default)]
pub(crate) struct Certificates {
    /// Root certificates in PEM form, instead of the system's.
    #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "the builder takes none"))]
    pub(crate) root: Option<Root>,
}

/// Root certificates in PEM form, and the file in which they may change.
#[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "the builder takes none"))]
pub(crate) struct Root {
    pub(crate) file: Option<PathBuf>,
    pub(crate) pem: Mutex<Vec<u8>>,
}

#[cfg(feature = "tls")]
impl Root {
    /// Returns the certificates for a new connection: those of the file, or the last ones if it cannot be used now.
    fn read(&self) -> Vec<u8> {
        let mut last = self.pem.lock().unwrap_or_else(PoisonError::into_inner);
        let read = self.file.as_ref().and_then(|file| fs::read(file).ok());
        if let Some(pem) = read.filter(|pem| check_authorities(pem).is_ok()) {
            *last = pem;
        }
        last.clone()
    }
}

/// Checks certificates as the driver reads them: it would report an invalid one as a failed connection, and a file
/// without any as an unknown issuer.
#[cfg(feature = "tls")]
pub(crate) fn check_authorities(pem: &[u8]) -> Result<(), String> {
    use rustls::{
        RootCertStore,
        pki_types::{CertificateDer, pem::PemObject},
    };

    let mut authorities = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| error.to_string())?;
        authorities.add(certificate).map_err(|error| error.to_string())?;
    }
    if authorities.is_empty() { Err("it has no certificate".to_owned()) } else { Ok(()) }
}

/// Loads the scripts into a server. This only saves the first calls a round trip, so errors are ignored.
pub(super) async fn load(
    mut connection: MultiplexedConnection,
    scripts: impl Iterator<Item = &'static str>,
) {
    let mut pipeline = redis::pipe();
    for script in scripts {
        pipeline.cmd("SCRIPT").arg("LOAD").arg(script).ignore();
    }
    let _ = pipeline.query_async::<()>(&mut connection).await;
}

/// Opens a connection to a node of a cluster, or to the server that the address leads to. Sets `closed` when
/// the server disconnects.
pub(super) async fn connect(
    address: &Address,
    node: Option<&ConnectionInfo>,
    certificates: &Certificates,
    closed: &Arc<AtomicBool>,
) -> RedisResult<MultiplexedConnection> {
    #[cfg(feature = "redis-connect")]
    if let Some(connector) = &address.connector {
        return connector.connect(CONNECT_TIMEOUT).await;
    }
    // RESP3 reports a disconnect at once. Users without permission for HELLO get RESP2.
    let closed = Some(closed).filter(|_| !address.only_resp2);
    match open(address, node, certificates, closed).await {
        Err(error) if speaks_only_resp2(&error) => open(address, node, certificates, None).await,
        Err(error) if error.is_connection_dropped() && !error.is_connection_refusal() => {
            Err(farewell(node.or(address.nodes.first())).await.unwrap_or(error))
        }
        result => result,
    }
}

/// Returns the error with which a server closes each new connection, before any command. The driver reports the
/// closed connection instead.
async fn farewell(node: Option<&ConnectionInfo>) -> Option<RedisError> {
    let ConnectionAddr::Tcp(host, port) = node?.addr() else { return None };
    let mut text = Vec::new();
    let read = async {
        let server = TcpStream::connect((host.as_str(), *port)).await?;
        server.take(MOST_READ).read_to_end(&mut text).await
    };
    tokio::time::timeout(FAREWELL_TIMEOUT, read).await.ok()?.ok()?;
    redis::parse_redis_value(&text).ok()?.extract_error().err()
}

fn speaks_only_resp2(error: &RedisError) -> bool {
    let text = error.to_string();
    matches!(error.kind(), redis::ErrorKind::RESP3NotSupported)
        || (text.to_ascii_lowercase().contains("hello")
            && (text.contains("NOPERM") || is_unknown_command(&text)))
}

async fn open(
    address: &Address,
    node: Option<&ConnectionInfo>,
    certificates: &Certificates,
    closed: Option<&Arc<AtomicBool>>,
) -> RedisResult<MultiplexedConnection> {
    #[cfg(feature = "tls")]
    install_crypto_provider();
    #[cfg(feature = "sentinel")]
    if let Topology::Sentinel { master, user, password } = &address.topology {
        let login = (user.as_deref(), password.as_deref());
        return sentinel::connect(address, master, login, certificates, closed).await;
    }
    let node = node.unwrap_or(&address.nodes[0]);
    let redis = node
        .redis_settings()
        .clone()
        .set_protocol(protocol(closed))
        .set_lib_name("ratelimit-runtime", env!("CARGO_PKG_VERSION"));
    let node = node.clone().set_redis_settings(redis).set_tcp_settings(tcp());
    let client = client(node, certificates)?;
    client.get_multiplexed_async_connection_with_config(&config(closed)).await
}

fn config(closed: Option<&Arc<AtomicBool>>) -> AsyncConnectionConfig {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_TIMEOUT))
        // Every decision has its own deadline around the call.
        .set_response_timeout(None);
    let Some(closed) = closed.map(Arc::clone) else {
        return config;
    };
    config.set_push_sender(move |push: PushInfo| {
        if push.kind == PushKind::Disconnection {
            closed.store(true, Ordering::Release);
        }
        Ok::<(), ()>(())
    })
}

/// Calls are sent while others are in flight. Without this, the system would hold them back for a round trip.
fn tcp() -> TcpSettings {
    TcpSettings::default().set_nodelay(true)
}

fn protocol(closed: Option<&Arc<AtomicBool>>) -> ProtocolVersion {
    if closed.is_some() { ProtocolVersion::RESP3 } else { ProtocolVersion::RESP2 }
}

#[cfg(feature = "tls")]
fn client(node: ConnectionInfo, certificates: &Certificates) -> RedisResult<Client> {
    match tls_certificates(certificates) {
        Some(certificates) => Client::build_with_tls(node, certificates),
        None => Client::open(node),
    }
}

#[cfg(not(feature = "tls"))]
fn client(node: ConnectionInfo, _: &Certificates) -> RedisResult<Client> {
    Client::open(node)
}

#[cfg(feature = "tls")]
fn tls_certificates(certificates: &Certificates) -> Option<redis::TlsCertificates> {
    let root_cert = certificates.root.as_ref()?.read();
    Some(redis::TlsCertificates { client_tls: None, root_cert: Some(root_cert) })
}

/// rustls has no default crypto provider; an application's own choice is kept.
#[cfg(feature = "tls")]
fn install_crypto_provider() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // If another provider was installed meanwhile, that one is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}
