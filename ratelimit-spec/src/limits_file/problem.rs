//! The problems of a limits file, with their positions.

use std::fmt;

/// The most problems in one report.
const MAX_PROBLEMS: usize = 50;

/// A position in a limits file. The first is 1:1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The line, counted from 1.
    pub line: usize,
    /// The character of the line, counted from 1.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// One step of the way to something in a limits file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step<'a> {
    /// The value of this key.
    Key(&'a str),
    /// This element of a list, counted from 0.
    Index(usize),
}

/// The limiter and the setting at a position in a limits file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Context<'a> {
    /// The key of the limiter.
    pub limiter: Option<&'a str>,
    /// The name of the setting.
    pub setting: Option<&'static str>,
}

/// One problem of a limits file.
///
/// It displays as `12:7: message`; the name of the file belongs in front.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Its position; `None` if it concerns the whole file.
    pub position: Option<Position>,
    /// The problem, and what to write instead.
    pub message: String,
    /// Whether the text is not the YAML that a limits file is written in, so that nothing was read.
    pub is_syntax: bool,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(position) = self.position {
            write!(f, "{position}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

/// The problems found so far.
#[derive(Default)]
pub(super) struct Report {
    problems: Vec<Problem>,
    is_cut: bool,
}

impl Report {
    /// Adds a problem. The message is built only if it will be reported, because a hostile file has a
    /// problem on each of its lines.
    pub(super) fn add(&mut self, position: Option<Position>, message: impl FnOnce() -> String) {
        if self.problems.len() == MAX_PROBLEMS {
            self.is_cut = true;
        } else {
            self.problems.push(Problem { position, message: message(), is_syntax: false });
        }
    }

    /// Returns whether there is a problem so far.
    #[cfg(feature = "serde")]
    pub(super) fn has_problems(&self) -> bool {
        !self.problems.is_empty()
    }

    /// Returns the problems in the order of the file.
    pub(super) fn finish(mut self) -> Vec<Problem> {
        self.problems.sort_by_key(|problem| problem.position);
        if self.is_cut {
            let message = format!("there are more problems than these {MAX_PROBLEMS}");
            self.problems.push(Problem { position: None, message, is_syntax: false });
        }
        self.problems
    }
}
