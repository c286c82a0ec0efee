//! The guard and the outline, compared with the YAML parser.

#[path = "../../../tests/properties/seeded.rs"]
mod seeded;

use proptest::prelude::*;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use self::seeded::seeded;
use super::outline::outline;
use super::scan::scan;
use crate::limits_file::node::{Node, Value};
use crate::limits_file::{LimitsFile, MAX_DEPTH, Position, read};

/// One step on the path to a node: the key or the value of a map entry, or a list element.
#[derive(Clone, Copy, Debug)]
enum Turn {
    Key(usize),
    Value(usize),
    Element(usize),
}

/// Walks to a node and fails there on purpose, so that the parser reports its position.
struct FailAt<'a>(&'a [Turn]);

impl<'de> DeserializeSeed<'de> for FailAt<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for FailAt<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the end of the path")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let [Turn::Element(index), rest @ ..] = self.0 else {
            return Err(A::Error::custom("here"));
        };
        for _ in 0..*index {
            list.next_element::<IgnoredAny>()?;
        }
        list.next_element_seed(FailAt(rest)).map(drop)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (index, rest, in_key) = match self.0 {
            [Turn::Key(index), rest @ ..] => (*index, rest, true),
            [Turn::Value(index), rest @ ..] => (*index, rest, false),
            _ => return Err(A::Error::custom("here")),
        };
        for _ in 0..index {
            map.next_entry::<IgnoredAny, IgnoredAny>()?;
        }
        if in_key {
            return map.next_key_seed(FailAt(rest)).map(drop);
        }
        map.next_key::<IgnoredAny>()?;
        map.next_value_seed(FailAt(rest))
    }
}

fn place_by_parser(text: &str, path: &[Turn]) -> Position {
    let deserializer = serde_yaml::Deserializer::from_str(text);
    let error = FailAt(path).deserialize(deserializer).expect_err("it fails on purpose");
    let location = error.location().expect("an error in the text has a place");
    Position { line: location.line(), column: location.column() }
}

/// Checks that every node in the text has the position that the parser reports.
fn check_places(text: &str, node: &Node, path: &mut Vec<Turn>) {
    // The tree does not distinguish an absent value from `null` or `~`.
    if node.position.is_some() || node.value != Value::Null {
        assert_eq!(node.position, Some(place_by_parser(text, path)), "{path:?} of\n{text}");
    }
    let mut check = |turn: Turn, node: &Node| {
        path.push(turn);
        check_places(text, node, path);
        path.pop();
    };
    match &node.value {
        Value::List(nodes) => {
            for (index, node) in nodes.iter().enumerate() {
                check(Turn::Element(index), node);
            }
        }
        Value::Map(entries) => {
            for (index, (key, value)) in entries.iter().enumerate() {
                check(Turn::Key(index), key);
                check(Turn::Value(index), value);
            }
        }
        _ => {}
    }
}

fn depth(node: &Node) -> usize {
    match &node.value {
        Value::List(nodes) => 1 + nodes.iter().map(depth).max().unwrap_or(0),
        Value::Map(entries) => {
            let nodes = entries.iter().flat_map(|(key, value)| [key, value]);
            1 + nodes.map(depth).max().unwrap_or(0)
        }
        _ => 0,
    }
}

/// Checks a text if both the guard and the parser accept it. Returns whether they do.
fn check(text: &str) -> bool {
    let Ok(tokens) = scan(text) else {
        return false;
    };
    let Ok(mut root) = Node::parse(text) else {
        return false;
    };
    assert!(depth(&root) <= 2 * MAX_DEPTH, "{text}");
    match outline(&tokens) {
        Some(outline) => root.place(&outline),
        None => assert!(root.value == Value::Null, "{text}"),
    }
    check_places(text, &root, &mut Vec::new());
    true
}

#[test]
fn every_place_is_the_one_the_parser_gives() {
    for text in [
        "",
        "# nothing\n",
        "---\n",
        "--- {a: 1}\n",
        "a: 1\nb: 2\n",
        "a: 1\r\nb:\r\n  c: 2\r\n",
        "a:\n  b:\n    c: 1\n  d: 2\ne: 3",
        "a:\n- 1\n- 2\nb: 3\n",
        "a:\n  - b: 1\n    c: 2\n  - d: 3\n  -\n  - - 1\n    - 2\ne:\n",
        "a:\nb: ~\nc:\n  - ~\n  -\n",
        "- a\n- b: 1\n-\n  c: 2\n-\n  - d\n",
        "a: { b: 1, c: [1, 2, { d: 3 }], e: , f }\ng: []\nh: {}\n",
        "a: [\n  1,\n  b: 2,\n  [],\n]\nc: {\n  d: 1, # note\n  \"e\": 'it''s'\n}\n",
        "{\"a\":{\"b\":[1,2]},\"c\":\"\\\"x\"}",
        "\"orders:{id}\":\n  rate: 5\norders:{id}: 1\n'a: b': c # d\na#b: c:d\n",
        "é: \"日本\"   \n本: [é, 日, {本: é}]\n",
        "a:   1\n\n# x\n\nb:\t2\n",
        "{a: 1}: 2\n[b]: 3\n",
        "a:\n  b: 1\n  # shallow\n # shallower\n  c: 2\n",
        include_str!("../reference.yaml"),
    ] {
        assert!(check(text), "{text}");
    }
}

#[test]
fn the_reference_sets_every_option() {
    let text = include_str!("../reference.yaml");
    let file = LimitsFile::parse(text).expect("the reference is without problems");
    let name_of = |line: &str| line.trim_start().split(':').next().map(str::to_owned);
    let options: Vec<String> = text
        .lines()
        .filter(|line| !line.trim_start().starts_with(['#', '-', '"']))
        .filter_map(name_of)
        .collect();
    for option in read::options() {
        assert!(options.iter().any(|known| known == option), "{option} is missing");
    }
    let read = format!("{file:?}");
    // A length has no unit, several limits replace `rate`, `per` and `burst`, and a burst excludes a
    // warm-up.
    let mut default = format!("{:?}", file.default);
    for alternative in ["unit: None", "limits: None", "warm_up: None"] {
        default = default.replace(alternative, "");
    }
    assert!(!default.contains("None"), "{default}");
    assert!(read.starts_with("LimitsFile { store: Some(\"...\"), key_prefix: Some(\"shop:\")"));
}

/// Generates texts from YAML syntax, so that many of them are almost valid files.
fn yaml_like() -> impl Strategy<Value = String> {
    #[rustfmt::skip]
    let pieces = vec![
        "a", "b: ", "c:", "- ", "-", "[", "]", "{", "}", ", ", ",", ":", ": ", " ", "\n", "\n", "\n  ",
        "\n    ", "\n- ", "\n  - ", "\"", "'", "\"d\"", "'e'", "#", " # f", "x: 1\n", "? ", "?", "&a ",
        "*a", "!t ", "|", ">", "~", "---\n", "...", "\t", "\\", "é", "%", "@", "1", "\r\n", "{g: h}",
        "[i, j]", "null", "\"k\": ", "-1", ":l", "\u{85}", "\u{2028}", "\u{feff}",
    ];
    #[rustfmt::skip]
    let lines = vec![
        "a: 1", "b:", "- c", "-", "- d: 2", "- e:", "- - f", "g: {", "}", "h: [", "],", "], i", "j",
        "k, l", "\"m\": 'n'", "- {o: [p]}", "[q]: r", "s: # t", "# u", "", "- [", "{v: w,", "x: y, z",
        "'a': \"b\",", "---", "c:d", ":e", "f :", "- -",
    ];
    let pieces = prop::sample::select(pieces).prop_map(str::to_owned);
    let lines = (0_usize..6, prop::sample::select(lines));
    let lines = lines.prop_map(|(indent, line)| format!("{}{line}\n", " ".repeat(indent)));
    prop_oneof![
        prop::collection::vec(pieces, 0..16).prop_map(|pieces| pieces.concat()),
        prop::collection::vec(lines, 0..8).prop_map(|lines| lines.concat()),
    ]
}

proptest! {
    #![proptest_config(seeded(4_000))]

    #[test]
    fn what_the_guard_lets_through_is_what_it_took_it_for(text in yaml_like()) {
        check(&text);
    }

    #[test]
    fn a_line_without_a_colon_is_not_yaml_for_the_parser_either(text in yaml_like()) {
        let no_colon = |text: &str| scan(text).err().filter(|problem| problem.message.contains("no `: `"));
        let line = no_colon(&text).and_then(|problem| problem.position).map(|at| at.line);
        // The guard refuses text over two lines as well, which the parser reads.
        let lines = text.split_inclusive('\n').take(line.unwrap_or(0));
        if no_colon(&lines.collect::<String>()).is_some() {
            prop_assert!(Node::parse(&text).is_err(), "{}", text);
        }
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in yaml_like()) {
        let _ = LimitsFile::parse(&text);
    }
}
