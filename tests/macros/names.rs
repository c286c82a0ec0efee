//! Names in generated code and names of the user's do not meet.

#![allow(clippy::used_underscore_binding, reason = "names that look generated")]

use ratelimit_runtime::{Reason, Rejection, rate_limit};

use super::{alone, refused};

#[rate_limit(
    key = "alike:{__key}:{__permits}",
    rate = 2,
    per = "1h",
    wait = "none",
    permits = __permits,
    skip_if = __skip
)]
async fn alike(
    __key: &str,
    __permits: u32,
    __skip: bool,
    __rejection: u8,
) -> Result<String, Rejection> {
    Ok(format!("{__key} {__permits} {__rejection}"))
}

#[tokio::test]
async fn parameters_with_names_like_ours() {
    alone(async {
        assert_eq!(alike("a", 1, false, 9).await.unwrap(), "a 1 9".to_owned());
        assert_eq!(alike("a", 1, false, 9).await.unwrap(), "a 1 9".to_owned());
        assert_eq!(refused(alike("a", 1, false, 9).await), Some(Reason::Limited));
        assert_eq!(alike("a", 1, true, 9).await.unwrap(), "a 1 9".to_owned());
    })
    .await;
}

/// Everything the prelude has, under other meanings.
mod shadowed {
    #![allow(dead_code, non_camel_case_types, reason = "only the names matter")]

    use super::{Rejection, rate_limit};

    struct Result;
    struct Option;
    struct Err;
    struct Ok;
    struct Some;
    struct Box;
    struct Duration;
    mod core {}
    mod std {}
    mod ratelimit_runtime {}

    type Outcome = ::core::result::Result<u8, Rejection>;

    #[rate_limit(key = "shadowed:{id?}", rate = 1, per = "1h", wait = "none", fallback = instead)]
    pub(super) async fn limited(id: ::core::option::Option<u8>) -> Outcome {
        ::core::result::Result::Ok(id.unwrap_or(0))
    }

    fn instead(rejection: Rejection) -> Outcome {
        ::core::result::Result::Err(rejection)
    }
}

#[tokio::test]
async fn a_module_that_shadows_the_prelude() {
    alone(async {
        assert_eq!(shadowed::limited(Some(1)).await.unwrap(), 1);
        assert_eq!(refused(shadowed::limited(Some(1)).await), Some(Reason::Limited));
    })
    .await;
}

#[rate_limit(key = "items", rate = 1, per = "1h", wait = "none")]
async fn with_items_of_its_own() -> Result<u32, Rejection> {
    const OWN: u32 = 1;
    static __LIMIT: u32 = 2;
    fn __key() -> u32 {
        3
    }
    Ok(OWN + __LIMIT + __key())
}

#[tokio::test]
async fn a_body_with_items_of_its_own() {
    alone(async {
        assert_eq!(with_items_of_its_own().await.unwrap(), 6);
        assert_eq!(refused(with_items_of_its_own().await), Some(Reason::Limited));
    })
    .await;
}

/// An attribute of another crate that has the name of ours.
mod other {
    pub(super) use tokio::test as rate_limit;
}

#[rate_limit(key = "other", rate = 1, per = "1h", wait = "none", fallback = |_| panic!("limited"))]
#[other::rate_limit(start_paused = true)]
async fn an_attribute_of_another_crate_is_left_alone() {
    assert!(tokio::runtime::Handle::try_current().is_ok(), "it is a test, with a runtime");
}
