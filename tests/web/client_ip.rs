//! Whom a program takes for its clients; how headers are read is a matter of the module's own tests.

use http::HeaderMap;
use ratelimit_runtime::{Limits, web::ClientIp};

use crate::by_file;

fn headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("x-forwarded-for", "192.0.2.66, 203.0.113.7".parse().unwrap());
    headers
}

async fn client(limits: &Limits) -> String {
    let peer = "10.0.0.1".parse().unwrap();
    limits.scope(async { ClientIp::from_headers(peer, &headers()).to_string() }).await
}

#[tokio::test]
async fn proxies_are_trusted_by_the_limits_file_or_the_builder() {
    let (limits, _) = by_file("").await;
    assert_eq!(client(&limits).await, "10.0.0.1", "nobody is trusted unless it is said so");

    let yaml = "trusted_proxies: [10.0.0.0/8]\n";
    let (limits, _) = by_file(yaml).await;
    assert_eq!(client(&limits).await, "203.0.113.7");

    for (proxies, expected) in
        [(&[][..], "10.0.0.1"), (&["10.0.0.1", "203.0.113.0/24"], "192.0.2.66")]
    {
        let builder = Limits::builder().memory().limits_yaml(yaml);
        let limits = builder.trusted_proxies(proxies.iter().copied()).build().await.unwrap();
        assert_eq!(client(&limits).await, expected, "the builder goes first");
    }
}

#[tokio::test]
async fn a_reload_changes_whom_the_program_trusts() {
    let file = std::env::temp_dir().join(format!("ratelimit-proxies-{}.yaml", std::process::id()));
    std::fs::write(&file, "trusted_proxies: []\n").unwrap();
    let limits = Limits::builder().memory().limits_file(&file).build().await.unwrap();
    assert_eq!(client(&limits).await, "10.0.0.1");
    std::fs::write(&file, "trusted_proxies: [10.0.0.0/8]\n").unwrap();
    limits.reload().unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(client(&limits).await, "203.0.113.7");
}

#[tokio::test]
async fn what_is_no_range_of_addresses_keeps_a_program_from_starting() {
    let builder = Limits::builder().memory().no_limits_file();
    let error = builder.trusted_proxies(["10.0.0.0/33", "::1", "local"]).build().await.unwrap_err();
    let expected = ["10.0.0.0/33", "local"].map(|text| {
        format!("in `trusted_proxies`: `{text}` is not a range of IP addresses; write one such as `10.0.0.0/8`")
    });
    let problems: Vec<_> = error.problems().iter().map(ToString::to_string).collect();
    assert_eq!(problems, expected);
}

#[test]
fn a_client_shows_itself_only_when_asked() {
    let peer = "203.0.113.7".parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (limits, _) = by_file("").await;
        let client = limits.scope(async { ClientIp::from_headers(peer, &HeaderMap::new()) }).await;
        assert_eq!(format!("{client:?}"), "ClientIp(..)");
        assert_eq!((client.to_string(), client.addr()), ("203.0.113.7".to_owned(), peer));
    });
}
