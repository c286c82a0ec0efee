//! What a value looks like in a key, and where it may come from.

use std::{
    fmt,
    net::SocketAddr,
    panic::catch_unwind,
    pin::pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use ratelimit_runtime::{KeyPart, Limiter, Reason, Rejection, limiter, observe, rate_limit};
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

#[allow(clippy::ref_option_ref, reason = "what is found behind a reference")]
#[rate_limit(key = "optional:{value?}", rate = 1, per = "1h", wait = "none")]
async fn declares_optional(value: &Option<&str>) -> Result<usize, Rejection> {
    Ok(value.map_or(0, str::len))
}

/// A service whose key is made of calls and fields in turn.
struct Service {
    region: &'static str,
}

struct User {
    id: u64,
    session: Option<String>,
}

impl User {
    fn id(&self) -> u64 {
        self.id
    }

    fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    fn r#type(&self) -> &'static str {
        if self.id == 0 { "system" } else { "user" }
    }
}

impl Service {
    fn region(&self) -> String {
        self.region.to_owned()
    }

    #[rate_limit(
        key = "calls:{addr.ip()}:{self.region()}:{user.id()}:{user.session()?}:{user.type()}",
        rate = 1,
        per = "1h",
        wait = "none"
    )]
    async fn answer(&self, addr: SocketAddr, user: &User) -> Result<u16, Rejection> {
        Ok(addr.port())
    }
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

/// A value that calls the function whose key it is a part of, as one may that looks something up.
struct Nested(u8);

impl KeyPart for Nested {
    fn fmt_key(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        assert!(self.0 < 9, "no such value");
        if self.0 > 0 {
            now(nested(Nested(self.0 - 1))).map_err(|_| fmt::Error)?;
        }
        write!(f, "{}", self.0)
    }
}

#[rate_limit(key = "nested:{value}", rate = 100, per = "1h", wait = "none")]
async fn nested(value: Nested) -> Result<u8, Rejection> {
    Ok(value.0)
}

fn now<T>(call: impl Future<Output = T>) -> T {
    match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waited"),
    }
}

#[tokio::test]
async fn a_value_may_call_its_function_or_panic() {
    let check = async || {
        let panicked = catch_unwind(|| now(nested(Nested(9))));
        assert!(panicked.is_err(), "the value did");
        assert_eq!(nested(Nested(2)).await.unwrap(), 2);
        limits().await.scope(async { nested(Nested(1)).await.unwrap() }).await;
    };
    check().await;
    alone(check()).await;
    let ((), outcomes) = observe(check()).await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    let free = limiter!("nested:{value}", value = 2_u8).available_permits().await.unwrap();
    assert_eq!(free, 98, "of the program's limits, two calls took one");
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
        let text = "67e55044-10b1-426f-9247-bb680e5fe0c8";
        let id: Uuid = text.parse().unwrap();
        assert_eq!(name_of!(Arc::new(id)), format!("keys:{text}"));
        let text = "01D39ZY06FGSCTVN4T2V9PKHFZ";
        let id: Ulid = text.parse().unwrap();
        assert_eq!(name_of!(&id), format!("keys:{text}"));
    })
    .await;
}

#[tokio::test]
async fn an_option_is_found_behind_references_and_pointers() {
    struct Call {
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
        for call in &[Call { tenant: Some("b".into()) }, Call { tenant: None }] {
            // Bound by reference, as match ergonomics do it.
            let Call { tenant } = call;
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

#[tokio::test]
async fn a_placeholder_calls_methods_without_arguments() {
    let service = Service { region: "eu:west" };
    alone(async {
        let mut user = User { id: 7, session: None };
        let addr: SocketAddr = "192.0.2.1:8080".parse().unwrap();
        let name = || {
            let handle = limiter!(
                "calls:{addr.ip()}:{self.region()}:{user.id()}:{user.session()?}:{user.type()}",
                self.region() = service.region(),
            );
            handle.name().to_owned()
        };
        assert_eq!(name(), "calls:192.0.2.1:eu%3Awest:7:~:user");
        assert_eq!(service.answer(addr, &user).await.unwrap(), 8080);
        let again = "192.0.2.1:8081".parse().unwrap();
        let rejection = service.answer(again, &user).await.unwrap_err();
        assert_eq!(
            rejection.limiter(),
            "calls:{addr.ip()}:{self.region()}:{user.id()}:{user.session()?}:{user.type()}"
        );
        user.session = Some("a".into());
        assert_eq!(service.answer(again, &user).await.unwrap(), 8081);
    })
    .await;
}

macro_rules! name_of_double {
    ($id:expr) => {
        limiter!("keys:{value}", value = $id * 2).name().to_owned()
    };
}

#[tokio::test]
async fn a_value_of_a_placeholder_is_any_expression() {
    alone(async {
        let (id, small) = (41_u64, 42_usize);
        let name = |limiter: Limiter| limiter.name().to_owned();
        assert_eq!(name(limiter!("keys:{value}", value = id + 1)), "keys:42");
        assert_eq!(name(limiter!("keys:{value}", value = small as u64)), "keys:42");
        assert_eq!(name(limiter!("keys:{value}", value = id == 41)), "keys:true");
        assert_eq!(
            name(limiter!("keys:{value}", value = if id > 0 { "a" } else { "b" })),
            "keys:a"
        );
        assert_eq!(name_of_double!(1 + 2), "keys:6", "a fragment is one operand");
    })
    .await;
}

struct Typed {
    r#type: u8,
}

#[rate_limit(key = "field:{order.type}", rate = 1, per = "1h", wait = "none")]
async fn declares_the_field_of_a_keyword(order: Typed) -> Result<u8, Rejection> {
    Ok(order.r#type)
}

#[rate_limit(key = "keyword:{type}", rate = 1, per = "1h", wait = "none")]
async fn declares_a_keyword(r#type: u8) -> Result<u8, Rejection> {
    Ok(r#type)
}

#[tokio::test]
async fn the_value_of_a_placeholder_that_is_a_keyword_is_named_without_a_raw_prefix() {
    alone(async {
        assert_eq!(declares_a_keyword(7).await.unwrap(), 7);
        assert_eq!(declares_the_field_of_a_keyword(Typed { r#type: 7 }).await.unwrap(), 7);
        let r#type = 8;
        assert_eq!(limiter!("keyword:{type}").name(), "keyword:8");
        assert_eq!(limiter!("keyword:{type}", type = r#type + 1).name(), "keyword:9");
        assert_eq!(limiter!("keyword:{type}", r#type = 9).name(), "keyword:9");
        assert_eq!(limiter!("field:{order.type}", order.type = 1).name(), "field:1");
        assert_eq!(limiter!("field:{order.type}", order.r#type = 2).name(), "field:2");
    })
    .await;
}

#[rate_limit(key = "path:{pair.0.1}:{pair.1}:{addr.ip()}", rate = 1, per = "1h", wait = "none")]
async fn declares_paths(pair: ((u8, u8), u8), addr: SocketAddr) -> Result<u8, Rejection> {
    Ok(pair.0.1 + pair.1 + u8::from(addr.is_ipv4()))
}

#[tokio::test]
async fn the_value_of_a_placeholder_is_named_by_its_whole_path() {
    alone(async {
        let addr: SocketAddr = "192.0.2.1:8080".parse().unwrap();
        assert_eq!(declares_paths(((1, 2), 3), addr).await.unwrap(), 6);
        let pair = ((1, 2), 3);
        let name = |limiter: Limiter| limiter.name().to_owned();
        let handle = limiter!("path:{pair.0.1}:{pair.1}:{addr.ip()}", pair.0.1 = 4, pair.1 = 5);
        assert_eq!(name(handle), "path:4:5:192.0.2.1");
        let handle = limiter!("path:{pair.0.1}:{pair.1}:{addr.ip()}", addr.ip() = "unknown");
        assert_eq!(name(handle), "path:2:3:unknown");
    })
    .await;
}

macro_rules! costs_double {
    ($name:ident, $cost:expr) => {
        #[rate_limit(key = "doubled", rate = 6, per = "1h", wait = "none", permits = $cost * 2)]
        async fn $name() -> Result<u32, Rejection> {
            Ok($cost * 2)
        }
    };
}

costs_double!(doubled, 1_u32 + 2);

#[tokio::test]
async fn a_fragment_is_one_operand_in_the_attribute_and_in_the_body() {
    alone(async {
        assert_eq!(doubled().await.unwrap(), 6);
        assert_eq!(refused(doubled().await), Some(Reason::Limited));
    })
    .await;
}
