//! Classifies driver errors.

use redis::{ErrorKind, RedisError, Value};

use super::reply::foreign;
use crate::StoreError;

/// The three answers to "may this be sent again?".
#[derive(Debug)]
pub(super) enum Fault {
    /// The server did nothing, for this reason; another attempt may succeed.
    NotDone(NotDone),
    /// It may have been done, or it cannot be done just now.
    Transient(StoreError),
    /// It will not be done until the configuration is mended.
    Permanent(StoreError),
}

#[derive(Debug)]
pub(super) enum NotDone {
    /// The script cache was emptied.
    NoScript,
    /// The connection leads to a server that is no master any more.
    ReadOnly(StoreError),
    /// Another node of the cluster has the slot, or gets it just now.
    Moving(StoreError),
    /// Another attempt in a moment may succeed.
    NotYet(StoreError),
}

/// Texts that mark errors of the setup. Codes alone are not enough, because Redis before 7 wraps the
/// errors of a script.
const PERMANENT: [&str; 10] = [
    "WRONGTYPE",
    "NOPERM",
    "NOAUTH",
    "WRONGPASS",
    "CROSSSLOT",
    "can't run this command",
    "unknown command",
    "Unknown Redis command",
    "invalid username-password",
    "cluster support disabled",
];

/// Texts of rustls for certificates that do not fit; the driver reports them as plain I/O errors.
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
        || Fault::Permanent(StoreError::misconfigured(text.as_str()).caused_by(error.clone()));
    let unavailable = || StoreError::unavailable(text.as_str()).caused_by(error.clone());
    if matches!(error.kind(), ErrorKind::AuthenticationFailed | ErrorKind::InvalidClientConfig) {
        return misconfigured();
    }
    match error.code().unwrap_or_default() {
        "NOSCRIPT" => return Fault::NotDone(NotDone::NoScript),
        "READONLY" => return Fault::NotDone(NotDone::ReadOnly(unavailable())),
        "ASK" | "MOVED" => return Fault::NotDone(NotDone::Moving(unavailable())),
        "TRYAGAIN" | "LOADING" | "CLUSTERDOWN" | "MASTERDOWN" | "BUSY" => {
            return Fault::NotDone(NotDone::NotYet(unavailable()));
        }
        _ => {}
    }
    let marked = |marks: &[&str]| marks.iter().any(|mark| text.contains(mark));
    if (!error.is_io_error() && marked(&PERMANENT)) || marked(&CERTIFICATE) {
        return misconfigured();
    }
    Fault::Transient(unavailable())
}

/// What an error is for a caller that does not try again.
pub(super) fn store_error(error: RedisError) -> StoreError {
    match classify(&error) {
        Fault::Permanent(error) | Fault::Transient(error) => error,
        Fault::NotDone(_) => StoreError::unavailable(format!("redis: {error}")).caused_by(error),
    }
}

/// Why a script could not decide a group, if that is its reply: this concerns that group alone.
pub(super) fn failed(value: &Value) -> Option<StoreError> {
    let Value::Array(items) = value else { return None };
    let [Value::Int(7), Value::BulkString(why)] = &items[..] else { return None };
    let why = String::from_utf8_lossy(why);
    // Before Redis 7 the error comes with its place in the script.
    Some(match why.find("WRONGTYPE") {
        Some(at) => StoreError::misconfigured(with_hint(&format!("redis: {}", &why[at..]))),
        None => foreign(),
    })
}

/// Returns whether the server refused a call for its keys, before any of it was done: what it refuses
/// in the middle of a script says so.
pub(super) fn refuses_keys(error: &StoreError) -> bool {
    let text = error.to_string();
    text.contains("NOPERM") && text.contains("access") && !text.contains("script")
}

/// Returns whether the nodes of a cluster turn calls away because of another node.
pub(super) fn concerns_cluster(error: &StoreError) -> bool {
    error.to_string().contains("CLUSTERDOWN")
}

/// The error in one line, with a hint if its text alone is not enough to act on.
fn describe(error: &RedisError) -> String {
    // The driver rewords the server's codes; operators know those of the server.
    with_hint(&match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("redis: {code} {detail}"),
        _ => format!("redis: {error}"),
    })
}

fn with_hint(text: &str) -> String {
    let hint = if text.contains("can't run this command") || text.contains("NOPERM") {
        "; grant the Redis user the commands listed in the documentation of `RedisStore`"
    } else if text.contains("WRONGTYPE") {
        "; a key with this name holds other data, choose another `key_prefix`"
    } else if text.contains("WRONGPASS") || text.contains("NOAUTH") {
        "; add `user:password@` to the store URL"
    } else if text.contains("cluster support disabled") {
        "; write `redis://` in the store's address, as for any single server"
    } else {
        return text.to_owned();
    };
    // Some of the server's texts are sentences.
    format!("{}{hint}", text.trim_end_matches('.'))
}
