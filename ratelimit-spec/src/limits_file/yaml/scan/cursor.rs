//! A position in a line.

/// The rest of a line, and the column in which it starts.
pub(super) struct Cursor<'a> {
    line: &'a str,
    rest: &'a str,
    column: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(line: &'a str) -> Self {
        Self { line, rest: line, column: 1 }
    }

    /// Returns the column of the next character, counted from 1.
    pub(super) fn column(&self) -> usize {
        self.column
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    /// Returns whether a `${` continues here.
    pub(super) fn is_in_variable(&self) -> bool {
        let before = &self.line[..self.line.len() - self.rest.len()];
        before.ends_with('$') && self.rest.starts_with('{')
    }

    /// Returns whether the character after the next one is a blank or absent.
    pub(super) fn next_is_blank(&self) -> bool {
        ends_word(self.rest.chars().nth(1))
    }

    /// Returns whether this document marker comes next, as a separate word at the start of the line.
    pub(super) fn is_marker(&self, marker: &str) -> bool {
        let after = self.rest.strip_prefix(marker);
        self.column == 1 && after.is_some_and(|after| ends_word(after.chars().next()))
    }

    /// Skips `n` characters.
    pub(super) fn skip(&mut self, n: usize) {
        for _ in 0..n {
            let mut chars = self.rest.chars();
            if chars.next().is_some() {
                self.column += 1;
            }
            self.rest = chars.as_str();
        }
    }

    pub(super) fn skip_blanks(&mut self) {
        let rest = self.rest.trim_start_matches([' ', '\t']);
        self.column += self.rest.len() - rest.len();
        self.rest = rest;
    }

    /// Skips blanks, and returns the column of the first tab among them.
    pub(super) fn skip_indentation(&mut self) -> Option<usize> {
        let (line, start) = (self.rest, self.column);
        self.skip_blanks();
        line[..line.len() - self.rest.len()].find('\t').map(|at| start + at)
    }

    /// Skips quoted text from its opening quote on. Returns whether the closing quote was found.
    pub(super) fn skip_quoted(&mut self, quote: char) -> bool {
        self.skip(1);
        while let Some(c) = self.peek() {
            self.skip(1);
            if c == '\\' && quote == '"' {
                self.skip(1);
            } else if c == quote {
                // Two single quotes stand for one.
                if quote == '"' || self.peek() != Some(quote) {
                    return true;
                }
                self.skip(1);
            }
        }
        false
    }

    /// Skips unquoted text. Returns `false` if the parser would not read it as text.
    pub(super) fn skip_plain(&mut self, in_flow: bool) -> bool {
        let mut after_blank = false;
        let mut chars = self.rest.char_indices().peekable();
        let mut end = self.rest.len();
        let mut n_chars = 0;
        while let Some((at, c)) = chars.next() {
            let next = chars.peek().map(|&(_, next)| next);
            let is_colon =
                c == ':' && (ends_word(next) || in_flow && next.is_some_and(is_flow_mark));
            if is_colon || in_flow && is_flow_mark(c) && c != '?' || c == '#' && after_blank {
                end = at;
                break;
            }
            after_blank = matches!(c, ' ' | '\t');
            n_chars += 1;
        }
        self.rest = &self.rest[end..];
        self.column += n_chars;
        !(in_flow && self.rest.starts_with(':') && !self.next_is_blank())
    }
}

/// Returns whether an indicator before this character is an indicator, not part of a word.
fn ends_word(next: Option<char>) -> bool {
    matches!(next, None | Some(' ' | '\t'))
}

/// Returns whether this character ends text inside of `[` and `{`; `?` does so only after `:`.
fn is_flow_mark(c: char) -> bool {
    matches!(c, ',' | '?' | '[' | ']' | '{' | '}')
}
