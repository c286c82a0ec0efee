//! Every store keeps every promise of the suite, on every kind of connection.
#![allow(clippy::disallowed_methods, reason = "real servers live in real time")]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use ratelimit_runtime::{
    __private::store::{Clock, MemoryStore, RedisStore},
    Limits, Quota, Reason,
    test_util::ManualClock,
};
use tests::{
    could_not_run, eventually,
    redis_cluster::RedisCluster,
    redis_sentinel::RedisSentinel,
    redis_server::RedisServer,
    tls::{Authority, Identity, TlsServer},
};
use tokio::{io::AsyncReadExt, net::TcpListener};

#[path = "store/suite.rs"]
mod suite;

const DEADLINE: Duration = Duration::from_secs(2);
const SECOND: Duration = Duration::from_secs(1);

async fn conforms(url: &str) {
    run_suite(&RedisStore::open(url, DEADLINE).unwrap()).await;
}

async fn run_suite(store: &RedisStore) {
    // A prefix with a hash tag puts all limiters on one node.
    tokio::join!(
        suite::run(store, "suite:", &suite::Time::Real),
        suite::run(store, "{tag}:", &suite::Time::Real),
    );
}

#[tokio::test]
async fn memory_conforms() {
    let time = ManualClock::new();
    let store = MemoryStore::new(time.clone().into());
    suite::run(&store, "suite:", &suite::Time::Manual(time)).await;
}

#[tokio::test(start_paused = true)]
async fn memory_conforms_on_paused_time() {
    let store = MemoryStore::new(Clock::system());
    suite::run(&store, "suite:", &suite::Time::Real).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standalone_server_conforms() {
    let server = RedisServer::start();
    conforms(&server.url()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_conforms() {
    let cluster = RedisCluster::start();
    conforms(&format!("redis-cluster://{}", cluster.addresses().join(","))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sentinel_conforms() {
    let sentinel = RedisSentinel::start();
    conforms(&sentinel.url()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_conforms() {
    let server = match TlsServer::start() {
        Ok(server) => server,
        Err(reason) => return could_not_run(&reason),
    };
    let ca = std::fs::read(server.ca_file()).unwrap();
    run_suite(&RedisStore::open_trusting(&server.url(), ca, DEADLINE).unwrap()).await;
    let builder = Limits::builder().redis(server.url()).tls_ca(server.ca_file());
    let limits = builder.deadline(DEADLINE).build().await;
    let limiter = limits.unwrap().limiter("tls", Quota::new(1, Duration::from_secs(60)).unwrap());
    assert!(!limiter.try_acquire(1).await.unwrap().is_degraded());
    assert!(limiter.try_acquire(1).await.is_err());
}

/// Only TLS 1.3 was compiled in, unless another dependency of the program needed more.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_tls_1_2_alone_decides() {
    let server = match TlsServer::start() {
        Ok(server) => server,
        Err(reason) => return could_not_run(&reason),
    };
    let _: String = server.server().cli(&["CONFIG", "SET", "tls-protocols", "TLSv1.2"]);
    let builder = Limits::builder().redis(server.url()).no_limits_file().tls_ca(server.ca_file());
    let limits = builder.deadline(DEADLINE).build().await.unwrap();
    let limiter = limits.limiter("tls", Quota::per_minute(1));
    assert!(!limiter.try_acquire(1).await.unwrap().is_degraded());
}

/// The file was read at startup alone: after the change of an authority, calls were rejected until the program restarted.
#[tokio::test(flavor = "multi_thread")]
async fn an_authority_that_changes_is_that_of_the_next_connection() {
    let mut server = match TlsServer::start() {
        Ok(server) => server,
        Err(reason) => return could_not_run(&reason),
    };
    let trusted = std::env::temp_dir().join(format!("changing-{}.pem", std::process::id()));
    std::fs::copy(server.ca_file(), &trusted).unwrap();
    let builder = Limits::builder().redis(server.url()).no_limits_file().tls_ca(&trusted);
    let limits = builder.deadline(DEADLINE).build().await.unwrap();
    assert!(limits.health().is_ok());

    server.rotate();
    let limiter = limits.limiter("tls", Quota::per_second(1000));
    let rejection = limiter.try_acquire(1).await.unwrap_err();
    assert_eq!(rejection.reason(), Reason::StoreMisconfigured, "{rejection}");
    std::fs::copy(server.ca_file(), &trusted).unwrap();
    eventually("the new one is trusted", 5 * SECOND, || limits.health().is_ok());
    assert!(!limiter.try_acquire(1).await.unwrap().is_degraded());

    // A file that cannot be used, as one that is being written, changes nothing.
    std::fs::write(&trusted, "").unwrap();
    server.server().restart();
    let _ = limiter.try_acquire(1).await;
    eventually("the last one is trusted", 5 * SECOND, || limits.health().is_ok());
    std::fs::remove_file(&trusted).unwrap();
    server.server().restart();
    let _ = limiter.try_acquire(1).await;
    eventually("the last one is trusted", 5 * SECOND, || limits.health().is_ok());
}

/// The texts of rustls alone do not say what to write.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_is_refused_at_startup_comes_with_what_to_write() {
    let other = match TlsServer::start() {
        Ok(other) => other,
        Err(reason) => return could_not_run(&reason),
    };
    let of = |certify: fn(&Authority, &[&str]) -> Identity, name| {
        let authority = Authority::new();
        let identity = certify(&authority, &[name]);
        TlsServer::builder().authority(authority).identity(identity).start().unwrap()
    };
    let misnamed = of(Authority::certify, "redis.example");
    let authority = Authority::new();
    let identity = authority.certify(&[]);
    let nameless = TlsServer::builder().authority(authority).identity(identity).start().unwrap();
    let expired = of(Authority::certify_expired, "localhost");
    let of_authority = of(Authority::certify_authority, "localhost");
    let strict = TlsServer::builder().clients_certified().start().unwrap();
    for (server, trusted, hint) in [
        (&misnamed, &other, "; set `tls_ca` to a file with the certificate"),
        (&misnamed, &misnamed, "; write a host that the certificate names in the store's address"),
        (&nameless, &nameless, "; let the server use a certificate of version 3 that has its host"),
        (&expired, &expired, "; renew the server's certificate"),
        (&of_authority, &of_authority, "; let the server use a certificate without `CA:TRUE`"),
        (&strict, &strict, "; open the connections in `redis_connect`"),
    ] {
        let builder = Limits::builder().redis(server.url()).no_limits_file();
        let error = builder.tls_ca(trusted.ca_file()).build().await.unwrap_err().to_string();
        assert!(error.contains(hint), "{hint}: {error}");
    }
    // The address can name the right host: sentinels and nodes announce addresses of their own.
    for (scheme, query, hint) in [
        ("rediss-sentinel", "?master=main", "`announce-hostnames yes` there"),
        ("rediss-cluster", "", "`cluster-preferred-endpoint-type hostname` there"),
    ] {
        let url = misnamed.url().replacen("rediss", scheme, 1) + query;
        let builder = Limits::builder().redis(url).no_limits_file().tls_ca(misnamed.ca_file());
        let error = builder.build().await.unwrap_err().to_string();
        assert!(error.ends_with(hint), "{hint}: {error}");
    }
}

/// A proxy that reads and closes, as one with TLS does. Unlike a server, it does not reset the connection.
async fn proxy_with_tls() -> String {
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", proxy.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut client, _)) = proxy.accept().await {
            tokio::spawn(async move { client.read(&mut [0; 1024]).await });
        }
    });
    url
}

/// The event was a connection that is reset, a broken pipe, or a server that does not reply.
#[tokio::test(flavor = "multi_thread")]
async fn an_address_without_the_tls_of_the_server_shows_with_what_to_write() {
    let server = match TlsServer::start() {
        Ok(server) => server,
        Err(reason) => return could_not_run(&reason),
    };
    let without = server.url().replacen("rediss", "redis", 1);
    let with = server.server().url().replacen("redis", "rediss", 1);
    for (url, advice) in [
        (without, "; if the server uses TLS, write `rediss://`"),
        (proxy_with_tls().await, "; if the server uses TLS, write `rediss://`"),
        (with, "; if the server does not use TLS, write `redis://`"),
    ] {
        let down = Arc::<Mutex<Vec<String>>>::default();
        let seen = Arc::clone(&down);
        let builder = Limits::builder().redis(url).no_limits_file().on_event(move |event| {
            seen.lock().unwrap().push(event.to_string());
        });
        builder.build().await.unwrap();
        let first = down.lock().unwrap()[0].clone();
        assert!(first.ends_with(advice), "{first}");
    }
}

/// The first two were an `UnknownIssuer` of the server, and the last one a store that is never available.
#[tokio::test]
async fn a_file_without_a_valid_certificate_of_an_authority_is_refused_at_startup() {
    let identity = Authority::new().certify(&["localhost"]);
    let cut = &identity.certificate[..identity.certificate.len() / 2];
    let broken = format!("{}\n-----END CERTIFICATE-----\n", cut.trim_end());
    let file = std::env::temp_dir().join(format!("no-authority-{}.pem", std::process::id()));
    for (pem, why) in
        [("", "it has no certificate"), (&identity.key, "it has no certificate"), (&broken, "")]
    {
        std::fs::write(&file, pem).unwrap();
        let builder = Limits::builder().redis("rediss://127.0.0.1:1").no_limits_file();
        let error = builder.tls_ca(&file).build().await.unwrap_err().to_string();
        let named = format!("certificates `{}` cannot be used: {why}", file.display());
        assert!(error.contains(&named), "{error}");
    }
    std::fs::remove_file(&file).unwrap();
}

/// The driver said `Certificates cannot be set for Tcp connection` of sentinels, and of a cluster to write `rediss://`.
#[tokio::test]
async fn certificates_for_connections_without_tls_are_refused_at_startup() {
    let file = std::env::temp_dir().join(format!("authority-{}.pem", std::process::id()));
    std::fs::write(&file, Authority::new().certificate()).unwrap();
    let refused = |scheme, advice| format!("`tls_ca` has no effect with `{scheme}`; {advice}");
    for (address, scheme, advice) in [
        ("redis://127.0.0.1:1/", "redis://", "write `rediss://`, or remove `tls_ca`"),
        (
            "redis-cluster://127.0.0.1:1",
            "redis-cluster://",
            "write `rediss-cluster://`, or remove `tls_ca`",
        ),
        (
            "redis-sentinel://127.0.0.1:1/0?master=main",
            "redis-sentinel://",
            "write `rediss-sentinel://`, or remove `tls_ca`",
        ),
        ("unix:///nowhere/redis.sock", "unix://", "remove `tls_ca`"),
        ("redis+unix:///nowhere/redis.sock", "redis+unix://", "remove `tls_ca`"),
    ] {
        let builder = Limits::builder().redis(address).no_limits_file().tls_ca(&file);
        assert_eq!(builder.build().await.unwrap_err().to_string(), refused(scheme, advice));
        let yaml = format!("tls_ca: {}\nstore: \"{address}\"\n", file.display());
        let error = Limits::builder().limits_yaml(yaml).build().await.unwrap_err().to_string();
        assert!(error.ends_with(&refused(scheme, advice)) && error.contains(":1:"), "{error}");
    }
    std::fs::remove_file(&file).unwrap();
}
