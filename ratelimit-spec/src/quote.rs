//! Quotes user input in messages.

use std::fmt::{self, Write};

/// The most characters of a text that a message repeats.
const MAX_SHOWN: usize = 60;

/// Shows a text in backticks, on one line and shortened: a message must stay readable, and a
/// terminal intact, for any text.
#[derive(Debug)]
pub struct Quoted<'a>(pub &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('`')?;
        write_on_one_line(f, self.0.chars().take(MAX_SHOWN))?;
        if self.0.chars().nth(MAX_SHOWN).is_some() {
            f.write_char('…')?;
        }
        f.write_char('`')
    }
}

/// Writes a text with its control characters escaped, so that it is one line and does no harm to a terminal.
///
/// # Errors
///
/// Returns the error of the formatter.
pub fn write_on_one_line(
    f: &mut fmt::Formatter<'_>,
    mut text: impl Iterator<Item = char>,
) -> fmt::Result {
    text.try_for_each(|c| match c.is_control() {
        true => write!(f, "{}", c.escape_default()),
        false => f.write_char(c),
    })
}

/// Lists words as "`a`, `b` or `c`".
#[must_use]
pub fn either(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        None => String::new(),
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::{Quoted, either};

    #[test]
    fn what_is_repeated_stays_short_and_on_one_line() {
        assert_eq!(Quoted("1 h").to_string(), "`1 h`");
        assert_eq!(Quoted("a\n\0\u{1b}[31m").to_string(), "`a\\n\\u{0}\\u{1b}[31m`");
        assert_eq!(Quoted(&"é".repeat(61)).to_string(), format!("`{}…`", "é".repeat(60)));
        assert_eq!(Quoted(&"é".repeat(60)).to_string(), format!("`{}`", "é".repeat(60)));
    }

    #[test]
    fn words_are_listed_like_a_sentence() {
        assert_eq!(either(&[]), "");
        assert_eq!(either(&["a"]), "`a`");
        assert_eq!(either(&["a", "b"]), "`a` or `b`");
        assert_eq!(either(&["a", "b", "c"]), "`a`, `b` or `c`");
    }
}
