//! A reader of structured fields of its own (RFC 9651): lists of strings with parameters, as strict as the
//! standard is.

/// A string, and its parameters in the order of the field.
pub(crate) type Item = (String, Vec<(String, i64)>);

/// Reads a list, or panics at what the grammar does not allow.
pub(crate) fn list(field: &str) -> Vec<Item> {
    let mut rest = field.trim_matches(' ');
    let mut items = Vec::new();
    while !rest.is_empty() {
        items.push(item(&mut rest));
        rest = rest.trim_start_matches([' ', '\t']);
        if let Some(after) = rest.strip_prefix(',') {
            rest = after.trim_start_matches([' ', '\t']);
            assert!(!rest.is_empty(), "a comma at the end of {field:?}");
        } else {
            assert!(rest.is_empty(), "{rest:?} in {field:?}");
        }
    }
    items
}

fn item(rest: &mut &str) -> Item {
    let name = string(rest);
    let mut parameters = Vec::new();
    while let Some(after) = rest.strip_prefix(';') {
        *rest = after.trim_start_matches(' ');
        let key =
            take(rest, |c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-.*".contains(c));
        assert!(key.starts_with(|c: char| c.is_ascii_lowercase() || c == '*'), "the key {key:?}");
        *rest = rest.strip_prefix('=').expect("a parameter with a value");
        let digits = take(rest, |c| c.is_ascii_digit() || c == '-');
        assert!(digits.trim_start_matches('-').len() <= 15, "the integer {digits}");
        parameters.push((key.to_owned(), digits.parse().unwrap()));
    }
    (name, parameters)
}

fn string(rest: &mut &str) -> String {
    let mut chars = rest.strip_prefix('"').expect("a string in quotes").char_indices();
    let mut string = String::new();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => {
                *rest = &rest[at + 2..];
                return string;
            }
            '\\' => {
                let (_, escaped) = chars.next().expect("an escaped character");
                assert!(matches!(escaped, '"' | '\\'), "an escaped {escaped:?}");
                string.push(escaped);
            }
            c => {
                assert!((' '..='~').contains(&c), "the character {c:?}");
                string.push(c);
            }
        }
    }
    panic!("a string without an end");
}

fn take<'a>(rest: &mut &'a str, fits: impl Fn(char) -> bool) -> &'a str {
    let (taken, after) = rest.split_at(rest.find(|c| !fits(c)).unwrap_or(rest.len()));
    *rest = after;
    taken
}
