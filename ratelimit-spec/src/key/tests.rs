use super::{KeyWriter, check_prefix, safe_name};
use std::fmt;

fn part(value: &str) -> String {
    let mut key = KeyWriter::new("");
    key.part(value);
    key.finish().into()
}

#[test]
fn a_value_is_written_so_that_it_can_be_told_from_its_surroundings() {
    let long = "a".repeat(64);
    for (value, expected) in [
        ("42", "42"),
        ("Az09_.-", "Az09_.-"),
        ("a:b", "a%3Ab"),
        ("{}", "%7B%7D"),
        ("%41", "%2541"),
        ("~", "%7E"),
        ("", "~~"),
        ("\0\n", "%00%0A"),
        ("é", "%C3%A9"),
        (&long, &long),
        ("user@example.com", "user%40example.com"),
    ] {
        assert_eq!(part(value), expected, "{value:?}");
    }
}

#[test]
fn a_long_value_is_hashed() {
    // The digits are those of `printf '%065d' 0 | sha256sum`.
    let zeros = "0".repeat(65);
    assert_eq!(part(&zeros), "~e531ef0f962409170917abf9de3287af");
    assert_eq!(part(&":".repeat(22)).len(), 33);
    assert_eq!(part(&":".repeat(21)).len(), 63);
    assert_eq!(part(&"x".repeat(1 << 20)).len(), 33);
}

#[test]
fn a_key_is_made_of_literals_values_and_absences() {
    let mut key = KeyWriter::new("shop:");
    key.literal("t:");
    key.display(&7_u64);
    key.literal(":");
    key.absent();
    assert_eq!(key.finish(), "shop:t:7:~");
    assert_eq!(KeyWriter::new("").finish(), "");
}

#[test]
fn a_number_is_written_as_it_displays_itself() {
    for number in [0, 7, 10, 99, 12_345_678_909, u64::MAX] {
        let (mut key, mut displayed) = (KeyWriter::new("n:"), KeyWriter::new("n:"));
        key.number(number);
        displayed.display(&number);
        assert_eq!(&*key.finish(), &*displayed.finish());
    }
}

#[test]
fn an_ipv4_address_is_written_as_it_displays_itself() {
    for octets in [[0; 4], [255; 4], [10, 0, 0, 1], [192, 168, 27, 9]] {
        let (mut key, mut displayed) = (KeyWriter::new("ip:"), KeyWriter::new("ip:"));
        key.ipv4(octets);
        displayed.display(&std::net::Ipv4Addr::from(octets));
        assert_eq!(&*key.finish(), &*displayed.finish());
    }
}

#[test]
fn a_value_that_cannot_display_itself_does_not_panic() {
    struct Broken;
    impl fmt::Display for Broken {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("half")?;
            Err(fmt::Error)
        }
    }
    let mut key = KeyWriter::new("");
    key.display(&Broken);
    assert_eq!(key.finish(), "half");
}

#[test]
fn no_name_is_the_counter_or_the_log_of_another_limiter() {
    for (value, expected) in [
        ("value", "{orders}:value~"),
        ("permits", "{orders}:permits~"),
        ("values", "{orders}:values"),
    ] {
        let mut key = KeyWriter::new("");
        key.literal("{orders}:");
        key.part(value);
        assert_eq!(key.finish(), expected);
        // A literal that looks like the name above is another name.
        let mut longer = KeyWriter::new("");
        longer.literal(expected);
        assert_eq!(longer.finish() == expected, value == "values");
    }
    assert_eq!(safe_name("{a}:value"), "%7Ba%7D:value");
    assert_eq!(safe_name("{a}:permits:client"), "%7Ba%7D:permits:client");
    assert_eq!(safe_name("{a}:valued"), "{a}:valued");
    assert_eq!(safe_name("a:value"), "a:value");
}

#[test]
fn a_name_built_at_run_time_is_kept_where_possible() {
    let longest = "a".repeat(480);
    for (raw, expected) in [
        ("orders:42", "orders:42"),
        ("a b/é", "a b/é"),
        ("a{b}{c}", "a{b}{c}"),
        ("{{u}}", "{{u}}"),
        (&longest, &longest),
        ("", "~"),
        ("~", "%7E"),
        ("100%", "100%25"),
        ("a\n", "a%0A"),
        ("a\u{85}", "a%C2%85"),
        ("a{b", "a%7Bb"),
        ("a}b", "a%7Db"),
        ("x{}", "x%7B%7D"),
        ("{}{u}", "%7B%7D%7Bu%7D"),
        ("}{", "%7D%7B"),
    ] {
        assert_eq!(safe_name(raw), expected, "{raw:?}");
    }
    assert_eq!(safe_name(&"a".repeat(481)).len(), 33);
    assert_eq!(safe_name(&"%".repeat(161)).len(), 33);
    assert_eq!(safe_name(&"%".repeat(160)).len(), 480);
}

#[test]
fn a_prefix_is_short_and_has_no_braces() {
    let message = |prefix: &str| check_prefix(prefix).unwrap_err().to_string();
    assert_eq!(check_prefix(""), Ok(()));
    assert_eq!(check_prefix("shop:"), Ok(()));
    assert_eq!(check_prefix(&"a".repeat(31)), Ok(()));
    assert_eq!(message(&"a".repeat(32)), "the key prefix is too long; write at most 31 bytes");
    assert_eq!(message("{shop}:"), "the key prefix contains a brace; remove it");
    assert_eq!(
        message("a\n"),
        "the key prefix contains a control character; write printable characters only"
    );
}
