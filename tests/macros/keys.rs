//! What a value looks like in a key, and where it may come from.

use std::{fmt, net::SocketAddr, rc::Rc, sync::Arc};

use ratelimit_runtime::{KeyPart, Reason, Rejection, limiter, rate_limit};
use ulid::Ulid;
use uuid::Uuid;

use super::{alone, limits, refused};

/// The name of the limiter of one value.
macro_rules! name_of {
    ($value:expr) => {
        limiter!("keys:{value}", value = $value).name().to_owned()
    };
}

/// The same for a value that may be absent.
macro_rules! name_of_optional {
    ($value:expr) => {
        limiter!("optional:{value?}", value = $value).name().to_owned()
    };
}

#[rate_limit(key = "keys:{value}", rate = 1, per = "1h", wait = "none")]
async fn declares_keys(value: u8) -> Result<u8, Rejection> {
    Ok(value)
}

#[rate_limit(key = "optional:{value?}", rate = 1, per = "1h", wait = "none")]
async fn declares_optional(value: &Option<&str>) -> Result<usize, Rejection> {
    Ok(value.map_or(0, str::len))
}

struct TenantId(u128);

impl KeyPart for TenantId {
    fn fmt_key(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}", self.0)
    }
}

#[tokio::test]
async fn values_are_written_as_before() {
    limits()
        .await
        .scope(async {
            assert_eq!(name_of!(42_u8), "keys:42");
            assert_eq!(name_of!("a:b"), "keys:a%3Ab");
            assert_eq!(name_of!(""), "keys:~~");
            assert_eq!(name_of!('é'), "keys:%C3%A9");
            assert_eq!(name_of!(String::from("user@example.com")), "keys:user%40example.com");
            assert_eq!(name_of!(Box::<str>::from("x")), "keys:x");
            assert_eq!(name_of!(TenantId(255)), "keys:00ff");
            assert_eq!(name_of!(Rc::new(&TenantId(255))), "keys:00ff");
            // `printf '%065d' 0 | sha256sum`
            let hashed = "keys:~e531ef0f962409170917abf9de3287af";
            assert_eq!(name_of!("0".repeat(65)), hashed);
        })
        .await;
}

#[tokio::test]
async fn a_socket_address_is_its_ip_address() {
    alone(async {
        for (address, name) in [
            ("192.0.2.1:8080", "keys:192.0.2.1"),
            ("192.0.2.1:8081", "keys:192.0.2.1"),
            ("[2001:db8::1]:443", "keys:2001%3Adb8%3A%3A1"),
        ] {
            let address: SocketAddr = address.parse().unwrap();
            assert_eq!(name_of!(address), name);
            assert_eq!(name_of!(address.ip()), name);
        }
    })
    .await;
}

#[tokio::test]
async fn identifiers_of_other_crates_are_written_as_they_display() {
    alone(async {
        let uuid = "67e55044-10b1-426f-9247-bb680e5fe0c8";
        let ulid = "01D39ZY06FGSCTVN4T2V9PKHFZ";
        let written = Arc::new(uuid.parse::<Uuid>().unwrap());
        assert_eq!(name_of!(written), format!("keys:{uuid}"));
        assert_eq!(name_of!(&ulid.parse::<Ulid>().unwrap()), format!("keys:{ulid}"));
    })
    .await;
}

#[tokio::test]
async fn an_option_is_found_behind_references_and_pointers() {
    struct User {
        tenant: Option<String>,
    }
    alone(async {
        let some = Some("a");
        assert_eq!(name_of_optional!(some), "optional:a");
        assert_eq!(name_of_optional!(&&some), "optional:a");
        assert_eq!(name_of_optional!(Arc::new(some)), "optional:a");
        assert_eq!(name_of_optional!(Rc::new(some)), "optional:a");
        assert_eq!(name_of_optional!(Box::new(some)), "optional:a");
        assert_eq!(name_of_optional!(Arc::new(None::<u8>)), "optional:~");
        for user in &[User { tenant: Some("b".into()) }, User { tenant: None }] {
            // Bound by reference, as match ergonomics do it.
            let User { tenant } = user;
            let name = name_of_optional!(tenant);
            assert_eq!(name, if tenant.is_some() { "optional:b" } else { "optional:~" });
        }
        assert_eq!(declares_optional(&some).await.unwrap(), 1);
        assert_eq!(refused(declares_optional(&some).await), Some(Reason::Limited));
        assert_eq!(declares_optional(&None).await.unwrap(), 0);
        assert_eq!(declares_keys(7).await.unwrap(), 7);
    })
    .await;
}
