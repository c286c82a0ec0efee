//! Whom a program takes for its clients; how headers are read is a matter of the module's own tests.

use std::{net::SocketAddr, sync::mpsc};

use http::HeaderMap;
use ratelimit_runtime::{Event, Limits, web::ClientIp};

use crate::{Limit, MINUTE, by_file, quota, request, send};

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

/// Behind proxies that write `X-Forwarded-For` and pass on `Forwarded`, a client could hide its address.
#[tokio::test]
async fn only_the_header_that_is_set_names_the_client() {
    let mut headers = headers();
    headers.insert("forwarded", "for=198.51.100.1".parse().unwrap());
    headers.insert("cf-connecting-ip", "2001:db8::7".parse().unwrap());
    let client = async |limits: &Limits| {
        let find = async { ClientIp::from_headers([10, 0, 0, 1].into(), &headers).to_string() };
        limits.scope(find).await
    };
    let yaml = "trusted_proxies: [10.0.0.0/8]\n";
    assert_eq!(client(&by_file(yaml).await.0).await, "10.0.0.1", "which one is the client's?");

    let yaml = format!("{yaml}client_ip_header: X-Forwarded-For\n");
    assert_eq!(client(&by_file(&yaml).await.0).await, "203.0.113.7");

    for (header, expected) in [
        ("forwarded", "198.51.100.1"),
        ("CF-Connecting-IP", "2001:db8::7"),
        ("x-real-ip", "10.0.0.1"),
    ] {
        let builder = Limits::builder().memory().limits_yaml(&yaml).client_ip_header(header);
        let limits = builder.build().await.unwrap();
        assert_eq!(client(&limits).await, expected, "{header} of the builder goes first");
    }
}

/// Limits that trust one network, and the networks of the proxies that they report.
async fn reporting() -> (Limits, mpsc::Receiver<String>) {
    let (sender, reported) = mpsc::channel();
    let builder = Limits::builder().memory().limits_yaml("trusted_proxies: [10.1.0.0/16]\n");
    let builder = builder.on_event(move |event| {
        if let Event::UntrustedProxy { network, .. } = event {
            sender.send((*network).to_owned()).unwrap();
        }
    });
    (builder.build().await.unwrap(), reported)
}

/// Behind a proxy that is not listed, all clients have one address, and one limit.
#[tokio::test]
async fn a_proxy_that_is_not_trusted_is_reported_once() {
    let (limits, reported) = reporting().await;
    let find = async |peer: &str, headers: HeaderMap| {
        let peer = peer.parse().unwrap();
        limits.scope(async move { ClientIp::from_headers(peer, &headers).to_string() }).await
    };
    // A proxy that is trusted, two clients on the internet, and one in a private network without a proxy.
    assert_eq!(find("10.1.0.1", headers()).await, "203.0.113.7");
    find("198.51.100.1", headers()).await;
    find("2001:db8::1", headers()).await;
    find("10.0.0.1", HeaderMap::new()).await;
    assert!(reported.try_recv().is_err());

    for peer in ["::ffff:10.0.0.1", "10.0.0.1", "192.168.0.1"] {
        find(peer, headers()).await;
    }
    assert_eq!(reported.try_iter().collect::<Vec<_>>(), ["10.0.0.0/8"]);
}

#[tokio::test]
async fn a_layer_reports_a_proxy_that_is_not_trusted() {
    let (limits, reported) = reporting().await;
    let limit = Limit::new("proxied:{ip}", quota(9, MINUTE)).limits(&limits);
    let mut request = request();
    request.headers_mut().insert("forwarded", "for=203.0.113.7".parse().unwrap());
    request.extensions_mut().insert(SocketAddr::from(([172, 20, 0, 1], 80)));
    send(&limit, request).await;
    assert_eq!(reported.try_iter().collect::<Vec<_>>(), ["172.16.0.0/12"]);
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

#[tokio::test]
async fn what_is_no_name_of_a_header_keeps_a_program_from_starting() {
    let expected = |text: &str| {
        format!("`{text}` is not the name of a header; write one such as `x-forwarded-for`")
    };
    for name in ["", "X-Real-IP:", "client ip"] {
        let builder = Limits::builder().memory().no_limits_file().client_ip_header(name);
        let error = builder.build().await.unwrap_err().to_string();
        assert!(error.contains(&expected(name)), "{error}");
    }
    let builder = Limits::builder().memory().limits_yaml("client_ip_header: X Real IP\n");
    let error = builder.build().await.unwrap_err().to_string();
    assert!(error.contains(&expected("X Real IP")), "{error}");
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
