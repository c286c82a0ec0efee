//! Connects to the master that sentinels name.

use std::{
    io,
    sync::{Arc, atomic::AtomicBool},
};

use redis::{
    Client, ConnectionAddr, ConnectionInfo, RedisError, RedisResult, TlsMode,
    aio::MultiplexedConnection,
    sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType},
};
use tokio::task::JoinSet;

use super::{Address, Certificates, UNREACHED_MASTER, config, protocol, tcp};

/// Opens a connection to the master that the first of the sentinels to reply names. The driver alone takes their
/// replies in order, so a sentinel that hangs would delay those behind it.
pub(super) async fn connect(
    address: &Address,
    master: &str,
    login: (Option<&str>, Option<&str>),
    certificates: &Certificates,
    closed: Option<&Arc<AtomicBool>>,
) -> RedisResult<MultiplexedConnection> {
    let mut lookups = JoinSet::new();
    for sentinel in &address.nodes {
        let client = client(sentinel, master, login, certificates, closed)?;
        lookups.spawn(look_up(client, sentinel.addr().clone(), master.to_owned()));
    }
    let mut error = RedisError::from(io::Error::other("no sentinel replied"));
    while let Some(found) = lookups.join_next().await {
        match found {
            Ok(Ok(client)) => {
                let config = config(closed);
                let connection = client.get_multiplexed_async_connection_with_config(&config).await;
                let at = || format!("{UNREACHED_MASTER}{}", client.get_connection_info().addr());
                return connection.map_err(|error| named(error, at));
            }
            // A reply says more than the failure to get one, and the master's failure more than that of a sentinel.
            Ok(Err(why)) if error.is_io_error() && !(why.is_io_error() && is_of_master(&error)) => {
                error = why;
            }
            _ => {}
        }
    }
    Err(error)
}

/// Asks one sentinel for the master. The driver connects to both, and its error does not say which one failed.
async fn look_up(
    mut client: SentinelClient,
    sentinel: ConnectionAddr,
    master: String,
) -> RedisResult<Client> {
    match client.async_get_client().await {
        Err(error) if error.is_io_error() => {
            let at = match announced(&mut client, &master).await {
                Ok((host, port)) => format!("{UNREACHED_MASTER}{host}:{port}"),
                Err(_) => format!("sentinel at {sentinel}"),
            };
            Err(named(error, || at))
        }
        found => found,
    }
}

/// Returns the address of the master, as a sentinel announces it.
async fn announced(client: &mut SentinelClient, master: &str) -> RedisResult<(String, u16)> {
    let sentinel = client.async_get_sentinel_client().await?;
    let mut connection = sentinel.get_multiplexed_async_connection().await?;
    let mut question = redis::cmd("SENTINEL");
    question.arg("GET-MASTER-ADDR-BY-NAME").arg(master).query_async(&mut connection).await
}

/// Adds to an error who was not reached, unless a server replied.
fn named(error: RedisError, who: impl FnOnce() -> String) -> RedisError {
    if !error.is_io_error() {
        return error;
    }
    let kind = if error.is_connection_refusal() {
        io::ErrorKind::ConnectionRefused
    } else if error.is_timeout() {
        io::ErrorKind::TimedOut
    } else if error.is_connection_dropped() {
        io::ErrorKind::ConnectionReset
    } else {
        io::ErrorKind::Other
    };
    io::Error::new(kind, format!("{}: {error}", who())).into()
}

fn is_of_master(error: &RedisError) -> bool {
    error.to_string().starts_with(UNREACHED_MASTER)
}

/// Returns a client that asks one sentinel for the master.
fn client(
    sentinel: &ConnectionInfo,
    master: &str,
    (sentinel_user, sentinel_password): (Option<&str>, Option<&str>),
    certificates: &Certificates,
    closed: Option<&Arc<AtomicBool>>,
) -> RedisResult<SentinelClient> {
    let (redis, addr) = (sentinel.redis_settings(), sentinel.addr().clone());
    let by_tls = matches!(addr, ConnectionAddr::TcpTls { .. });
    let mut builder = SentinelClientBuilder::new([addr], master, SentinelServerType::Master)?
        .set_client_to_redis_db(redis.db())
        .set_client_to_redis_tcp_settings(tcp())
        .set_client_to_redis_protocol(protocol(closed));
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
    if by_tls {
        builder = builder.set_client_to_redis_tls_mode(TlsMode::Secure);
    }
    #[cfg(feature = "tls")]
    if let Some(certificates) = super::tls_certificates(certificates) {
        builder = builder
            .set_client_to_redis_certificates(certificates.clone())
            .set_client_to_sentinel_certificates(certificates);
    }
    #[cfg(not(feature = "tls"))]
    let _ = certificates;
    builder.build()
}
