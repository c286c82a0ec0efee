//! Which YAML a limits file can be written in: one set of hostile and of ordinary texts.
//!
//! The scanner in front of the YAML parser says where everything stands, and refuses what the two could
//! understand differently. A parser with positions of its own, `saphyr-parser` 0.3.3, was held against this set
//! to replace it. It refuses texts that are read here, marked `other` (a tab after `:` or before a line in
//! brackets, `#` right after a quote or bracket, a closing bracket left of an indented map), and it reads
//! differently what is marked `breaks`, since YAML 1.2 has fewer line breaks than the parser's 1.1.

use ratelimit_spec::LimitsFile;

/// Read by the scanner and the YAML parser.
const READ: &[&str] = &[
    "",
    "---\n",
    "\u{feff}a: 1\n",
    "a: 1\r\nb: 2\r\n",
    "a: [\n  1,\n]\n",
    "a:\n  b: {\n    c: 1,\n  }\n",
    "a: { \tb: 1 }\n",
    "{\n  \"a\": [\n    1\n  ]\n}\n",
    "{a: 1, a: 2}\n",
    "a: 1\na: 2\n",
    "\"a\\u003a\\\"b\\/\": 1\n",
    "'a''b': 1\n",
    "<<: {a: 1}\n",
    "a: \u{1f600}\n",
    "yes: no\n",
    "a: on\n",
    "a: 0o7\n",
    "a: 012\n",
    "a: 1:30\n",
    "a: ~\n",
    "a: orders:{id}\n",
    "a: [b, c: d]\n",
    "a: {b, c}\n",
    "[a, [b]]: c\n",
    "- - a\n",
    // other
    "a:\t1\n",
    "a: {\n\tb: 1 }\n",
    "a: \"b\"#c\n",
    "a: [1]#c\n",
    "  a: {\n  }\n",
];

/// Refused, before or by the YAML parser.
const REFUSED: &[&str] = &[
    "a: &b 1\nc: *b\n",
    "a: &x {b: 1}\nc:\n  <<: *x\n",
    "a: !!str 1\n",
    "a: !t b\n",
    "a: 1\n---\nb: 2\n",
    "---\na: 1\n...\n",
    "%YAML 1.2\n---\na: 1\n",
    "a: |\n  b\n",
    "a: >-\n  b\n",
    "? a\n: b\n",
    "a:\n\tb: 1\n",
    "a: 1\rb: 2\n",
    "a: 1\n\u{feff}b: 2\n",
    "\u{feff}---\na: 1\n\u{feff}",
    "a: \u{7f}\n",
    "a: \u{0}\n",
    "a: \"\u{1}\"\n",
    "a: \u{fffe}\n",
    "a: b\n  c\n",
    "a: \"b\n  c\"\n",
    "\"a\\\n  b\": 1\n",
    "a: b: c\n",
    "a: 1\n b: 2\n",
    "a:\n  b: 1\n c: 2\n",
    "a: [1,,2]\n",
    "a: [,]\n",
    "{a: orders:{id}}\n",
    "{a\n: 1}\n",
    "a: - b\n",
    "a: @b\n",
    "a: %b\n",
    "a: 'b'c\n",
    "a: \"\\q\"\n",
    "[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]\n",
    // breaks
    "a: b # \u{85}[[[[\n",
    "a: b # \u{2028}[[[[\n",
    "a: b # \u{2029}[[[[\n",
];

fn is_yaml(text: &str) -> bool {
    let problems = LimitsFile::parse(text).err().unwrap_or_default();
    problems.iter().all(|problem| !problem.is_syntax)
}

#[test]
fn ordinary_yaml_is_read() {
    for text in READ {
        assert!(is_yaml(text), "{text:?}: {:?}", LimitsFile::parse(text).err());
    }
}

#[test]
fn yaml_that_can_be_understood_differently_is_refused() {
    for text in REFUSED {
        assert!(!is_yaml(text), "{text:?}");
    }
}
