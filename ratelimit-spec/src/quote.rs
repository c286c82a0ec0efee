//! Quotes user input in messages.

use std::fmt::{self, Write};

/// The most characters of a text that a message repeats.
const MAX_SHOWN: usize = 60;

/// Shows a text in backticks, on one line and shortened: a message must stay readable, and a
/// terminal intact, for any text. Of an address that may contain a password it shows only the scheme: the
/// store may be written in a place where any text is quoted.
#[derive(Debug)]
pub struct Quoted<'a>(pub &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shown, hidden) = match login_of(self.0) {
            Some(at) => (&self.0[..at], "***"),
            None => (self.0, ""),
        };
        f.write_char('`')?;
        if !write_shortened(f, shown, MAX_SHOWN)? {
            f.write_str(hidden)?;
        }
        f.write_char('`')
    }
}

/// Returns where the part after the scheme begins, if the text is an address with a login or with parameters.
fn login_of(text: &str) -> Option<usize> {
    let at = text.find("://")? + "://".len();
    text[at..].contains(['@', '=']).then_some(at)
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

/// Writes at most this many characters of a text on one line. Returns whether it was longer.
///
/// # Errors
///
/// Returns the error of the formatter.
pub fn write_shortened(
    f: &mut fmt::Formatter<'_>,
    text: &str,
    most: usize,
) -> Result<bool, fmt::Error> {
    write_on_one_line(f, text.chars().take(most))?;
    let is_cut = text.chars().nth(most).is_some();
    if is_cut {
        f.write_char('…')?;
    }
    Ok(is_cut)
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
    fn a_password_in_an_address_is_not_repeated() {
        for (text, shown) in [
            ("redis://:secret@h/0", "`redis://***`"),
            ("store:redis://u:secret@h", "`store:redis://***`"),
            ("unix:///a.sock?pass=secret", "`unix://***`"),
            ("redis://h:6379/0", "`redis://h:6379/0`"),
            ("https://{host}", "`https://{host}`"),
            ("ann@example.com", "`ann@example.com`"),
        ] {
            assert_eq!(Quoted(text).to_string(), shown);
        }
    }

    #[test]
    fn words_are_listed_like_a_sentence() {
        assert_eq!(either(&[]), "");
        assert_eq!(either(&["a"]), "`a`");
        assert_eq!(either(&["a", "b"]), "`a` or `b`");
        assert_eq!(either(&["a", "b", "c"]), "`a`, `b` or `c`");
    }
}
