use once_cell::sync::Lazy;

use super::*;

static LIMITS: Lazy<Limits> = Lazy::new(|| {
    let builder = Limits::builder().memory().no_limits_file();
    let built = builder.trusted_proxies(["10.0.0.0/8", "2001:db8:f::/48"]).build();
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(built).unwrap()
});

fn client_of(peer: &str, headers: &HeaderMap) -> ClientIp {
    ClientIp::of(&LIMITS, peer.parse().unwrap(), headers)
}

fn client(peer: &str, headers: &[(&'static str, &str)]) -> String {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    client_of(peer, &map).to_string()
}

fn check(header: &'static str, cases: &[(&str, &str, &str)]) {
    for (peer, line, expected) in cases {
        assert_eq!(client(peer, &[(header, line)]), *expected, "{header}: {line} from {peer}");
    }
}

#[test]
fn without_a_trusted_peer_no_header_is_read() {
    for header in ["forwarded", "x-forwarded-for"] {
        let line = if header == "forwarded" { "for=192.0.2.1" } else { "192.0.2.1" };
        check(
            header,
            &[
                ("203.0.113.7", line, "203.0.113.7"),
                ("2001:db8::7", line, "2001:db8::7"),
                ("::ffff:203.0.113.7", line, "203.0.113.7"),
            ],
        );
    }
    assert_eq!(client("10.0.0.1", &[]), "10.0.0.1");
}

#[test]
fn the_rightmost_address_that_is_no_proxy_is_the_client() {
    check(
        "x-forwarded-for",
        &[
            ("10.0.0.1", "203.0.113.7", "203.0.113.7"),
            // Entries that the client wrote itself are on the left.
            ("10.0.0.1", "192.0.2.1, 203.0.113.7", "203.0.113.7"),
            ("10.0.0.1", "10.9.9.9, 192.0.2.1,203.0.113.7 ,10.0.0.2", "203.0.113.7"),
            ("::ffff:10.0.0.1", "203.0.113.7", "203.0.113.7"),
            ("10.0.0.1", "2001:db8::7, 2001:db8:f::1", "2001:db8::7"),
            // A client that is itself a proxy, such as a health check.
            ("10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"),
            // Mapped to IPv6, with ports, and in Azure's format.
            ("10.0.0.1", "::ffff:203.0.113.7", "203.0.113.7"),
            ("10.0.0.1", "203.0.113.7:4711", "203.0.113.7"),
            ("10.0.0.1", "[2001:db8::7]:4711, 10.0.0.2:80", "2001:db8::7"),
            ("10.0.0.1", "[2001:db8::7]", "2001:db8::7"),
        ],
    );
    check(
        "forwarded",
        &[
            ("10.0.0.1", "for=203.0.113.7", "203.0.113.7"),
            ("10.0.0.1", "for=192.0.2.1, FOR=203.0.113.7;proto=http;by=10.0.0.1", "203.0.113.7"),
            ("10.0.0.1", "proto=https ; for=\"203.0.113.7:4711\", for=10.0.0.2", "203.0.113.7"),
            ("10.0.0.1", "for=\"[2001:db8::7]:4711\"", "2001:db8::7"),
            ("10.0.0.1", "For=\"[2001:db8::7]:_port\"", "2001:db8::7"),
            ("10.0.0.1", "for=\"203.0.113.7:_port\"", "203.0.113.7"),
            ("10.0.0.1", "for=\"[2001:db8::\\7]\"", "2001:db8::7"),
            ("10.0.0.1", "for=[2001:db8::7]:4711", "2001:db8::7"),
            ("10.0.0.1", "for=203.0.113.7;host=\"a,b;c=\\\"d\\\"\"", "203.0.113.7"),
        ],
    );
}

#[test]
fn what_is_malformed_or_hidden_ends_the_search_at_the_proxy_that_wrote_it() {
    check(
        "x-forwarded-for",
        &[
            ("10.0.0.1", "", "10.0.0.1"),
            ("10.0.0.1", ",", "10.0.0.1"),
            ("10.0.0.1", "unknown", "10.0.0.1"),
            ("10.0.0.1", "192.0.2.1, unknown, 10.0.0.2", "10.0.0.2"),
            ("10.0.0.1", "192.0.2.1, 203.0.113.7.9", "10.0.0.1"),
            ("10.0.0.1", "192.0.2.1, 203.0.113.7:99999", "10.0.0.1"),
            ("10.0.0.1", "192.0.2.1, [2001:db8::7]x", "10.0.0.1"),
            ("10.0.0.1", "192.0.2.1, [2001:db8::7", "10.0.0.1"),
            ("10.0.0.1", "192.0.2.1, fe80::1%eth0", "10.0.0.1"),
            ("10.0.0.1", "192.0.2.1, 0x7f000001", "10.0.0.1"),
            ("10.0.0.1", "192.0.2.1, 010.0.0.1", "10.0.0.1"),
            ("10.0.0.1", "192.0.2.1, \u{fc}", "10.0.0.1"),
        ],
    );
    check(
        "forwarded",
        &[
            ("10.0.0.1", "", "10.0.0.1"),
            ("10.0.0.1", "for=unknown", "10.0.0.1"),
            ("10.0.0.1", "for=192.0.2.1, for=_hidden, for=10.0.0.2", "10.0.0.2"),
            ("10.0.0.1", "for=192.0.2.1, proto=http", "10.0.0.1"),
            ("10.0.0.1", "for=192.0.2.1, for=\"203.0.113.7", "10.0.0.1"),
            ("10.0.0.1", "for=192.0.2.1, for=\u{fc}", "10.0.0.1"),
            ("10.0.0.1", "for=192.0.2.1;for=192.0.2.2", "10.0.0.1"),
            ("10.0.0.1", "for 192.0.2.1", "10.0.0.1"),
            ("10.0.0.1", "for=192.0.2.1 for=192.0.2.2", "10.0.0.1"),
            ("10.0.0.1", "for=192.0.2.1, for=\"203.0.113.7:\"", "10.0.0.1"),
            ("10.0.0.1", "for=192.0.2.1, for=\"203.0.113.7:99999\"", "10.0.0.1"),
            ("10.0.0.1", "for=192.0.2.1, for=\"2001:db8::7:_port\"", "10.0.0.1"),
        ],
    );
}

/// Otherwise a client could choose to be counted as the proxy, and so escape its own limit.
#[test]
fn what_a_client_wrote_hides_no_entry_of_a_proxy() {
    for text in [
        "\u{fc}",
        "@",
        "",
        " ",
        "for=",
        "for=\"",
        "for=\"192.0.2.1",
        "\"\\",
        "\"a\\\"",
        "a=\"b\";\"c",
    ] {
        for entry in ["for=203.0.113.7", "proto=http;host=\"a,\\\",\\\\\";for=\"203.0.113.7:80\""] {
            let line = format!("{text}, {entry}");
            check("forwarded", &[("10.0.0.1", &line, "203.0.113.7")]);
            let line = format!("{line},for=10.0.0.2");
            check("forwarded", &[("10.0.0.1", &line, "203.0.113.7")]);
        }
        check("x-forwarded-for", &[("10.0.0.1", &format!("{text}, 203.0.113.7"), "203.0.113.7")]);
    }
}

#[test]
fn several_lines_are_one_list() {
    let lines = [("x-forwarded-for", "192.0.2.1"), ("x-forwarded-for", "203.0.113.7, 10.0.0.2")];
    assert_eq!(client("10.0.0.1", &lines), "203.0.113.7");
    let last_is_a_proxy = [("x-forwarded-for", "203.0.113.7"), ("x-forwarded-for", "10.0.0.2")];
    assert_eq!(client("10.0.0.1", &last_is_a_proxy), "203.0.113.7");
    let hidden = [("x-forwarded-for", "192.0.2.1"), ("x-forwarded-for", "\u{fc}")];
    assert_eq!(client("10.0.0.1", &hidden), "10.0.0.1");
}

#[test]
fn a_second_header_cannot_choose_the_client() {
    let agree = [("forwarded", "for=203.0.113.7"), ("x-forwarded-for", "192.0.2.1, 203.0.113.7")];
    assert_eq!(client("10.0.0.1", &agree), "203.0.113.7");
    for forged in ["for=192.0.2.1", "for=unknown", "for=\""] {
        let headers = [("forwarded", forged), ("x-forwarded-for", "203.0.113.7")];
        assert_eq!(client("10.0.0.1", &headers), "10.0.0.1", "{forged}");
    }
    let forged = [("forwarded", "for=203.0.113.7"), ("x-forwarded-for", "192.0.2.1")];
    assert_eq!(client("10.0.0.1", &forged), "10.0.0.1");
}

#[test]
fn one_host_has_one_key() {
    let key = |address: &str, bits: Option<u8>| {
        let client = client_of(address, &HeaderMap::new());
        let client = bits.map_or(client, |bits| client.ipv6_prefix(bits));
        crate::key::Displayed(&client).to_string()
    };
    assert_eq!(key("203.0.113.7", None), "203.0.113.7");
    assert_eq!(key("::ffff:203.0.113.7", Some(8)), "203.0.113.7");
    assert_eq!(key("2001:db8:1:2:3:4:5:6", None), "2001:db8:1:2::/64");
    assert_eq!(key("2001:db8:1:2::9", None), "2001:db8:1:2::/64");
    assert_eq!(key("2001:db8:1:2::9", Some(48)), "2001:db8:1::/48");
    assert_eq!(key("2001:db8::9", Some(128)), "2001:db8::9/128");
    assert_eq!(key("2001:db8::9", Some(0)), "::/0");
}
