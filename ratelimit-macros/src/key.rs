//! The key's literal and the template in it.

use proc_macro2::Span;
use ratelimit_spec::{Placeholder, Template};
use syn::LitStr;

use crate::problems::Problems;
use crate::seen;

/// A key whose template is well formed.
pub(crate) struct Key<'a> {
    pub(crate) literal: &'a LitStr,
    pub(crate) template: Template,
}

impl<'a> Key<'a> {
    pub(crate) fn parse(literal: &'a LitStr, problems: &mut Problems) -> Option<Self> {
        match Template::parse(&literal.value()) {
            Ok(template) => Some(Self { literal, template }),
            Err(error) => {
                problems.at(part_of(literal, error.span()), error);
                None
            }
        }
    }

    /// Two templates of one crate that can render the same name would be one limiter with two configurations.
    pub(crate) fn is_the_only_one_of_its_names(&self, problems: &mut Problems) {
        if let Some((other, place)) = seen::overlapping(&self.template, self.literal.span()) {
            problems.at(
                self.literal.span(),
                format!(
                    "`{}` can be the same key as `{other}` ({place}); write the same template in both places, or \
                     change the text in front of the placeholder",
                    self.text()
                ),
            );
        }
    }

    pub(crate) fn text(&self) -> &str {
        self.template.text()
    }

    pub(crate) fn placeholders(&self) -> &[Placeholder] {
        self.template.placeholders()
    }

    pub(crate) fn span_of(&self, placeholder: &Placeholder) -> Span {
        part_of(self.literal, placeholder.span.clone())
    }

    /// Returns whether `format_args!` reads this literal in the same way, so that rustc can check the names in it.
    pub(crate) fn is_a_format_string(&self) -> bool {
        self.placeholders()
            .iter()
            .all(|placeholder| placeholder.path.len() == 1 && !placeholder.optional)
    }
}

/// Returns a placeholder as written by the user, such as `order.tenant`.
pub(crate) fn written(placeholder: &Placeholder) -> String {
    placeholder.path.join(".")
}

/// Returns the span of a part of a literal. Without a nightly compiler, the caret covers the whole literal.
fn part_of(literal: &LitStr, range: std::ops::Range<usize>) -> Span {
    let token = literal.token();
    let source = token.to_string();
    let part = source.find('"').and_then(|quote| {
        let start = quote + 1;
        // After an escape, positions in the value differ from positions in the source.
        let verbatim = source[start..].starts_with(&literal.value());
        verbatim.then(|| token.subspan(start + range.start..start + range.end)).flatten()
    });
    part.unwrap_or_else(|| literal.span())
}
