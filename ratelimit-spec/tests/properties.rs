//! What holds for every text and every value.

#[path = "properties/seeded.rs"]
mod seeded;

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;
use ratelimit_spec::{
    KeyWriter, LimitsFile, MAX_NAME, MAX_PER, MIN_PER, Per, Template, Wait, expand_env,
    format_duration, nearest, parse_duration, safe_name,
};

use self::seeded::seeded;

/// The texts that have broken limiters, and random ones.
fn value() -> impl Strategy<Value = String> {
    #[rustfmt::skip]
    let hostile = vec![
        "", "a", "b", "a:b", "b:c", ":", "{", "}", "{}", "}{", "{a}", "{a", "a}", "\0", "\n", "\r\n", "%",
        "%41", "A", "%7B", "~", "~~", "a~", " ", "é", "日本", "\u{2028}", "value", "permits", "{a}:value",
        "b:value", "1", "12", "2", "-", ".", "_", "*", "[a]", "?", "\\", "\"", "'", "null", "\u{feff}",
    ];
    prop_oneof![
        4 => prop::sample::select(hostile).prop_map(str::to_owned),
        2 => "[a-c:{}%~]{0,6}",
        1 => any::<String>(),
        1 => "\\PC{0,90}",
        1 => (0_usize..130).prop_map(|n| "a".repeat(n)),
        1 => (0_usize..130).prop_map(|n| "%".repeat(n)),
    ]
}

/// Valid templates: literals and placeholders in turn, with and without literal braces.
fn template() -> impl Strategy<Value = Template> {
    let literal = prop::sample::select(vec![
        "", ":", "a:", ":b", "x:y", "/", " ", "é", "a", "%:", "~/", "{{t}}:", "}}:{{", "{{", "}}",
        ":value", ":value~",
    ]);
    let pieces = prop::collection::vec((literal, any::<bool>()), 1..7);
    pieces.prop_filter_map("a valid template", |pieces| {
        let placeholders = ["{p}", "{q?}"];
        let texts = pieces.iter().enumerate().map(|(n, (literal, is_last))| {
            let placeholder = if *is_last && n > 0 { "" } else { placeholders[n % 2] };
            format!("{literal}{placeholder}")
        });
        Template::parse(&texts.collect::<String>()).ok()
    })
}

/// What an annotated function does with its key.
fn render(prefix: &str, template: &Template, values: &[Option<String>]) -> String {
    let mut key = KeyWriter::new(prefix);
    key.literal(&template.literals()[0]);
    for (value, literal) in values.iter().zip(&template.literals()[1..]) {
        match value {
            Some(value) => key.part(value),
            None => key.absent(),
        }
        key.literal(literal);
    }
    key.finish().into()
}

/// As many values as a template has placeholders; absent only where that is possible.
fn values(template: &Template) -> impl Strategy<Value = Vec<Option<String>>> + use<> {
    let values = template.placeholders().iter().map(|placeholder| {
        let optional = placeholder.optional;
        prop::option::of(value())
            .prop_map(move |value| if optional { value } else { Some(value.unwrap_or_default()) })
    });
    values.collect::<Vec<_>>()
}

/// The Redis keys that the Java client makes of a name.
fn redis_keys(name: &str) -> [String; 3] {
    let suffix = |suffix: &str| {
        if name.contains('{') { format!("{name}:{suffix}") } else { format!("{{{name}}}:{suffix}") }
    };
    [name.to_owned(), suffix("value"), suffix("permits")]
}

/// The slot of a key in Redis Cluster: CRC-16/XMODEM of the hash tag, else of the whole key.
fn slot(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    let hashed = tag.filter(|tag| !tag.is_empty()).unwrap_or(key);
    let crc = hashed.bytes().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 }
        })
    });
    crc % 16_384
}

#[test]
fn slots_are_those_of_redis() {
    // The answers of `CLUSTER KEYSLOT`.
    for (key, expected) in
        [("123456789", 12_739), ("foo", 12_182), ("{foo}:value", 12_182), ("bar", 5_061), ("", 0)]
    {
        assert_eq!(slot(key), expected, "{key}");
    }
    assert_ne!(slot("a{b"), slot("a{b:value"));
}

fn check_name(name: &str) {
    assert!(name.len() <= 512, "{} bytes: {name}", name.len());
    assert!(!name.is_empty() && !name.contains(char::is_control), "{name:?}");
    let [slot_of_hash, others @ ..] = redis_keys(name).map(|key| slot(&key));
    assert!(others.iter().all(|&slot| slot == slot_of_hash), "{name}");
}

/// Whether a name is a counter or a log of the limiter of the other name. Those of one client end in
/// its id, which is a UUID.
fn is_key_of(name: &str, other: &str) -> bool {
    let [_, value, permits] = redis_keys(other);
    [value, permits].iter().any(|key| {
        let rest = name.strip_prefix(key.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':') && !rest.ends_with('~'))
    })
}

proptest! {
    #![proptest_config(seeded(1_000))]

    #[test]
    fn a_duration_is_read_as_it_was_written(
        millis in MIN_PER.as_millis()..=MAX_PER.as_millis(), nanos in 0_u32..1_000_000,
    ) {
        let whole = Duration::from_millis(u64::try_from(millis).unwrap());
        prop_assert_eq!(parse_duration(&format_duration(whole)), Ok(whole));
        let more = whole + Duration::from_nanos(nanos.into());
        prop_assert_eq!(format_duration(more), format_duration(whole));
        prop_assert_eq!(format_duration(whole).parse(), Ok(Wait::UpTo(whole)));
    }

    #[test]
    fn what_is_read_as_a_duration_is_one(text in "([0-9]{0,20}(ms|s|m|h|d|[a-z .+-])){0,5}|\\PC*") {
        if let Ok(duration) = parse_duration(&text) {
            prop_assert!((MIN_PER..=MAX_PER).contains(&duration));
            prop_assert_eq!(duration.subsec_nanos() % 1_000_000, 0);
            prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
        }
    }

    #[test]
    fn a_template_is_read_without_panic(text in "[a-z{}.:?_0 é]{0,24}|\\PC*|.*") {
        match Template::parse(&text) {
            Ok(template) => {
                prop_assert_eq!(template.literals().len(), template.placeholders().len() + 1);
                for placeholder in template.placeholders() {
                    let text = &text[placeholder.span.clone()];
                    let optional = if placeholder.optional { "?" } else { "" };
                    prop_assert_eq!(text, format!("{{{}{optional}}}", placeholder.path.join(".")));
                }
            }
            Err(error) => prop_assert!(text.get(error.span()).is_some(), "{error}"),
        }
    }

    #[test]
    fn different_values_have_different_names(
        (template, lists) in template().prop_flat_map(|template| {
            let lists = prop::collection::vec(values(&template), 8);
            (Just(template), lists)
        }),
    ) {
        let mut names = HashMap::new();
        for list in &lists {
            let name = render("", &template, list);
            if let Some(other) = names.insert(name.clone(), list) {
                prop_assert_eq!(list, other, "both are {}", name);
            }
        }
    }

    #[test]
    fn every_name_is_safe_in_redis(
        (template, list) in template().prop_flat_map(|template| {
            let list = values(&template);
            (Just(template), list)
        }),
        prefix in prop::sample::select(vec!["", "shop:", "0123456789012345678901234567890"]),
    ) {
        let name = render(prefix, &template, &list);
        check_name(&name);
        let literals: String = template.literals().concat();
        for brace in ['{', '}'] {
            prop_assert_eq!(name.matches(brace).count(), literals.matches(brace).count());
        }
        let unprefixed = render("", &template, &list);
        prop_assert!(unprefixed.len() <= MAX_NAME + 1);
        prop_assert!(template.can_render(&unprefixed), "{unprefixed}");
        for (end, _) in unprefixed.char_indices().chain([(unprefixed.len(), ' ')]) {
            let prefix = &unprefixed[..end];
            prop_assert!(template.can_start_with(prefix), "{prefix} of {unprefixed}");
        }
    }

    #[test]
    fn templates_that_render_one_name_overlap(
        (template, list) in template().prop_flat_map(|template| {
            let list = values(&template);
            (Just(template), list)
        }),
        other in template(),
    ) {
        let name = render("", &template, &list);
        prop_assert!(template.overlaps(&template));
        prop_assert_eq!(template.overlaps(&other), other.overlaps(&template));
        prop_assert!(!other.can_render(&name) || template.overlaps(&other), "{}", name);
        // A `~` at the end may have been appended to the name, and would be to the fixed key.
        if !name.ends_with('~') {
            let fixed = Template::parse(&name.replace('{', "{{").replace('}', "}}"));
            prop_assert!(fixed.is_err() || template.overlaps(&fixed.unwrap()), "{}", name);
        }
    }

    #[test]
    fn names_built_at_run_time_stay_different_and_safe(
        raw in prop::collection::vec(value(), 2..6),
    ) {
        let whole = raw.concat();
        for (one, other) in [(&raw[0], &raw[1]), (&raw[0], &whole)] {
            let (one_name, other_name) = (safe_name(one), safe_name(other));
            prop_assert_eq!(one == other, one_name == other_name);
            check_name(&one_name);
            check_name(&other_name);
            prop_assert!(one_name.len() <= MAX_NAME);
            prop_assert!(!is_key_of(&one_name, &other_name), "{} {}", one_name, other_name);
            prop_assert!(!is_key_of(&other_name, &one_name), "{} {}", one_name, other_name);
        }
    }

    #[test]
    fn a_rendered_name_is_no_key_of_another_limiter(
        (template, list) in template().prop_flat_map(|template| {
            let list = values(&template);
            (Just(template), list)
        }),
        other in prop::sample::select(vec!["t", "a", "{t}", "x"]),
    ) {
        prop_assert!(!is_key_of(&render("", &template, &list), other));
    }

    #[test]
    fn text_with_variables_is_expanded_without_panic(text in "[$\\{\\}A-C:\\-]{0,20}|\\PC*") {
        let _ = expand_env(&text, |name| (name != "B").then(|| name.to_owned()));
    }

    #[test]
    fn a_suggestion_is_one_of_the_known(name in "\\PC{0,12}", known in prop::collection::vec("[a-d]{0,8}", 0..6)) {
        let found = nearest(&name, known.iter().map(String::as_str));
        prop_assert!(found.is_none_or(|found| known.iter().any(|known| known == found)));
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = LimitsFile::parse(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn what_is_accepted_is_in_range(
        rate in prop_oneof![-2_i64..3, 2_147_483_645_i64..2_147_483_650, any::<i64>()],
        per in "[0-9]{0,5}(ms|s|m|h|d|x)?",
        keep_alive in "[0-9]{0,5}(ms|s|m|h|d)",
    ) {
        let text = format!("limiters:\n  a: {{ rate: {rate}, per: {per}, keep_alive: {keep_alive} }}\n");
        let in_range = (0..=2_147_483_647).contains(&rate);
        let durations = (parse_duration(&per), parse_duration(&keep_alive));
        match (LimitsFile::parse(&text), durations) {
            (Ok(file), (Ok(per), Ok(keep_alive))) => {
                let settings = &file.limiters[0].settings;
                prop_assert!(in_range && keep_alive >= per);
                prop_assert_eq!(settings.rate.map(i64::from), Some(rate));
                let per = Per { length: per, unit: None };
                prop_assert_eq!((settings.per, settings.keep_alive), (Some(per), Some(keep_alive)));
            }
            (Ok(_), _) => prop_assert!(false, "{text}"),
            (Err(problems), (Ok(per), Ok(keep_alive))) => {
                prop_assert!(!in_range || keep_alive < per, "{problems:?}");
            }
            (Err(problems), _) => {
                prop_assert!(problems.iter().all(|problem| problem.position.is_some()));
            }
        }
    }
}

#[test]
fn a_value_of_any_length_has_a_short_name() {
    let template = Template::parse("a:{p}:{p}:{p}:{p}:{p}:{p}:{p}").unwrap();
    for piece in ["a", "{", "\0", "\n", "%", "~", "é"] {
        for n in [1, 21, 22, 64, 65, 65_536] {
            let value = Some(piece.repeat(n));
            check_name(&render("", &template, &vec![value; 7]));
            check_name(&safe_name(&piece.repeat(n)));
        }
    }
    let (one, other) = ("{".repeat(65_536), format!("{}}}", "{".repeat(65_535)));
    assert_ne!(safe_name(&one), safe_name(&other));
}

#[test]
fn neighbours_do_not_borrow_from_each_other() {
    let template = Template::parse("{p}:{p}").unwrap();
    let name = |one: &str, other: &str| {
        render("", &template, &[Some(one.to_owned()), Some(other.to_owned())])
    };
    assert_eq!(name("a:b", "c"), "a%3Ab:c");
    assert_eq!(name("a", "b:c"), "a:b%3Ac");
}
