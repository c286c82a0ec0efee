use redis::{Client, RedisResult, TlsCertificates};
use tests::{
    could_not_run,
    tls::{Authority, TlsServer},
};

fn ping(server: &TlsServer, trusted: &Authority) -> RedisResult<String> {
    ping_as(server, trusted, None)
}

fn ping_as(
    server: &TlsServer,
    trusted: &Authority,
    client_tls: Option<redis::ClientTlsConfig>,
) -> RedisResult<String> {
    // The client brings no cryptography of its own.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let root_cert = Some(trusted.certificate().as_bytes().to_vec());
    let client = Client::build_with_tls(server.url(), TlsCertificates { client_tls, root_cert })?;
    redis::cmd("PING").query(&mut client.get_connection()?)
}

fn problem(result: RedisResult<String>) -> String {
    result.expect_err("no trust").to_string()
}

#[test]
fn only_the_right_authority_is_trusted() {
    let server = match TlsServer::start() {
        Ok(server) => server,
        Err(reason) => return could_not_run(&reason),
    };
    assert_eq!(ping(&server, server.authority()), Ok("PONG".to_owned()));
    let untrusted = problem(ping(&server, &Authority::new()));
    assert!(untrusted.contains("UnknownIssuer"), "{untrusted}");
    assert!(server.ca_file().is_file());
    assert_eq!(server.server().cli::<String>(&["ping"]), "PONG");
}

#[test]
fn certificates_can_be_bad_in_every_way() {
    let authority = Authority::new();
    let expired = authority.certify_expired(&["localhost"]);
    let server = match TlsServer::builder().authority(authority).identity(expired).start() {
        Ok(server) => server,
        Err(reason) => return could_not_run(&reason),
    };
    assert!(problem(ping(&server, server.authority())).contains("expired"));

    let authority = Authority::new();
    let misnamed = authority.certify(&["elsewhere.example"]);
    let server = TlsServer::builder().authority(authority).identity(misnamed).start();
    let server = server.expect("TLS, as above");
    assert!(problem(ping(&server, server.authority())).contains("not valid for name"));
}

#[test]
fn clients_can_be_asked_for_certificates() {
    let server = match TlsServer::builder().clients_certified().start() {
        Ok(server) => server,
        Err(reason) => return could_not_run(&reason),
    };
    assert!(ping(&server, server.authority()).is_err());
    let identity = server.authority().certify(&["client.example"]);
    let client = redis::ClientTlsConfig {
        client_cert: identity.certificate.into_bytes(),
        client_key: identity.key.into_bytes(),
    };
    assert_eq!(ping_as(&server, server.authority(), Some(client)), Ok("PONG".to_owned()));
}
