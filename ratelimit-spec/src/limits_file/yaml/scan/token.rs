//! The tokens of a limits file, and the characters that no token can contain.

use crate::limits_file::problem::Position;

/// A token of a limits file and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::limits_file::yaml) struct Token {
    pub(in crate::limits_file::yaml) kind: Kind,
    pub(in crate::limits_file::yaml) position: Position,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::limits_file::yaml) enum Kind {
    /// Text, quoted or not: a key or a value.
    Scalar,
    /// `:` after a key.
    Colon,
    /// `-` before an element of a list.
    Dash,
    /// `[`
    OpenList,
    /// `{`
    OpenMap,
    /// `]` or `}`
    Close,
    /// `,`
    Comma,
}

impl Token {
    /// Returns the bracket of this opening token.
    pub(super) fn open(self) -> char {
        if self.kind == Kind::OpenMap { '{' } else { '[' }
    }

    /// Returns the bracket that closes this one.
    pub(super) fn close(self) -> char {
        if self.kind == Kind::OpenMap { '}' } else { ']' }
    }
}

/// Returns whether the parser rejects this character within a line, or reads it as a line break or a byte order mark.
pub(super) fn is_forbidden(c: char) -> bool {
    c.is_control() && c != '\t'
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// Returns why text cannot start with this character, or `None` if it can.
pub(super) fn unsupported(c: char) -> Option<&'static str> {
    Some(match c {
        '&' => "anchors (`&`) are not supported; write the value out, or put text in quotes",
        '*' => "aliases (`*`) are not supported; write the value out, or put text in quotes",
        '!' => "tags (`!`) are not supported; write the value without one, or put text in quotes",
        '|' | '>' => "block text (`|`, `>`) is not supported; write it on one line, in quotes",
        ',' => "text cannot start with `,`; quote it",
        '%' => "text cannot start with `%`; quote it",
        '@' => "text cannot start with `@`; quote it",
        '`' => "text cannot start with a backtick; quote it",
        _ if c.is_whitespace() => {
            "text cannot start with a special space; write a plain one, or quote it"
        }
        _ => return None,
    })
}
