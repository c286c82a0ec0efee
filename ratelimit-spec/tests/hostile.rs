//! Limits files made to hang the reader: each is refused, or read, in milliseconds.

use std::time::Duration;

use ratelimit_spec::LimitsFile;

/// Far above what any of these takes even in an unoptimized build on a busy machine, and far below
/// the half minute that the YAML parser alone needs for the worst of them.
const LIMIT: Duration = Duration::from_secs(2);

#[expect(clippy::disallowed_methods, reason = "this test is about the time that passes")]
#[expect(clippy::print_stdout, reason = "the times are worth a look, with `--nocapture`")]
fn time(name: &str, text: &str) -> Duration {
    let start = std::time::Instant::now();
    let result = LimitsFile::parse(text);
    let elapsed = start.elapsed();
    let outcome = match &result {
        Ok(_) => "read".to_owned(),
        Err(problems) => problems[0].to_string().chars().take(60).collect(),
    };
    println!("{elapsed:>12.1?} {:>7} bytes {name:?}: {outcome}", text.len());
    elapsed
}

/// Repeats a piece up to about so many bytes.
fn fill(piece: &str, n_bytes: usize) -> String {
    piece.repeat(n_bytes / piece.len())
}

/// Writes numbered pieces up to about so many bytes.
fn count(n_bytes: usize, piece: impl Fn(usize) -> String) -> String {
    let mut text = String::new();
    for n in 0.. {
        let piece = piece(n);
        if text.len() + piece.len() > n_bytes {
            break;
        }
        text.push_str(&piece);
    }
    text
}

/// Pieces that make a hostile file when repeated.
#[rustfmt::skip]
const PIECES: &[&str] = &[
    "[", "{", "- ", "-\n", "? ", "?\n", "a: ", "a:\n", ": ", "&a ", "*a ", "&a [", "!t ", "!!t ", "\"",
    "'", "\"\" ", "'' ", "\\", "#", "#\n", "\n", " ", "\t", "\r", "\0", "|\n", ">\n", "%", "---\n",
    "...\n", "[]", "{}", "[{", "{[", "]", "}", ",", "a\n", "é", "\u{feff}", "\u{2028}", "<<: *a\n", "- - ",
    "- a: ", "[a, ", "{a: ", "{a, ", "[a: ", "\"a\": ", "-\t", "~", "a:1 ",
];

/// Hostile files with a beginning and an end.
fn brackets(n_bytes: usize) -> Vec<(&'static str, String)> {
    let map = count(n_bytes, |n| format!("{n:x}_: {{}},"));
    let alias = |n: usize| format!("a{}: &a{} [*a{n}, *a{n}, *a{n}]\n", n + 1, n + 1);
    vec![
        ("nested maps", count(n_bytes, |n| format!("{}a:\n", " ".repeat(n)))),
        ("[a, a]", format!("[{}]", fill("a,", n_bytes))),
        ("{a, a}", format!("{{{}}}", fill("a,", n_bytes))),
        ("{a: {}}", format!("{{{map}}}")),
        ("[a: , a: ]", format!("[{}]", fill("a: ,", n_bytes))),
        ("[[], []]", format!("[{}]", fill("[],", n_bytes))),
        ("long text", format!("store: {}", fill("a", n_bytes))),
        ("long key", format!("{}: 1", fill("a", n_bytes))),
        ("words", format!("store: {}", fill("a ", n_bytes))),
        ("escapes", format!("store: \"{}\"", fill("\\n", n_bytes))),
        ("aliases", format!("a0: &a0 x\n{}", count(n_bytes, alias))),
    ]
}

/// Files that are almost right, at length.
fn limits(n_bytes: usize) -> Vec<(&'static str, String)> {
    let limiters =
        |entry: &dyn Fn(usize) -> String| format!("limiters:\n{}", count(n_bytes, entry));
    let prefixes =
        |entry: &dyn Fn(usize) -> String| format!("prefixes:\n{}", count(n_bytes, entry));
    let overrides = count(n_bytes, |n| format!("  - key: a:{n:x}\n"));
    vec![
        ("unknown fields", count(n_bytes, |n| format!("{n:x}_:\n"))),
        ("one field again", fill("strict: true\n", n_bytes)),
        ("limiters", limiters(&|n| format!(" a{n:x}: {{rate: 2, per: 1s}}\n"))),
        ("bad limiters", limiters(&|n| format!(" {{a{n:x}}}: {{rate: -2}}\n"))),
        ("bad keys", limiters(&|n| format!(" \"{{a{n:x}\": {{rat: 2}}\n"))),
        ("prefixes", prefixes(&|n| format!("- prefix: a{n:x}\n"))),
        ("long prefixes", prefixes(&|n| format!("- prefix: {}\n", "a".repeat(480 - n % 480)))),
        ("overrides", format!("limiters:\n \"a:{{b}}\":\n  overrides:\n{overrides}")),
    ]
}

#[test]
fn no_file_takes_long() {
    for n_bytes in [100_000, 256 * 1024 - 200] {
        let repeated = PIECES.iter().map(|&piece| (piece, fill(piece, n_bytes)));
        for (name, text) in repeated.chain(brackets(n_bytes)).chain(limits(n_bytes)) {
            let elapsed = time(name, &text);
            assert!(elapsed < LIMIT, "{name:?} took {elapsed:?}");
        }
    }
}
