//! Classifies driver errors.

use redis::{ErrorKind, RedisError, Value};

use super::{
    address::{Address, Topology},
    reply::foreign,
    shown::Shown,
};
use crate::StoreError;

/// Whether a failed command may be resent.
#[derive(Debug)]
pub(super) enum Fault {
    /// The server did nothing, for this reason; another attempt may succeed.
    NotDone(NotDone),
    /// It may have been executed, or cannot be executed just now.
    Transient(StoreError),
    /// It cannot be executed until the configuration is fixed.
    Permanent(StoreError),
}

#[derive(Debug)]
pub(super) enum NotDone {
    /// The script cache was emptied.
    NoScript,
    /// The connection leads to a server that is no longer a master.
    ReadOnly(StoreError),
    /// Another node of the cluster owns the slot, or is taking it over now.
    Moving(StoreError),
    /// Another attempt in a moment may succeed.
    NotYet(StoreError),
}

/// Texts that mark errors of the setup. Codes alone are not enough, because Redis before 7 wraps the
/// errors of a script.
const PERMANENT: [&str; 12] = [
    "WRONGTYPE",
    "NOPERM",
    // The driver leaves out the code if that command is `SELECT`.
    "no permissions to run",
    "NOAUTH",
    "WRONGPASS",
    "CROSSSLOT",
    "can't run this command",
    "invalid username-password",
    "cluster support disabled",
    "DB index is out of range",
    "SELECT is not allowed in cluster mode",
    PROTECTED,
];

/// The text of a server that accepts connections only from its own host. Pages of advice follow.
const PROTECTED: &str = "DENIED Redis is running in protected mode";

/// The text for a write to a replica.
const READ_ONLY: &str = "READONLY You can't write";

/// Texts for a command that the server does not know: to a client, to a script, and to one of Valkey.
const UNKNOWN: [&str; 3] = ["unknown command", "Unknown Redis command", "Unknown command"];

/// Texts for certificates of the system that cannot be read. The driver reads them even if it is given others, and
/// reports such errors as plain I/O errors.
const UNREADABLE: [&str; 3] =
    ["failed to read PEM from file", "opening directory", "failed to open file"];

/// The text of rustls for a certificate of another host.
const MISNAMED: &str = "not valid for name";

/// Texts of rustls for invalid certificates; the driver reports them as plain I/O errors.
const CERTIFICATE: [&str; 5] = [
    "invalid peer certificate",
    "CertificateRequired",
    "UnknownCA",
    "BadCertificate",
    "CryptoProvider",
];

pub(super) fn classify(error: &RedisError) -> Fault {
    let text = describe(error);
    let misconfigured =
        || Fault::Permanent(caused_by(StoreError::misconfigured(text.as_str()), error));
    let unavailable = || caused_by(StoreError::unavailable(text.as_str()), error);
    if matches!(error.kind(), ErrorKind::AuthenticationFailed | ErrorKind::InvalidClientConfig) {
        return misconfigured();
    }
    // A script that raises an error again, or any before Redis 7, changes the code.
    if text.contains(READ_ONLY) {
        return Fault::NotDone(NotDone::ReadOnly(unavailable()));
    }
    match error.code().unwrap_or_default() {
        "NOSCRIPT" => return Fault::NotDone(NotDone::NoScript),
        "ASK" | "MOVED" => return Fault::NotDone(NotDone::Moving(unavailable())),
        "TRYAGAIN" | "LOADING" | "CLUSTERDOWN" | "MASTERDOWN" | "BUSY" => {
            return Fault::NotDone(NotDone::NotYet(unavailable()));
        }
        _ => {}
    }
    let of_certificate = CERTIFICATE.iter().chain(&UNREADABLE).any(|mark| text.contains(mark));
    if (!error.is_io_error() && is_permanent(&text)) || of_certificate {
        return misconfigured();
    }
    Fault::Transient(unavailable())
}

/// Adds the driver's error, unless its text has what [`describe`] leaves out.
fn caused_by(known: StoreError, error: &RedisError) -> StoreError {
    let text = error.to_string();
    let is_cut = is_unknown_command(&text) || Shown(&text).to_string() != text;
    if is_cut { known } else { known.caused_by(error.clone()) }
}

fn is_permanent(text: &str) -> bool {
    is_unknown_command(text) || PERMANENT.iter().any(|mark| text.contains(mark))
}

/// Returns the error of a script that tried each command, if some failed: of those that never succeed, if there are any.
pub(super) fn refused(complaints: &[String]) -> Option<StoreError> {
    let complaints: Vec<_> = complaints.iter().map(|text| Shown(text).to_string()).collect();
    let lacking: Vec<_> =
        complaints.iter().map(String::as_str).filter(|text| is_permanent(text)).collect();
    if lacking.is_empty() {
        // A full server, or a replica.
        let first = complaints.first()?;
        return Some(StoreError::unavailable(with_hint(&format!("redis: {first}"))));
    }
    let (unknown, forbidden): (Vec<_>, Vec<_>) =
        lacking.into_iter().partition(|text| is_unknown_command(text));
    Some(StoreError::misconfigured(if forbidden.is_empty() {
        with_hint(&format!("redis: {}", unknown.join("; ")))
    } else {
        format!(
            "redis: the Redis user lacks permissions; grant these commands: {}",
            forbidden.join("; ")
        )
    }))
}

/// Returns whether a text is the error of a command that the server does not know.
pub(super) fn is_unknown_command(text: &str) -> bool {
    UNKNOWN.iter().any(|mark| text.contains(mark))
}

/// Returns whether calls may fail because the server does not know their command. Its error repeats their arguments,
/// and the driver cannot read those that are binary.
pub(super) fn may_lack_scripts(error: &StoreError) -> bool {
    let text = error.to_string();
    text.contains("invalid utf-8") || is_unknown_command(&text)
}

/// Converts an error for a caller that does not retry.
pub(super) fn store_error(error: &RedisError) -> StoreError {
    match classify(error) {
        Fault::Permanent(error) | Fault::Transient(error) => error,
        Fault::NotDone(_) => caused_by(StoreError::unavailable(describe(error)), error),
    }
}

/// Converts the error of a new connection. A refused login may be the one at the sentinels; sentinels and clusters
/// announce addresses that the store's address does not have. The error of a single server names it.
pub(super) fn connection_error(error: &RedisError, address: &Address) -> StoreError {
    let known = store_error(error);
    let text = known.to_string();
    let has = |mark| text.contains(mark);
    let advice = match &address.topology {
        Topology::Standalone if error.is_io_error() => {
            let Some(server) = address.nodes.first() else { return known };
            let of_server = format!("redis at {}: ", server.addr());
            return known.reworded(text.replacen("redis: ", &of_server, 1));
        }
        Topology::Sentinel { .. } if has("NOAUTH") => {
            "if a sentinel requires a login, add `&sentinel_password=`"
        }
        Topology::Sentinel { .. } if has("WRONGPASS") || has("Password authentication failed") => {
            "if a sentinel refuses the login, correct `sentinel_password`"
        }
        Topology::Sentinel { .. } if has(MISNAMED) => {
            "if the sentinels announce another one, set `resolve-hostnames yes` and `announce-hostnames yes` there"
        }
        Topology::Cluster if has(MISNAMED) => {
            "if the nodes announce another one, set `cluster-announce-hostname` and \
             `cluster-preferred-endpoint-type hostname` there"
        }
        _ => return known,
    };
    caused_by(StoreError::misconfigured(format!("{text}, or {advice}")), error)
}

/// Returns why a script could not decide a group, if that is its reply. The error concerns that group alone.
pub(super) fn failed(value: &Value) -> Option<StoreError> {
    let Value::Array(items) = value else { return None };
    let [Value::Int(7), Value::BulkString(why)] = &items[..] else { return None };
    let of_other_type = of_other_type(&Shown(&String::from_utf8_lossy(why)).to_string());
    Some(of_other_type.map_or_else(foreign, StoreError::misconfigured))
}

/// Returns whether the server rejected a call because of its keys, before executing any of it. The error of a
/// rejection in the middle of a script says so.
pub(super) fn refuses_keys(error: &StoreError) -> bool {
    let text = error.to_string();
    text.contains("NOPERM") && text.contains("access") && !text.contains("script")
}

/// Returns whether the nodes of a cluster reject calls because of another node.
pub(super) fn concerns_cluster(error: &StoreError) -> bool {
    error.to_string().contains("CLUSTERDOWN")
}

/// Returns whether a node rejects a call because its slot moves, which concerns no other slot.
pub(super) fn concerns_slot(error: &StoreError) -> bool {
    error.to_string().contains("TRYAGAIN")
}

/// Returns whether a key holds data of another type.
pub(super) fn is_of_other_type(error: &StoreError) -> bool {
    error.to_string().contains("WRONGTYPE")
}

/// Formats the error in one line, with a hint if its text alone is not enough to act on.
fn describe(error: &RedisError) -> String {
    if error.kind() == ErrorKind::Parse {
        // The driver's text has a line for each byte.
        let text = error.to_string().trim_end().replace('\n', ", ");
        return format!(
            "redis: {}; this is not a reply of a Redis server, correct the host and port in the store URL",
            Shown(&text)
        );
    }
    // The driver rewords the server's codes; operators know the server's own.
    let text = match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("redis: {code} {detail}"),
        _ => format!("redis: {error}"),
    };
    // The server repeats the arguments of a command that it does not know, and with them the keys.
    let text = text.split_once(", with args beginning").map_or(&*text, |(text, _)| text);
    let text =
        if text.contains(PROTECTED) { text.split(" because").next().unwrap_or(text) } else { text };
    with_hint(&Shown(text).to_string())
}

/// Formats the error of a key of another type, without its position in a script.
fn of_other_type(text: &str) -> Option<String> {
    // The position comes first before Redis 7, and last since then.
    let text = &text[text.find("WRONGTYPE")?..];
    let text = text.split_once(" script: ").map_or(text, |(text, _)| text);
    Some(format!(
        "redis: {text}; a key with this name holds other data, choose another `key_prefix`"
    ))
}

fn with_hint(text: &str) -> String {
    if let Some(text) = of_other_type(text) {
        return text;
    }
    let has = |mark| text.contains(mark);
    let hint = if has("NOPERM") && has("access") {
        "; let the Redis user access all keys that begin with the `key_prefix`, with and without a brace in \
         front: `~PREFIX*` and `~{PREFIX*`"
    } else if has("can't run this command") || has("NOPERM") || has("no permissions to run") {
        "; grant the Redis user the commands listed in docs/outages.md"
    } else if is_unknown_command(text) && (has("'TIME'") || has("`TIME`")) {
        "; if this is a sentinel, write a `redis-sentinel://` address, otherwise let the server run this command by \
         its own name"
    } else if is_unknown_command(text) {
        "; let the server run this command by its own name, without a `rename-command` for it"
    } else if has("WRONGPASS") || has("Password authentication failed") {
        "; correct the user or the password in the store URL"
    } else if has("NOAUTH") {
        "; add `:password@` to the store URL, or `user:password@` for an ACL user; to a `unix://` URL, add \
         `?pass=password`, or `?user=name&pass=password`"
    } else if has("READONLY") {
        "; if this is not a failover, write the address of the master, or a `redis-sentinel://` address"
    } else if has("not found in sentinel") {
        "; if this is not a failover, correct the `master` in the store's address, or let the sentinels reach that master"
    } else if has("not point to a sentinel") {
        "; write the addresses of the sentinels, or `redis://` and the address of the server"
    } else if has("insecure client") {
        "; remove `#insecure` from the store's address, and set `tls_ca` to a file with the authority's certificate"
    } else if has(PROTECTED) {
        "; give the server a password, and write it in the store's address; only if no untrusted host can reach the \
         server, set `protected-mode no` on it instead"
    } else if has("max number of clients") {
        "; raise the `maxclients` of the server, or close other connections"
    } else if has("OOM command") {
        "; raise the `maxmemory` of the server, or remove other data"
    } else if has("cluster support disabled") {
        "; write `redis://` in the store's address, as for any single server, or `rediss://` with TLS"
    } else if has("CROSSSLOT") {
        "; write `redis-cluster://` in the store's address, as for any cluster, or `rediss-cluster://` with TLS"
    } else if has("DB index is out of range") {
        "; write a database that the server has at the end of the store's address, such as `/0`; of a `unix://` \
         address, `?db=0`"
    } else if has("SELECT is not allowed in cluster mode") {
        "; write no database in the store's address"
    } else if has("UnknownIssuer") {
        "; set `tls_ca` to a file with the certificate of the authority that signed it"
    } else if has("not valid for any names") || has("UnsupportedCertVersion") {
        "; let the server use a certificate of version 3 that has its host as a `subjectAltName`"
    } else if has(MISNAMED) {
        "; write a host that the certificate names in the store's address"
    } else if has("certificate expired") {
        "; renew the server's certificate"
    } else if has("CaUsedAsEndEntity") {
        "; let the server use a certificate without `CA:TRUE`, such as one that this authority signs"
    } else if UNREADABLE.into_iter().any(has) {
        "; correct `SSL_CERT_FILE` and `SSL_CERT_DIR` or the system's certificates, or enable the crate feature \
         `tls-webpki-roots`, which reads none of them"
    } else if has("CertificateRequired") {
        "; open the connections in `redis_connect` with a client certificate; if a password is enough, set \
         `tls-auth-clients no` on the server instead"
    } else {
        return text.to_owned();
    };
    // Some of the server's texts end with a full stop.
    format!("{}{hint}", text.trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::{Fault, classify, refused, store_error};
    use crate::store::redis::reply::unknown_reply;

    /// A proxy replied with a page of its own, and a log had all of it, with the codes for a terminal.
    #[test]
    fn a_text_of_the_server_is_one_short_line() {
        let long = "x\u{1b}[31m\n\u{85}".repeat(9000);
        let blob = |code: &str| format!("!{}\r\n{code} {long}\r\n", code.len() + 1 + long.len());
        let error = |code: &str| {
            redis::parse_redis_value(blob(code).as_bytes()).unwrap().extract_error().unwrap_err()
        };
        let mut texts: Vec<_> = ["ERR", "OOM", "NOAUTH", "WRONGTYPE", "X", "LOADING", "MOVED"]
            .map(|code| store_error(&error(code)).to_string())
            .into();
        texts.push(unknown_reply(&redis::Value::BulkString(long.clone().into())).to_string());
        texts.push(unknown_reply(&redis::Value::BulkString(vec![255; 9000])).to_string());
        texts.push(refused(std::slice::from_ref(&long)).unwrap().to_string());
        let source = format!("{:?}", store_error(&error("ERR")));
        assert!(!source.contains(char::is_control), "{source:?}");
        for text in texts {
            assert!(text.chars().count() < 1000, "{} characters", text.chars().count());
            assert!(!text.contains(char::is_control), "{text:?}");
        }
    }

    #[test]
    fn certificates_of_the_system_that_cannot_be_read_are_an_error_of_the_setup() {
        // The program started, and its server was unavailable. With the feature `tls-webpki-roots`, the driver does
        // not read them, so no test of all features can see this.
        let text =
            "failed to read PEM from file: No such file or directory (os error 2) at '/ca.pem'";
        let fault = classify(&io::Error::new(io::ErrorKind::NotFound, text).into());
        let Fault::Permanent(error) = fault else { panic!("{fault:?}") };
        assert!(error.to_string().contains("; correct `SSL_CERT_FILE` and"), "{error}");
    }

    /// `openssl x509 -req` makes such certificates unless it is given extensions.
    #[test]
    fn a_certificate_of_version_1_is_an_error_of_the_setup() {
        let text = "invalid peer certificate: Other(OtherError(UnsupportedCertVersion))";
        let fault = classify(&io::Error::new(io::ErrorKind::InvalidData, text).into());
        let Fault::Permanent(error) = fault else { panic!("{fault:?}") };
        assert!(
            error.to_string().contains("; let the server use a certificate of version 3"),
            "{error}"
        );
    }
}
