use super::*;

#[test]
fn a_password_is_never_shown() {
    for url in [
        "redis://me:s3cr3t@h:1/0",
        "redis://:s3cr3t@h",
        "redis://h&pass=s3cr3t",
        "nonsense://a:s3cr3t@h",
        "s3cr3t@h",
    ] {
        let shown = Address::parse(url).map_or_else(|error| error.to_string(), |a| a.to_string());
        assert!(!shown.contains("s3cr3t"), "{shown}");
    }
}

#[test]
fn several_hosts_share_credentials_and_database() {
    assert_eq!(
        node_urls("redis", "me:pw@a:1,b:2/3?master=m", 26379),
        ["redis://me:pw@a:1/3", "redis://me:pw@b:2/3"]
    );
    // A sentinel without a port was sought at the port of servers.
    assert_eq!(
        node_urls("redis", "a, [::1],[::1]:2?master=m", 26379),
        ["redis://a:26379/", "redis://[::1]:26379/", "redis://[::1]:2/"]
    );
    let Ok(Topology::Sentinel { master, .. }) = sentinel("a:1,b:2/3?master=m") else {
        panic!("a Sentinel address")
    };
    assert_eq!(master, "m");
}

#[test]
fn a_bad_address_says_what_to_write() {
    let error = |url| Address::parse(url).unwrap_err().to_string();
    assert_eq!(
        error("localhost:6379"),
        format!("store `localhost:6379`: expected `memory` or a URL with {SCHEMES}")
    );
    assert_eq!(
        error("reddis://localhost"),
        format!("store `reddis://localhost`: unknown scheme; expected {SCHEMES}")
    );
    for (url, name, example) in [
        ("redis://h?protocol=3&pass=x", "pass", "redis://user:password@host:6379/0"),
        ("redis://h?pasword=x", "pasword", "redis://user:password@host:6379/0"),
        ("redis://h?protocol=3&pss=x&", "pss", "redis://user:password@host:6379/0"),
        ("rediss://h/1?Password=x", "Password", "rediss://user:password@host:6379/0"),
        ("redis-cluster://a,b?db=3", "db", "redis-cluster://user:password@one:6379,two:6379"),
        (
            "unix:///a?password=x",
            "password",
            "unix:///run/redis/redis.sock?db=0&user=name&pass=password",
        ),
    ] {
        let error = error(url);
        let expected = format!(
            ": the parameter `{name}` has no effect here; write an address such as `{example}`"
        );
        assert!(error.ends_with(&expected), "{error}");
    }
    // The protocol of a cluster was ignored, and that of a server was said to be an invalid address.
    for url in [
        "redis://h?protocol=4",
        "unix:///a?db=1&protocol=",
        "redis-cluster://a,b?protocol=resp4",
        "redis-cluster://a,b/?x=1&protocol=3.0",
        "redis-sentinel://a,b?master=m&protocol=4",
    ] {
        let error = error(url);
        assert!(error.ends_with(": unknown `protocol`; write `resp2` or `resp3`"), "{error}");
    }
    let example = "redis://user:password@host:6379/0";
    for (url, end) in [
        ("redis://h:99999", ""),
        ("redis://:a#b@h", ", and percent-encode the password"),
        ("redis://:a/b@h:1/0", ", and percent-encode the password"),
        ("redis://:a,b/c@h:1/0", ", and percent-encode the password"),
        ("redis://a?b@h", ", and percent-encode the password"),
        ("redis://a#b@h", ", and percent-encode the password"),
    ] {
        let expected = format!(": not a valid address; write one such as `{example}`{end}");
        assert!(error(url).ends_with(&expected), "{}", error(url));
    }
    for url in ["unix:///a&db=1", "redis://h&password=s3cr3t", "redis://me:s3cr3t@h:1;of=s3cr3t"] {
        let error = error(url);
        assert!(error.ends_with("`, with a `?` before the first parameter"), "{error}");
        assert!(!error.contains("s3cr3t"), "{error}");
    }
    // All hosts but the last one were a part of the password.
    for (url, example) in [
        ("redis-cluster://me:s3cr3t@a:1,me:s3cr3t@b:2", "redis-cluster://user:password@one:6379"),
        ("redis-sentinel://:s3cr3t@a,:s3cr3t@b/0?master=m", "redis-sentinel://user:password@one:"),
    ] {
        let why =
            "`: write the login once, before the first host, and percent-encode the password: `";
        assert!(error(url).contains(&format!("{why}{example}")), "{}", error(url));
        assert!(!error(url).contains("s3cr3t"));
    }
    for url in
        ["redis-cluster://me:p@ss@a,b", "redis-sentinel://me:p@a,b?master=m&sentinel_password=p@s"]
    {
        assert!(Address::parse(url).is_ok(), "{url}");
    }
    // The driver would have connected as the default user, or to a host of this name.
    for (url, why) in [
        (
            "redis://s3cr3t@h",
            "the user has no password, so it would not log in; write an address such as `redis://",
        ),
        (
            "unix:///a?user=me",
            "the user has no password, so it would not log in; write an address such as `unix://",
        ),
        (
            "redis-cluster://me@a,b",
            "the user has no password, so it would not log in; write an address such as `redis-",
        ),
        (
            "redis://a,b",
            "`redis://` is for one server; write `redis-cluster://` or `redis-sentinel://` for several",
        ),
        // With ports, it was said to be an invalid address.
        (
            "rediss://me:s3cr3t@a:1,b:2/0",
            "`rediss://` is for one server; write `rediss-cluster://` or `rediss-sentinel://` for several",
        ),
    ] {
        assert!(error(url).contains(&format!("`: {why}")), "{}", error(url));
        assert!(!error(url).contains("s3cr3t"));
    }
    assert!(Address::parse("redis://default@h").is_ok());
    for url in [
        "redis://h?family=0",
        "redis://h?ssl_cert_reqs=none&protocol=resp3",
        "redis://h?client_name=me@here",
        "unix:///a&of=c;me",
    ] {
        assert!(Address::parse(url).is_ok(), "another driver's parameter");
    }
}
