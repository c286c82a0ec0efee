//! The positions of all values in a limits file.
//!
//! The YAML parser reports positions only in errors, one each time it reads the file. So the tokens of
//! the guard are grouped here in the same way as the parser groups its input, into a tree of positions
//! with the shape of the tree of values. If the two differ, a position is missing, never wrong.

use std::iter::Peekable;
use std::slice::Iter;

use super::scan::{Kind, Token};
use crate::limits_file::problem::Position;

/// The positions of a node and its contents. `None` is the absent value of a key; an absent element is after its dash.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Outline {
    pub(super) position: Position,
    pub(super) inside: Inside,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Inside {
    Scalar,
    List(Vec<Outline>),
    Map(Vec<(Outline, Option<Outline>)>),
}

/// Groups the tokens of a file that the parser has accepted.
pub(super) fn outline(tokens: &[Token]) -> Option<Outline> {
    Grouping { tokens: tokens.iter().peekable() }.block()
}

struct Grouping<'a> {
    tokens: Peekable<Iter<'a, Token>>,
}

impl Grouping<'_> {
    fn next_if(&mut self, kind: Kind) -> Option<Position> {
        self.tokens.next_if(|token| token.kind == kind).map(|token| token.position)
    }

    fn is_next(&mut self, kind: Kind) -> bool {
        self.tokens.peek().is_some_and(|token| token.kind == kind)
    }

    /// Reads a node outside of `[` and `{`.
    fn block(&mut self) -> Option<Outline> {
        if self.is_next(Kind::Dash) {
            return self.block_list();
        }
        let node = self.flow()?;
        if self.is_next(Kind::Colon) { Some(self.block_map(node)) } else { Some(node) }
    }

    fn block_list(&mut self) -> Option<Outline> {
        let position = self.tokens.peek()?.position;
        let mut elements = Vec::new();
        while let Some(dash) = self
            .tokens
            .next_if(|token| token.kind == Kind::Dash && token.position.column == position.column)
        {
            let empty = Position { column: dash.position.column + 1, ..dash.position };
            let element = self.block_inside(dash.position, false);
            elements.push(element.unwrap_or(Outline { position: empty, inside: Inside::Scalar }));
        }
        Some(Outline { position, inside: Inside::List(elements) })
    }

    fn block_map(&mut self, first_key: Outline) -> Outline {
        let position = first_key.position;
        let mut entries = Vec::new();
        let mut key = Some(first_key);
        while let Some(this) = key.take() {
            self.next_if(Kind::Colon);
            let value =
                self.block_inside(Position { column: position.column, ..this.position }, true);
            entries.push((this, value));
            let more = self.tokens.peek().is_some_and(|token| {
                token.kind != Kind::Dash && token.position.column == position.column
            });
            if more {
                key = self.flow();
            }
        }
        Outline { position, inside: Inside::Map(entries) }
    }

    /// Reads the contents of a key or a dash: the rest of its line, or the lines that are indented more.
    /// The dashes below a key may have the same indentation.
    fn block_inside(&mut self, owner: Position, is_key: bool) -> Option<Outline> {
        let next = self.tokens.peek()?;
        let column = next.position.column;
        let is_inside = next.position.line == owner.line
            || column > owner.column
            || is_key && column == owner.column && next.kind == Kind::Dash;
        if is_inside { self.block() } else { None }
    }

    /// Reads a scalar, or a list or map in brackets.
    fn flow(&mut self) -> Option<Outline> {
        let token = self.tokens.next()?;
        let inside = match token.kind {
            Kind::Scalar => Inside::Scalar,
            Kind::OpenList => Inside::List(self.flow_list()),
            Kind::OpenMap => Inside::Map(self.flow_map()),
            Kind::Colon | Kind::Dash | Kind::Close | Kind::Comma => return None,
        };
        Some(Outline { position: token.position, inside })
    }

    fn flow_list(&mut self) -> Vec<Outline> {
        let mut elements = Vec::new();
        while self.next_if(Kind::Close).is_none() {
            let Some(element) = self.flow() else {
                break;
            };
            // `[a: b]` is a list of one map.
            if self.is_next(Kind::Colon) {
                let position = element.position;
                let value = self.flow_value();
                let inside = Inside::Map(vec![(element, value)]);
                elements.push(Outline { position, inside });
            } else {
                elements.push(element);
            }
            self.next_if(Kind::Comma);
        }
        elements
    }

    fn flow_map(&mut self) -> Vec<(Outline, Option<Outline>)> {
        let mut entries = Vec::new();
        while self.next_if(Kind::Close).is_none() {
            let Some(key) = self.flow() else {
                break;
            };
            let value = self.flow_value();
            entries.push((key, value));
            self.next_if(Kind::Comma);
        }
        entries
    }

    /// Reads the value of a key inside of brackets.
    fn flow_value(&mut self) -> Option<Outline> {
        self.next_if(Kind::Colon)?;
        if self.is_next(Kind::Comma) || self.is_next(Kind::Close) { None } else { self.flow() }
    }
}
