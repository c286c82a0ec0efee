//! Opens a connection of the address's kind.
//!
//! The driver's own retries are off: it would run a script again whose reply was lost. What did
//! not run at all is retried by the store, which can tell the two apart.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionInfo, ProtocolVersion, PushInfo, PushKind,
    RedisError, RedisResult, Value, aio::MultiplexedConnection, io::tcp::TcpSettings,
};

use super::address::{Address, Topology};

/// How long setting up a connection may take; a caller's deadline is usually shorter, and the
/// attempt goes on without it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Certificates for TLS.
#[derive(Clone, Default)]
pub(crate) struct Certificates {
    /// Root certificates in PEM form, instead of the system's.
    #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "the builder takes none"))]
    pub(crate) root: Option<Vec<u8>>,
}

#[derive(Clone)]
pub(super) enum Connection {
    Node(MultiplexedConnection),
    #[cfg(feature = "cluster")]
    Cluster(redis::cluster_async::ClusterConnection),
}

impl Connection {
    pub(super) async fn query(&mut self, command: &Cmd) -> RedisResult<Value> {
        match self {
            Self::Node(node) => command.query_async(node).await,
            #[cfg(feature = "cluster")]
            Self::Cluster(cluster) => command.query_async(cluster).await,
        }
    }

    /// Makes the scripts known to the server, which only spares the first calls a round trip: a
    /// refusal is no error.
    pub(super) async fn load(&mut self, scripts: impl Iterator<Item = &'static str>) {
        let load = |script| redis::cmd("SCRIPT").arg("LOAD").arg(script).to_owned();
        match self {
            Self::Node(node) => {
                let mut pipeline = redis::pipe();
                for script in scripts {
                    pipeline.add_command(load(script)).ignore();
                }
                let _ = pipeline.query_async::<()>(node).await;
            }
            // One after the other: each goes to all nodes.
            #[cfg(feature = "cluster")]
            Self::Cluster(_) => {
                for script in scripts {
                    let _ = self.query(&load(script)).await;
                }
            }
        }
    }

    /// Runs a command on the node a slot is just moving to.
    #[cfg(not(feature = "cluster"))]
    pub(super) async fn query_moving(
        &mut self,
        _: &Cmd,
        moving: &RedisError,
    ) -> RedisResult<Value> {
        Err(moving.clone())
    }

    /// Runs a command on the node a slot is just moving to.
    #[cfg(feature = "cluster")]
    pub(super) async fn query_moving(
        &mut self,
        command: &Cmd,
        moving: &RedisError,
    ) -> RedisResult<Value> {
        use redis::cluster_routing::SingleNodeRoutingInfo;

        let Self::Cluster(cluster) = self else {
            return self.query(command).await;
        };
        let Some((address, _)) = moving.redirect_node() else {
            return Err(moving.clone());
        };
        let Some((host, port)) = address.rsplit_once(':') else {
            return Err(moving.clone());
        };
        let Ok(port) = port.parse() else {
            return Err(moving.clone());
        };
        let mut pipeline = redis::pipe();
        pipeline.cmd("ASKING").ignore().add_command(command.clone());
        let route = SingleNodeRoutingInfo::ByAddress { host: host.to_owned(), port };
        let replies = cluster.route_pipeline(pipeline, 0, 2, route).await?;
        match replies.into_iter().nth(1) {
            Some(Value::ServerError(error)) => Err(error.into()),
            Some(reply) => Ok(reply),
            None => Err(moving.clone()),
        }
    }
}

/// Opens a connection; `closed` is set when the server is heard to hang up.
pub(super) async fn connect(
    address: &Address,
    certificates: &Certificates,
    closed: &Arc<AtomicBool>,
) -> RedisResult<Connection> {
    // RESP3 tells of a disconnect at once; a user who may not say HELLO does without.
    match open(address, certificates, Some(closed)).await {
        Err(error) if speaks_only_resp2(&error) => open(address, certificates, None).await,
        result => result,
    }
}

fn speaks_only_resp2(error: &RedisError) -> bool {
    let text = error.to_string();
    matches!(error.kind(), redis::ErrorKind::RESP3NotSupported)
        || (text.to_ascii_lowercase().contains("hello")
            && (text.contains("NOPERM") || text.contains("unknown command")))
}

async fn open(
    address: &Address,
    certificates: &Certificates,
    closed: Option<&Arc<AtomicBool>>,
) -> RedisResult<Connection> {
    #[cfg(feature = "tls")]
    install_crypto_provider();
    match &address.topology {
        Topology::Standalone => {
            let node = &address.nodes[0];
            let redis = settings(node, closed.is_some());
            let node = node.clone().set_redis_settings(redis).set_tcp_settings(tcp());
            let client = client(node, certificates)?;
            client
                .get_multiplexed_async_connection_with_config(&config(closed))
                .await
                .map(Connection::Node)
        }
        #[cfg(feature = "cluster")]
        Topology::Cluster => cluster(address, certificates).await,
        #[cfg(feature = "sentinel")]
        Topology::Sentinel { master, user, password } => {
            let login = (user.as_deref(), password.as_deref());
            sentinel(address, master, login, certificates, closed).await
        }
        #[cfg(not(all(feature = "cluster", feature = "sentinel")))]
        _ => Err((redis::ErrorKind::InvalidClientConfig, "crate feature not enabled").into()),
    }
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

/// Calls go out behind others in flight, and a system that waits for the reply to those would hold
/// them back for a round trip.
fn tcp() -> TcpSettings {
    TcpSettings::default().set_nodelay(true)
}

fn settings(node: &ConnectionInfo, resp3: bool) -> redis::RedisConnectionInfo {
    let protocol = if resp3 { ProtocolVersion::RESP3 } else { ProtocolVersion::RESP2 };
    node.redis_settings()
        .clone()
        .set_protocol(protocol)
        .set_lib_name("ratelimit-runtime", env!("CARGO_PKG_VERSION"))
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
    let root_cert = certificates.root.clone()?;
    Some(redis::TlsCertificates { client_tls: None, root_cert: Some(root_cert) })
}

/// rustls comes without a crypto provider; an application's own choice is left alone.
#[cfg(feature = "tls")]
fn install_crypto_provider() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Somebody else may be first: then theirs is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

#[cfg(feature = "cluster")]
async fn cluster(address: &Address, certificates: &Certificates) -> RedisResult<Connection> {
    let builder = redis::cluster::ClusterClientBuilder::new(address.nodes.clone())
        .retries(0)
        .tcp_settings(tcp())
        .connection_timeout(CONNECT_TIMEOUT)
        .response_timeout(CONNECT_TIMEOUT);
    #[cfg(feature = "tls")]
    let builder = match tls_certificates(certificates) {
        Some(certificates) => builder.certs(certificates),
        None => builder,
    };
    #[cfg(not(feature = "tls"))]
    let _ = certificates;
    let client = builder.build()?;
    client.get_async_connection().await.map(Connection::Cluster)
}

#[cfg(feature = "sentinel")]
async fn sentinel(
    address: &Address,
    master: &str,
    (sentinel_user, sentinel_password): (Option<&str>, Option<&str>),
    certificates: &Certificates,
    closed: Option<&Arc<AtomicBool>>,
) -> RedisResult<Connection> {
    use redis::{
        TlsMode,
        sentinel::{SentinelClientBuilder, SentinelServerType},
    };

    let sentinels = address.nodes.iter().map(|node| node.addr().clone());
    let redis = address.nodes[0].redis_settings();
    let mut builder = SentinelClientBuilder::new(sentinels, master, SentinelServerType::Master)?
        .set_client_to_redis_db(redis.db())
        .set_client_to_redis_tcp_settings(tcp())
        .set_client_to_redis_protocol(settings(&address.nodes[0], closed.is_some()).protocol());
    if let Some(username) = redis.username() {
        builder = builder.set_client_to_redis_username(username);
    }
    if let Some(password) = redis.password() {
        builder = builder.set_client_to_redis_password(password);
    }
    if let Some(username) = sentinel_user {
        builder = builder.set_client_to_sentinel_username(username);
    }
    if let Some(password) = sentinel_password {
        builder = builder.set_client_to_sentinel_password(password);
    }
    if matches!(address.nodes[0].addr(), redis::ConnectionAddr::TcpTls { .. }) {
        builder = builder.set_client_to_redis_tls_mode(TlsMode::Secure);
    }
    #[cfg(feature = "tls")]
    if let Some(certificates) = tls_certificates(certificates) {
        builder = builder
            .set_client_to_redis_certificates(certificates.clone())
            .set_client_to_sentinel_certificates(certificates);
    }
    #[cfg(not(feature = "tls"))]
    let _ = certificates;
    builder.build()?.get_async_connection_with_config(&config(closed)).await.map(Connection::Node)
}
