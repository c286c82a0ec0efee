use super::Template;
use crate::key::MAX_NAME;

fn error(text: &str) -> (std::ops::Range<usize>, String) {
    let error = Template::parse(text).expect_err(text);
    (error.span(), error.to_string())
}

#[test]
fn a_template_is_split_into_literals_and_placeholders() {
    for (text, literals, paths) in [
        ("checkout", &["checkout"][..], &[][..]),
        ("orders:{user_id}", &["orders:", ""], &["user_id"]),
        ("{a}", &["", ""], &["a"]),
        ("t:{order.tenant}:{id}!", &["t:", ":", "!"], &["order.tenant", "id"]),
        ("{self.0.name}", &["", ""], &["self.0.name"]),
        ("{_x}:{type}", &["", ":", ""], &["_x", "type"]),
        ("ip:{addr.ip()}", &["ip:", ""], &["addr.ip()"]),
        ("{self.user().0.name()?}", &["", ""], &["self.user().0.name()"]),
        ("größe:{größe}", &["größe:", ""], &["größe"]),
        ("{{orders}}:{id}", &["{orders}:", ""], &["id"]),
        ("o:{{{id}}}", &["o:{", "}"], &["id"]),
        ("a{{b}}{{c}}", &["a{b}{c}"], &[]),
        ("{{{{u}}}}", &["{{u}}"], &[]),
        ("a b/c%~é", &["a b/c%~é"], &[]),
    ] {
        let template = Template::parse(text).expect(text);
        assert_eq!(template.literals(), literals, "{text}");
        let found: Vec<String> = template.placeholders().iter().map(|p| p.path.join(".")).collect();
        assert_eq!(found, paths, "{text}");
        assert_eq!(template.is_static(), paths.is_empty());
        assert_eq!(template.text(), text);
    }
}

#[test]
fn a_placeholder_knows_its_place_and_whether_it_may_be_absent() {
    let template = Template::parse("é:{user?}:{id}").unwrap();
    let [user, id] = template.placeholders() else {
        panic!("there are two");
    };
    assert!(user.optional && !id.optional);
    assert_eq!(&template.text()[user.span.clone()], "{user?}");
    assert_eq!(&template.text()[id.span.clone()], "{id}");
}

#[test]
fn a_bad_template_says_where_and_what_to_write() {
    let example = "write a parameter or a field path, such as `{user_id}` or `{order.tenant}`";
    let not_a_path = |text: &str| format!("`{text}` is not a parameter or a field path; {example}");
    let braces = "the literal braces do not form a Redis Cluster hash tag; write `}}` after the first \
                  `{{`, with text in between";
    let unclosed = "unclosed `{` in the key; write `{{` for a literal brace";
    let not_a_call = |text: &str| {
        format!(
            "`{text}` is not a field path or a method call without arguments; write one such as \
             `{{order.tenant}}` or `{{addr.ip()}}`"
        )
    };
    for (text, span, message) in [
        ("", 0..0, "empty key; write a name such as `checkout` or `orders:{user_id}`".to_owned()),
        (" ", 0..1, "empty key; write a name such as `checkout` or `orders:{user_id}`".to_owned()),
        ("search:~shard-0", 6..8, "`:~` in the key is reserved for keys of the crate; remove the `~`".into()),
        ("a:{b}-~others", 6..13, "`~others` in the key is reserved for keys of the crate; remove the `~`".into()),
        ("a\nb", 1..2, "control character `\\n` in the key; write printable characters only".into()),
        ("a:{", 2..3, unclosed.into()),
        ("a:{id", 2..3, unclosed.into()),
        ("a:{id{b}", 2..3, unclosed.into()),
        ("a}", 1..2, "unmatched `}` in the key; write `}}` for a literal brace".into()),
        ("{a}}", 3..4, "unmatched `}` in the key; write `}}` for a literal brace".into()),
        ("a:{}", 2..4, format!("empty placeholder `{{}}`; {example}")),
        ("{0}", 0..3, not_a_path("{0}")),
        ("{?}", 0..3, not_a_path("{?}")),
        ("{a?.b}", 0..6, not_a_path("{a?.b}")),
        ("{a..b}", 0..6, not_a_path("{a..b}")),
        ("{.a}", 0..4, not_a_path("{.a}")),
        ("{a.}", 0..4, not_a_path("{a.}")),
        ("{a.00}", 0..6, not_a_path("{a.00}")),
        ("{a.self}", 0..8, not_a_path("{a.self}")),
        ("{_}", 0..3, not_a_path("{_}")),
        ("{Self}", 0..6, not_a_path("{Self}")),
        ("{a()}", 0..5, not_a_path("{a()}")),
        ("{a.b().c(1)}", 0..12, not_a_call("{a.b().c(1)}")),
        ("{a.b(}", 0..6, not_a_call("{a.b(}")),
        ("{a.0()}", 0..7, not_a_call("{a.0()}")),
        ("{a.()}", 0..6, not_a_call("{a.()}")),
        ("{Self::X}", 0..9, not_a_path("{Self::X}")),
        ("{a.b::<u8>()}", 0..13, not_a_call("{a.b::<u8>()}")),
        ("{user-id}", 0..9, not_a_path("{user-id}")),
        ("{r#match}", 0..9, "`{r#match}` has a raw prefix; write `{match}`".into()),
        ("{order.r#type?}", 0..15, "`{order.r#type?}` has a raw prefix; write `{order.type?}`".into()),
        ("{ⓐ}", 0..5, not_a_path("{ⓐ}")),
        ("{:?}", 0..4, not_a_path("{:?}")),
        ("{a:?}", 0..5, "`{a:?}` has a format specifier; write `{a}`".into()),
        ("{ a }", 0..5, "`{ a }` contains whitespace; write `{a}`".into()),
        ("{a as u32}", 0..10, "`{a as u32}` has a cast; write `{a}`".into()),
        ("{a + 1}", 0..7, not_a_path("{a + 1}")),
        ("{a.len() / 2}", 0..13, not_a_call("{a.len() / 2}")),
        ("{a[0]:?}", 0..8, not_a_path("{a[0]:?}")),
        ("{ }", 0..3, "`{ }` contains whitespace; write `{user_id}`".into()),
        (
            "x{a}{b}",
            1..7,
            "ambiguous key, values of `{a}` and `{b}` run together; put a separator such as `:` between them".into(),
        ),
        (
            "{a}-.~{b}",
            0..9,
            "ambiguous key, values of `{a}` and `{b}` run together; put a separator such as `:` between them".into(),
        ),
        ("a{{b", 1..3, braces.into()),
        ("a}}b", 1..3, braces.into()),
        ("x{{}}{u}", 1..3, braces.into()),
        ("}}{{", 2..4, braces.into()),
    ] {
        assert_eq!(error(text), (span, message), "{text}");
    }
}

#[test]
fn a_name_that_could_get_too_long_is_refused() {
    assert!(Template::parse(&"a".repeat(MAX_NAME)).is_ok());
    let (_, message) = error(&"a".repeat(MAX_NAME + 1));
    assert_eq!(message, "the key is 481 bytes long; write at most 480");

    let placeholders = |n: usize| vec!["{a}"; n].join(":");
    assert!(Template::parse(&placeholders(7)).is_ok());
    let (span, message) = error(&placeholders(8));
    assert_eq!(span, 0..31);
    assert_eq!(
        message,
        "the rendered key can have 527 bytes, 65 per placeholder; shorten it to at most 480"
    );
}

#[test]
fn a_template_knows_the_names_it_can_render() {
    for (template, name, expected) in [
        ("checkout", "checkout", true),
        ("checkout", "checkout1", false),
        ("orders:{id}", "orders:42", true),
        ("orders:{id}", "orders:a%20b", true),
        ("orders:{id}", "orders:~", true),
        ("orders:{id}", "orders:", false),
        ("orders:{id}", "orders", false),
        ("orders:{id}", "order:42", false),
        ("orders:{id}", "orders:a b", false),
        ("orders:{id}", "orders:a:b", false),
        ("{a}:{b}", "1:2", true),
        ("{a}:{b}", "1:", false),
        ("{a}:{b}", ":2", false),
        ("{a}x:{b}", "1x:2", true),
        ("{a}x:{b}", "x:2", false),
        ("{a}x:{b}", "1:2", false),
        ("{a}é{b}!", "1é2!", true),
        ("{a}é{b}!", "1é2", false),
        ("{a}é", "1", false),
        ("o:{{{id}}}", "o:{7}", true),
        ("o:{{{id}}}", "o:7", false),
        ("{{t}}:{id}", "{t}:value~", true),
        ("{{t}}:{id}", "{t}:value", false),
        ("{{t}}:{id}:value~", "{t}:1:value~~", true),
        ("{{t}}:{id}:value~", "{t}:1:value~", false),
    ] {
        assert_eq!(
            Template::parse(template).unwrap().can_render(name),
            expected,
            "{template} {name}"
        );
    }
    for (template, prefix, expected) in [
        ("orders:{id}", "ord", true),
        ("orders:{id}", "orders:vip-", true),
        ("orders:{id}", "order:", false),
        ("checkout", "check", true),
        ("checkout", "checkouts", false),
        ("orders:{id}", "orders:", true),
        ("orders:{id}", "orders:%40", true),
        // A wildcard, and values that are escaped in names, match nothing.
        ("orders:{id}", "orders:vip-*", false),
        ("orders:{id}", "orders:ann@example.com", false),
        ("orders:{id}", "orders:2001:db8:", false),
        ("orders:{id}", "orders:é", false),
        ("{a}:{b}", "1:2", true),
        ("{a}:{b}", "1:", true),
        ("{a}:{b}", ":", false),
        ("{a}:{b}", "1:2:", false),
        ("{a}x:{b}", "1x", true),
        ("{a}x:{b}", "1x:", true),
        ("{a}x:{b}", "1:", false),
        ("{a}x:{b}", "x:", false),
        ("{a}é{b}!", "1é2!", true),
        ("{a}é{b}!", "1é2!!", false),
        ("o:{{{id}}}", "o:{7}", true),
        ("o:{{{id}}}", "o:{}", false),
        ("{{t}}:value", "{t}:value~", true),
        ("{{t}}:{id}", "{t}:value~", true),
    ] {
        let found = Template::parse(template).unwrap().can_start_with(prefix);
        assert_eq!(found, expected, "{template} {prefix}");
    }
}

#[test]
fn templates_overlap_where_some_values_render_one_name() {
    for (one, other, expected) in [
        ("a:{user_id}", "a:{other}", true),
        ("a:{user_id}", "a:5", true),
        ("a:{user_id}", "a:", false),
        ("a:{user_id}", "a:{b}:{c}", false),
        ("a:{b}:{c}", "a:{d}:x", true),
        ("a:{b}:y", "a:{d}:x", false),
        ("{a}", "b{c}", true),
        ("{a}x", "b{c}", true),
        ("{a}:x", "b:{c}", true),
        ("{a}:x", "b:y{c}", false),
        ("{a}:c{b}", "{c}:d{e}", false),
        ("a:{b}", "a:{b?}", true),
        ("a:{b}", "b:{b}", false),
        ("a", "a", true),
        ("a", "b", false),
        ("{{a}}:value", "{{a}}:value~", false),
        ("{{a}}:{b}", "{{a}}:value~", true),
        ("{{a}}:{b}:value", "{{a}}:{b}:value~", false),
        ("{{a}}:{b}", "a:{b}", false),
        ("größe:{a}", "größe:{b}!", false),
    ] {
        let (one, other) = (Template::parse(one).unwrap(), Template::parse(other).unwrap());
        assert_eq!(one.overlaps(&other), expected, "{} {}", one.text(), other.text());
        assert_eq!(other.overlaps(&one), expected, "{} {}", other.text(), one.text());
        assert!(one.overlaps(&one) && other.overlaps(&other));
    }
}
