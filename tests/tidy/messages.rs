//! Each message of the macros is shown by a case of the UI tests.

use proc_macro2::{TokenStream, TokenTree};

use super::files;

#[test]
fn every_message_of_the_macros_is_in_some_case() {
    let cases = files("tests/compile/ui", "stderr");
    let mut unseen = Vec::new();
    for (source, text) in files("ratelimit-macros/src", "rs") {
        if source.ends_with("golden.rs") || source.ends_with("tests.rs") {
            continue;
        }
        let tokens: TokenStream = text.split("#[cfg(test)]").next().unwrap().parse().unwrap();
        let hidden = messages(tokens).into_iter().filter(|message| {
            !cases.iter().flat_map(|(_, case)| case.lines()).any(|line| holds(line, message))
        });
        unseen.extend(hidden.map(|message| format!("{source}: {message}")));
    }
    assert!(unseen.is_empty(), "no case in `tests/compile/ui` shows\n{}", unseen.join("\n"));
}

/// The literals that read like a message: what is wrong, `;`, what to write.
fn messages(tokens: TokenStream) -> Vec<String> {
    let mut found = Vec::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            // An attribute; doc comments are among them.
            TokenTree::Punct(hash) if hash.as_char() == '#' => {
                tokens.next_if(
                    |next| matches!(next, TokenTree::Punct(inner) if inner.as_char() == '!'),
                );
                tokens.next_if(|next| matches!(next, TokenTree::Group(_)));
            }
            TokenTree::Group(group) => found.extend(messages(group.stream())),
            TokenTree::Literal(literal) => {
                let text =
                    syn::parse_str::<syn::LitStr>(&literal.to_string()).map(|text| text.value());
                found.extend(text.ok().filter(|text| text.contains("; ")));
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) => {}
        }
    }
    found
}

/// Whether a line holds the fixed parts of a message, in their order.
fn holds(line: &str, message: &str) -> bool {
    let message = message.replace("{{", "\u{1}").replace("}}", "\u{2}");
    let mut rest = line;
    for (position, part) in message.split('{').enumerate() {
        let fixed = if position == 0 {
            part
        } else {
            part.split_once('}').map_or(part, |(_, fixed)| fixed)
        };
        let fixed = fixed.replace('\u{1}', "{").replace('\u{2}', "}");
        let Some(start) = rest.find(&fixed) else {
            return false;
        };
        rest = &rest[start + fixed.len()..];
    }
    true
}
