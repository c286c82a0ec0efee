//! The pieces of a limits file, and the characters that can be none.

use crate::limits_file::problem::Position;

/// A piece of a limits file and its place.
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
    /// The bracket that this token is, if it opens something.
    pub(super) fn open(self) -> char {
        if self.kind == Kind::OpenMap { '{' } else { '[' }
    }

    /// The bracket that closes this one.
    pub(super) fn close(self) -> char {
        if self.kind == Kind::OpenMap { '}' } else { ']' }
    }
}

/// What the parser refuses or takes for a line break or a byte order mark, inside of a line.
pub(super) fn is_forbidden(c: char) -> bool {
    c.is_control() && c != '\t'
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// Why text cannot start with this character, if it cannot.
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
        _ => return None,
    })
}
