//! The guard before the YAML parser.
//!
//! The parser needs half a minute for 100 KB of `[`, and follows anchors and tags that no limits
//! file needs. So a file is first split into tokens, strictly and in one pass: anything that is not
//! plainly a map, a list or a value on one line is rejected here, with a message about limits
//! files. The tokens also carry all positions, see [`outline`](super::outline).
//!
//! The guard must never treat as text what the parser treats as structure. That is why values end
//! with their line, and why the characters that only the parser treats as line breaks are rejected.

use crate::limits_file::env::WHERE;
use crate::limits_file::problem::{Position, Problem};
use crate::limits_file::{MAX_BYTES, MAX_DEPTH};

mod cursor;
mod token;

use cursor::Cursor;
pub(super) use token::{Kind, Token};
use token::{is_forbidden, unsupported};

/// The most tokens: enough for the largest number of limiters with each on one line, and few
/// enough for an unoptimized build to parse them in a tenth of a second.
const MAX_TOKENS: usize = 120_000;

/// Splits a limits file into tokens.
///
/// A file that it accepts is cheap to parse: it is small, flat, and free of anchors.
pub(super) fn scan(text: &str) -> Result<Vec<Token>, Problem> {
    if text.len() > MAX_BYTES {
        let message =
            format!("the file is {} bytes long; write at most {MAX_BYTES} (256 KiB)", text.len());
        return Err(Problem { position: None, message, is_syntax: true });
    }
    let mut scanner = Scanner::default();
    for (index, line) in text.split('\n').enumerate() {
        scanner.line = index + 1;
        scanner.scan_line(line.strip_suffix('\r').unwrap_or(line))?;
    }
    match scanner.flow.last() {
        None => Ok(scanner.tokens),
        Some(open) => Err(Problem {
            position: Some(open.position),
            message: format!(
                "unclosed `{}`; write `{}` after the last entry",
                open.open(),
                open.close()
            ),
            is_syntax: true,
        }),
    }
}

/// The state of the scan.
#[derive(Default)]
struct Scanner {
    tokens: Vec<Token>,
    line: usize,
    /// Whether the document has begun.
    begun: bool,
    /// The columns of the block maps and lists around the current position, increasing.
    blocks: Vec<usize>,
    /// The `[` and `{` that are still open. While there are any, indentation means nothing.
    flow: Vec<Token>,
    /// Whether a value has just ended, so that another cannot start.
    after_value: bool,
    /// Whether a `:` outside of `[` and `{` has been seen on this line.
    after_colon: bool,
    /// Where the last value outside of `[` and `{` started. It is a key if `:` follows.
    value: Option<Position>,
}

impl Scanner {
    fn scan_line(&mut self, line: &str) -> Result<(), Problem> {
        if let Some((index, c)) = line.chars().enumerate().find(|&(_, c)| is_forbidden(c)) {
            let message = format!("character U+{:04X} cannot be used; remove it", u32::from(c));
            return Err(self.problem(index + 1, message));
        }
        let mut cursor = Cursor::new(line);
        if self.flow.is_empty() {
            self.start_line(&mut cursor)?;
        }
        loop {
            cursor.skip_blanks();
            match cursor.peek() {
                None | Some('#') => break,
                Some(c) => self.token(c, &mut cursor)?,
            }
        }
        // Everything in the column of a map is a key.
        match self.blocks.last() {
            Some(&block) if self.flow.is_empty() => self.check_colon(block),
            _ => Ok(()),
        }
    }

    /// Rejects a value in this column that should have been a key.
    fn check_colon(&self, column: usize) -> Result<(), Problem> {
        let value = self.value.filter(|value| value.column == column);
        if self.after_value && !self.after_colon && value.is_some() {
            let message = "no `: ` on this line; write `key: value`, with a space after the colon";
            return Err(Problem { position: value, message: message.into(), is_syntax: true });
        }
        Ok(())
    }

    /// Handles the indentation, and the markers that have a meaning only at the start of a line.
    fn start_line(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Problem> {
        if let Some(column) = cursor.skip_indentation() {
            return Err(self.problem(column, "tab in the indentation; write spaces"));
        }
        match cursor.peek() {
            None | Some('#') => Ok(()),
            Some('%') if cursor.column() == 1 => {
                Err(self.problem(1, "directives (`%`) are not supported; remove the line"))
            }
            Some('.') if cursor.is_marker("...") => {
                Err(self.problem(1, "`...` is not supported; remove it"))
            }
            Some('-') if cursor.is_marker("---") => {
                if self.begun {
                    return Err(self.problem(1, "unexpected second document; write only one"));
                }
                self.begun = true;
                cursor.skip(3);
                Ok(())
            }
            Some(_) => self.indent(cursor.column()),
        }
    }

    /// Leaves the maps and lists that a line with text in this column does not belong to.
    fn indent(&mut self, column: usize) -> Result<(), Problem> {
        if self.after_value && self.blocks.last().is_none_or(|&block| column > block) {
            self.check_colon(column)?;
            let message = "unexpected continuation line; write each value on one line, and align the \
                           fields of a map";
            return Err(self.problem(column, message));
        }
        let n_blocks = self.blocks.len();
        while self.blocks.last().is_some_and(|&block| block > column) {
            self.blocks.pop();
        }
        if self.blocks.len() < n_blocks && self.blocks.last() != Some(&column) {
            let message = "inconsistent indentation; align the line with those of \
                           the same map or list";
            return Err(self.problem(column, message));
        }
        self.after_value = false;
        self.after_colon = false;
        Ok(())
    }

    fn token(&mut self, c: char, cursor: &mut Cursor<'_>) -> Result<(), Problem> {
        let column = cursor.column();
        let in_flow = !self.flow.is_empty();
        let stands_alone = cursor.next_is_blank();
        self.begun = true;
        match c {
            '[' => self.open(Kind::OpenList, cursor),
            '{' => self.open(Kind::OpenMap, cursor),
            ']' | '}' => self.close(c, cursor),
            ',' if in_flow => {
                let ends_entry = self.tokens.last().is_some_and(|last| last.kind == Kind::Colon);
                if !self.after_value && !ends_entry {
                    return Err(self.problem(column, "unexpected `,`; remove it"));
                }
                self.after_value = false;
                cursor.skip(1);
                self.push(Kind::Comma, column)
            }
            '-' if stands_alone => self.dash(cursor),
            ':' if in_flow || stands_alone => self.colon(cursor),
            '?' if in_flow || stands_alone => {
                Err(self
                    .problem(column, "explicit keys (`?`) are not supported; write `key: value`"))
            }
            '"' | '\'' => self.quoted(c, cursor),
            _ => self.plain(c, cursor),
        }
    }

    fn quoted(&mut self, quote: char, cursor: &mut Cursor<'_>) -> Result<(), Problem> {
        let column = cursor.column();
        self.start_value(column)?;
        if cursor.skip_quoted(quote) {
            return self.end_value(column);
        }
        let message = format!("unterminated string; write `{quote}` at its end, on the same line");
        Err(self.problem(column, message))
    }

    fn plain(&mut self, first: char, cursor: &mut Cursor<'_>) -> Result<(), Problem> {
        let column = cursor.column();
        if let Some(message) = unsupported(first) {
            return Err(self.problem(column, message));
        }
        self.start_value(column)?;
        if cursor.skip_plain(!self.flow.is_empty()) {
            return self.end_value(column);
        }
        let message = "unexpected `:` before a bracket or comma; quote text that contains these";
        Err(self.problem(cursor.column(), message))
    }

    fn open(&mut self, kind: Kind, cursor: &mut Cursor<'_>) -> Result<(), Problem> {
        let column = cursor.column();
        if self.after_value && cursor.is_in_variable() {
            let message = format!(
                "unquoted `${{` inside `[` or `{{`; quote the text, as in `\"${{NAME}}\"`{WHERE}"
            );
            return Err(self.problem(column - 1, message));
        }
        self.start_value(column)?;
        let position = Position { line: self.line, column };
        self.flow.push(Token { kind, position });
        self.check_depth(column)?;
        cursor.skip(1);
        self.push(kind, column)
    }

    fn close(&mut self, c: char, cursor: &mut Cursor<'_>) -> Result<(), Problem> {
        let column = cursor.column();
        match self.flow.pop() {
            None => {
                let message = format!("unmatched `{c}`; remove it, or quote the text");
                Err(self.problem(column, message))
            }
            Some(open) if open.close() != c => {
                let message = format!(
                    "`{c}` does not match the `{}` at {}; write `{}`",
                    open.open(),
                    open.position,
                    open.close()
                );
                Err(self.problem(column, message))
            }
            Some(_) => {
                cursor.skip(1);
                self.after_value = true;
                self.push(Kind::Close, column)
            }
        }
    }

    fn dash(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Problem> {
        let column = cursor.column();
        if !self.flow.is_empty() {
            let message = "unexpected `-` inside `[` or `{`; separate entries with commas";
            return Err(self.problem(column, message));
        }
        self.start_value(column)?;
        self.open_block(column)?;
        cursor.skip(1);
        // An element can be a map or a list, which is indented by these blanks.
        if let Some(tab) = cursor.skip_indentation() {
            return Err(self.problem(tab, "tab after `-`; write a space"));
        }
        self.push(Kind::Dash, column)
    }

    fn colon(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Problem> {
        let column = cursor.column();
        // In brackets, a `:` on the line after its key may continue the text.
        let is_here = |last: &Token| last.position.line == self.line;
        if !self.after_value || !self.tokens.last().is_some_and(is_here) {
            let message =
                "missing key before `:`; write `key: value`, or quote text that starts with `:`";
            return Err(self.problem(column, message));
        }
        if self.flow.is_empty() {
            if self.after_colon {
                let message = "unexpected second `:` on this line; write each field on a line of \
                               its own, and quote text that contains `: `";
                return Err(self.problem(column, message));
            }
            self.after_colon = true;
            self.open_block(self.value.map_or(column, |value| value.column))?;
        } else if let [.., Token { kind: Kind::Colon, .. }, _] = self.tokens[..] {
            let message = "unexpected second `:` in an entry; separate entries with commas, and \
                           quote text that contains `: `";
            return Err(self.problem(column, message));
        }
        self.after_value = false;
        cursor.skip(1);
        self.push(Kind::Colon, column)
    }

    /// Enters the block map or list of this column, unless it is the current one.
    fn open_block(&mut self, column: usize) -> Result<(), Problem> {
        if self.blocks.last().is_none_or(|&block| block < column) {
            self.blocks.push(column);
        }
        self.check_depth(column)
    }

    fn check_depth(&self, column: usize) -> Result<(), Problem> {
        if self.blocks.len() + self.flow.len() <= MAX_DEPTH {
            return Ok(());
        }
        let message = format!("nested deeper than {MAX_DEPTH} levels; write fewer levels");
        Err(self.problem(column, message))
    }

    fn start_value(&mut self, column: usize) -> Result<(), Problem> {
        if self.flow.is_empty() {
            self.value = Some(Position { line: self.line, column });
        }
        match (self.after_value, self.flow.is_empty()) {
            (false, _) => Ok(()),
            (true, true) => Err(self.problem(
                column,
                "unexpected text after a value; quote all of it, or write `#` before a comment",
            )),
            (true, false) => {
                let message = "missing comma; separate entries with commas, and quote text that \
                               contains `[`, `]`, `{`, `}` or `,`";
                Err(self.problem(column, message))
            }
        }
    }

    fn end_value(&mut self, start: usize) -> Result<(), Problem> {
        self.after_value = true;
        self.push(Kind::Scalar, start)
    }

    fn push(&mut self, kind: Kind, column: usize) -> Result<(), Problem> {
        if self.tokens.len() == MAX_TOKENS {
            let message = format!(
                "more than {MAX_TOKENS} keys, values and punctuation marks up to here; write fewer"
            );
            return Err(self.problem(column, message));
        }
        let position = Position { line: self.line, column };
        self.tokens.push(Token { kind, position });
        Ok(())
    }

    fn problem(&self, column: usize, message: impl Into<String>) -> Problem {
        Problem {
            position: Some(Position { line: self.line, column }),
            message: message.into(),
            is_syntax: true,
        }
    }
}
