//! A private server behind TLS, and the authority that certifies it.

use std::{
    fs,
    path::PathBuf,
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

use crate::{
    ports::Port, process::fresh_dir, redis_server::RedisServer, server_binary, server_version,
};

/// A certificate authority of this test alone.
#[derive(Debug)]
pub struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, both as PEM.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Authority {
    /// Makes an authority that no client trusts yet.
    ///
    /// # Panics
    ///
    /// Panics if no key can be made.
    pub fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        // Of two authorities with one name, a client would find the wrong one's signatures bad, not
        // the issuer unknown.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("authority {} of a test", COUNT.fetch_add(1, Ordering::Relaxed));
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.self_signed(&key).expect("a certificate").pem();
        Self { certificate, issuer: Issuer::new(params, key) }
    }

    /// The certificate clients have to trust, as PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Certifies these host names and addresses, for servers and clients.
    ///
    /// # Panics
    ///
    /// Panics if one of them is neither.
    pub fn certify(&self, names: &[&str]) -> Identity {
        self.sign(Self::params(names))
    }

    /// As [`certify`](Self::certify), but it was over years ago.
    ///
    /// # Panics
    ///
    /// As `certify`.
    pub fn certify_expired(&self, names: &[&str]) -> Identity {
        let mut params = Self::params(names);
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(2001, 1, 1);
        self.sign(params)
    }

    /// As [`certify`](Self::certify), but the certificate may sign others, as one that `openssl req -x509` makes.
    ///
    /// # Panics
    ///
    /// As `certify`.
    pub fn certify_authority(&self, names: &[&str]) -> Identity {
        let mut params = Self::params(names);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        self.sign(params)
    }

    fn params(names: &[&str]) -> CertificateParams {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("host names or addresses");
        params.distinguished_name.push(DnType::CommonName, "a test");
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params
    }

    fn sign(&self, params: CertificateParams) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate").pem();
        Identity { certificate, key: key.serialize_pem() }
    }
}

/// A server with a port for TLS beside its plain one; the plain one serves the support itself.
#[derive(Debug)]
pub struct TlsServer {
    server: RedisServer,
    port: Port,
    dir: PathBuf,
    authority: Authority,
}

/// Settings of a [`TlsServer`] to be started.
#[derive(Debug, Default)]
#[must_use]
pub struct Builder {
    authority: Authority,
    identity: Option<Identity>,
    clients_certified: bool,
}

impl TlsServer {
    /// Starts a server with a certificate for `localhost` and `127.0.0.1`, open to every client.
    ///
    /// # Errors
    ///
    /// The `redis-server` binary was built without TLS; hand the text to
    /// [`could_not_run`](crate::could_not_run).
    pub fn start() -> Result<Self, String> {
        Self::builder().start()
    }

    /// A server with another certificate, or one that wants certificates of its clients.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// `rediss://localhost:<port>/0`.
    pub fn url(&self) -> String {
        format!("rediss://localhost:{}/0", self.port())
    }

    /// The port that speaks TLS.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// A file with the authority's certificate.
    pub fn ca_file(&self) -> PathBuf {
        self.dir.join("ca.pem")
    }

    /// Returns the authority that certified the server and can certify clients.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The server, with its plain port.
    pub fn server(&self) -> &RedisServer {
        &self.server
    }

    /// Restarts the server with a certificate of another authority, whose own is in [`ca_file`](Self::ca_file) then.
    ///
    /// # Panics
    ///
    /// Panics if the server does not start.
    pub fn rotate(&mut self) {
        self.authority = Authority::new();
        let identity = self.authority.certify(&["localhost", "127.0.0.1"]);
        for (name, pem) in [
            ("ca.pem", self.authority.certificate()),
            ("server.pem", &identity.certificate),
            ("server.key", &identity.key),
        ] {
            fs::write(self.dir.join(name), pem).expect("a directory of our own");
        }
        self.server.restart();
    }
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

impl Builder {
    /// Gives the server another certificate than one for `localhost`, such as an expired one, or
    /// one that another authority signed.
    pub fn identity(mut self, identity: Identity) -> Self {
        self.identity = Some(identity);
        self
    }

    /// Uses this authority.
    pub fn authority(mut self, authority: Authority) -> Self {
        self.authority = authority;
        self
    }

    /// Admits only clients with a certificate of the same authority.
    pub fn clients_certified(mut self) -> Self {
        self.clients_certified = true;
        self
    }

    /// Starts the server.
    ///
    /// # Errors
    ///
    /// The `redis-server` binary was built without TLS.
    ///
    /// # Panics
    ///
    /// Panics, with the server's log, if it does not start for another reason.
    pub fn start(self) -> Result<TlsServer, String> {
        support()?;
        let (port, dir) = (Port::reserve(), fresh_dir("tls"));
        let Self { authority, identity, clients_certified } = self;
        let identity = identity.unwrap_or_else(|| authority.certify(&["localhost", "127.0.0.1"]));
        let file = |name: &str, pem: &str| {
            let file = dir.join(name);
            fs::write(&file, pem).expect("a directory of our own");
            format!("\"{}\"", file.display())
        };
        let server = RedisServer::builder()
            .config("tls-port", &port.number().to_string())
            .config("tls-ca-cert-file", &file("ca.pem", authority.certificate()))
            .config("tls-cert-file", &file("server.pem", &identity.certificate))
            .config("tls-key-file", &file("server.key", &identity.key))
            .config("tls-auth-clients", if clients_certified { "yes" } else { "no" })
            .start();
        Ok(TlsServer { server, port, dir, authority })
    }
}

/// Whether the binary can do TLS, found out by trying.
fn support() -> Result<(), String> {
    static SUPPORT: OnceLock<bool> = OnceLock::new();
    let supported = *SUPPORT.get_or_init(|| {
        let attempt = RedisServer::builder().config("tls-session-caching", "no").try_start();
        match attempt {
            Ok(_) => true,
            Err(problem) if problem.contains("tls-session-caching") => false,
            Err(problem) => panic!("cannot start a server: {problem}"),
        }
    });
    let (major, minor, patch) = server_version();
    let binary = server_binary().display();
    supported
        .then_some(())
        .ok_or_else(|| format!("{binary} {major}.{minor}.{patch} was built without TLS"))
}
