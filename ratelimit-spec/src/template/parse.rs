//! Parses a text into literals and placeholders.

use std::ops::Range;

use super::{Placeholder, Template, TemplateError};
use crate::quote::Quoted;

/// The end of a message that explains placeholders.
const EXAMPLE: &str = "write a parameter or a field path, such as `{user_id}` or `{order.tenant}`";

/// Marks the crate's own keys, such as `ratelimit:~members` and `search:~shard-0`, and the key that the values beyond
/// `max_keys` share. A rendered value contains neither.
const OWN: [&str; 2] = [":~", "~others"];

pub(super) fn parse(text: &str) -> Result<Template, TemplateError> {
    if text.trim().is_empty() {
        let message = "empty key; write a name such as `checkout` or `orders:{user_id}`";
        return Err(TemplateError::new(0..text.len(), message.to_owned()));
    }
    if let Some((at, c)) = text.char_indices().find(|(_, c)| c.is_control()) {
        let message = format!(
            "control character {} in the key; write printable characters only",
            Quoted(c.encode_utf8(&mut [0; 4])),
        );
        return Err(TemplateError::new(at..at + c.len_utf8(), message));
    }
    let mut literals = vec![String::new()];
    let mut placeholders = Vec::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let literal = literals.last_mut().expect("it starts with one literal");
        if rest.starts_with("{{") || rest.starts_with("}}") {
            literal.push(c);
            at += 2;
        } else if c == '{' {
            let placeholder = placeholder(text, at)?;
            at = placeholder.span.end;
            placeholders.push(placeholder);
            literals.push(String::new());
        } else if c == '}' {
            let message = "unmatched `}` in the key; write `}}` for a literal brace";
            return Err(TemplateError::new(at..at + 1, message.to_owned()));
        } else {
            literal.push(c);
            at += c.len_utf8();
        }
    }
    for own in OWN {
        if let Some(at) = text.find(own) {
            let message =
                format!("`{own}` in the key is reserved for keys of the crate; remove the `~`");
            return Err(TemplateError::new(at..at + own.len(), message));
        }
    }
    let has_braces = literals.iter().any(|literal| literal.contains(['{', '}']));
    Ok(Template { text: text.to_owned(), literals, placeholders, has_braces })
}

/// Reads the placeholder whose `{` is at `start`.
fn placeholder(text: &str, start: usize) -> Result<Placeholder, TemplateError> {
    let inside = start + 1;
    let Some(length) =
        text[inside..].find(['{', '}']).filter(|&n| text[inside + n..].starts_with('}'))
    else {
        let message = "unclosed `{` in the key; write `{{` for a literal brace";
        return Err(TemplateError::new(inside - 1..inside, message.to_owned()));
    };
    let span = start..inside + length + 1;
    let content = &text[inside..inside + length];
    let (path, optional) = match content.strip_suffix('?') {
        Some(path) => (path, true),
        None => (content, false),
    };
    if !is_path(path) {
        return Err(explain(content, span));
    }
    Ok(Placeholder { path: path.split('.').map(str::to_owned).collect(), optional, span })
}

fn explain(content: &str, span: Range<usize>) -> TemplateError {
    let whole = format!("{{{content}}}");
    let whole = Quoted(&whole);
    let repair = match (content.split_once(':'), content.split_once(" as ")) {
        // The `::` of a path is none.
        (Some((path, specifier)), _) if !specifier.starts_with(':') => {
            Some(("has a format specifier", path.to_owned()))
        }
        (_, Some((path, _))) => Some(("has a cast", path.to_owned())),
        // The attribute itself adds the prefix if a name is a keyword.
        _ if content.contains("r#") => Some(("has a raw prefix", content.replace("r#", ""))),
        _ if content.contains(char::is_whitespace) => {
            let words: Vec<&str> = content.split_whitespace().collect();
            let name = if words.is_empty() { "user_id".to_owned() } else { words.join("_") };
            Some(("contains whitespace", name))
        }
        _ => None,
    };
    let repair = repair.filter(|(_, name)| is_path(name.strip_suffix('?').unwrap_or(name)));
    let message = match repair {
        _ if content.is_empty() => format!("empty placeholder `{{}}`; {EXAMPLE}"),
        Some((mistake, name)) => {
            format!("{whole} {mistake}; write {}", Quoted(&format!("{{{name}}}")))
        }
        _ if content.contains('.') && content.contains('(') => format!(
            "{whole} is not a field path or a method call without arguments; write one such as \
             `{{order.tenant}}` or `{{addr.ip()}}`"
        ),
        _ => format!("{whole} is not a parameter or a field path; {EXAMPLE}"),
    };
    TemplateError::new(span, message)
}

/// Returns whether this is a name followed by fields and calls of methods.
fn is_path(path: &str) -> bool {
    path.split('.').enumerate().all(|(index, segment)| {
        // A call stands for itself, with its parentheses: `ip()`.
        let name = segment.strip_suffix("()").filter(|_| index > 0).unwrap_or(segment);
        is_identifier(name, index == 0) || index > 0 && is_index(segment)
    })
}

/// Returns whether this can name a parameter or a field. A keyword other than these can, because the
/// attribute writes it as a raw identifier (`r#type`).
fn is_identifier(segment: &str, first: bool) -> bool {
    let mut chars = segment.chars();
    let starts = chars.next().is_some_and(|c| c == '_' || unicode_ident::is_xid_start(c));
    starts
        && chars.all(unicode_ident::is_xid_continue)
        && !matches!(segment, "_" | "crate" | "super" | "Self")
        && (first || segment != "self")
}

/// Returns whether this can be a field of a tuple.
fn is_index(segment: &str) -> bool {
    segment == "0"
        || segment.len() <= 4
            && segment.bytes().all(|b| b.is_ascii_digit())
            && !segment.starts_with('0')
            && !segment.is_empty()
}
