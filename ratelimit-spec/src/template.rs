//! Key templates: `orders:{user_id}`.
//!
//! A template is checked once, where it is written, for everything that could go wrong with a name
//! rendered from it: that the name fits, that two different lists of values never give the same
//! name, and that the three Redis keys derived from the name live on one cluster node.

use std::fmt;
use std::ops::Range;

use crate::key::{KeyWriter, MARK, MAX_NAME, MAX_PART, is_marked, is_value_char, works_on_cluster};
use crate::name::KeyName;
use crate::quote::Quoted;

mod overlap;
mod parse;

/// The bytes that a template reserves for each value: [`MAX_PART`], and one for the `~` that
/// [`KeyWriter`] may append.
const RESERVED: usize = MAX_PART + 1;

/// A key with placeholders, such as `orders:{user_id}` or `t:{order.tenant}:{id}`.
///
/// `{{` and `}}` stand for a brace. A placeholder is a parameter, or a path of fields and method calls
/// without arguments that starts with one, such as `{addr.ip()}`. `{user?}` may be absent, and all
/// calls without it share one limiter.
///
/// # Examples
///
/// ```
/// use ratelimit_spec::Template;
///
/// let template = Template::parse("orders:{order.tenant}:{id}")?;
/// assert_eq!(template.literals(), ["orders:", ":", ""]);
/// assert_eq!(template.placeholders()[0].path, ["order", "tenant"]);
///
/// let error = Template::parse("orders:{user id}").unwrap_err();
/// assert_eq!(error.span(), 7..16);
/// # Ok::<(), ratelimit_spec::TemplateError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    text: String,
    literals: Vec<String>,
    placeholders: Vec<Placeholder>,
    has_braces: bool,
}

/// One `{..}` of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placeholder {
    /// The parameter, then the fields and calls: `["order", "tenant"]`, `["self", "0"]`, `["addr", "ip()"]`.
    pub path: Vec<String>,
    /// Whether it ends in `?`: the value may be absent.
    pub optional: bool,
    /// Its position in the template, in bytes and with its braces.
    pub span: Range<usize>,
}

impl Template {
    /// Parses and validates a template.
    ///
    /// # Errors
    ///
    /// Returns an error if a brace is unbalanced, a placeholder is not a path, the rendered name could
    /// get too long, two placeholders are not separated, or the literal braces break Redis Cluster.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let template = parse::parse(text)?;
        template.check_length()?;
        template.check_separators()?;
        template.check_braces()?;
        Ok(template)
    }

    /// Returns the template as it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the literals before, between and after the placeholders, always one more than those.
    /// Escaped braces are single here.
    #[must_use]
    pub fn literals(&self) -> &[String] {
        &self.literals
    }

    /// Returns the placeholders, from left to right.
    #[must_use]
    pub fn placeholders(&self) -> &[Placeholder] {
        &self.placeholders
    }

    /// Returns whether there are no placeholders, so that there is one name only.
    #[must_use]
    pub fn is_static(&self) -> bool {
        self.placeholders.is_empty()
    }

    /// Renders a name: `write` writes the value of the placeholder at a position.
    ///
    /// # Errors
    ///
    /// Returns an error if `write` does.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::convert::Infallible;
    ///
    /// use ratelimit_spec::Template;
    ///
    /// let template = Template::parse("orders:{tenant}:{id}")?;
    /// let Ok(name) = template.render::<Infallible>(|at, key| Ok(key.part(["acme", "42"][at])));
    /// assert_eq!(name, "orders:acme:42");
    /// # Ok::<(), ratelimit_spec::TemplateError>(())
    /// ```
    #[inline]
    pub fn render<E>(
        &self,
        mut write: impl FnMut(usize, &mut KeyWriter) -> Result<(), E>,
    ) -> Result<KeyName, E> {
        let mut key = KeyWriter::new("");
        for (at, literal) in self.literals.iter().enumerate() {
            if at > 0 {
                write(at - 1, &mut key)?;
            }
            key.literal(literal);
        }
        // Values have no braces either.
        Ok(if self.has_braces { key.finish() } else { key.finish_plain() })
    }

    /// Returns whether some list of values renders to this name.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_spec::Template;
    ///
    /// let template = Template::parse("orders:{user_id}")?;
    /// assert!(template.can_render("orders:42"));
    /// assert!(!template.can_render("order:42"));
    /// # Ok::<(), ratelimit_spec::TemplateError>(())
    /// ```
    #[must_use]
    pub fn can_render(&self, name: &str) -> bool {
        let text = if is_marked(name) { name.strip_suffix(MARK) } else { Some(name) };
        text.is_some_and(|text| self.is_filled_in(text))
    }

    /// Returns whether some list of values renders to a name with this prefix.
    #[must_use]
    pub fn can_start_with(&self, prefix: &str) -> bool {
        let mut rest = prefix;
        for (index, literal) in self.literals.iter().enumerate() {
            if index > 0 {
                if rest.chars().all(is_value_char) {
                    return true;
                }
                let end = end_of_value(rest, literal).filter(|end| *end > 0);
                let Some((_, after)) = end.and_then(|end| rest.split_at_checked(end)) else {
                    return false;
                };
                rest = after;
            }
            if literal.starts_with(rest) {
                return true;
            }
            let Some(after) = rest.strip_prefix(literal.as_str()) else {
                return false;
            };
            rest = after;
        }
        self.can_render(prefix)
    }

    /// Returns whether a text is this template with values for its placeholders.
    fn is_filled_in(&self, name: &str) -> bool {
        let [first, others @ ..] = self.literals.as_slice() else {
            return false;
        };
        let Some(mut rest) = name.strip_prefix(first.as_str()) else {
            return false;
        };
        for (index, literal) in others.iter().enumerate() {
            let end = if index + 1 == others.len() {
                rest.len().checked_sub(literal.len())
            } else {
                end_of_value(rest, literal)
            };
            let Some((value, after)) = end.and_then(|end| rest.split_at_checked(end)) else {
                return false;
            };
            if value.is_empty() || !value.chars().all(is_value_char) {
                return false;
            }
            let Some(after) = after.strip_prefix(literal.as_str()) else {
                return false;
            };
            rest = after;
        }
        rest.is_empty()
    }

    fn check_length(&self) -> Result<(), TemplateError> {
        let literals: usize = self.literals.iter().map(String::len).sum();
        let longest = literals + RESERVED * self.placeholders.len();
        if longest <= MAX_NAME {
            return Ok(());
        }
        let message = if self.is_static() {
            format!("the key is {longest} bytes long; write at most {MAX_NAME}")
        } else {
            format!(
                "the rendered key can have {longest} bytes, {RESERVED} per placeholder; shorten it to \
                 at most {MAX_NAME}"
            )
        };
        Err(TemplateError::new(0..self.text.len(), message))
    }

    /// Without a character between them that no value can hold, `{a}{b}` would render `("1", "23")`
    /// and `("12", "3")` to one name.
    fn check_separators(&self) -> Result<(), TemplateError> {
        for (pair, literal) in self.placeholders.windows(2).zip(&self.literals[1..]) {
            if literal.chars().all(is_value_char) {
                let (left, right) = (&pair[0].span, &pair[1].span);
                let message = format!(
                    "ambiguous key, values of {} and {} run together; put a separator such as `:` \
                     between them",
                    Quoted(&self.text[left.clone()]),
                    Quoted(&self.text[right.clone()]),
                );
                return Err(TemplateError::new(left.start..right.end, message));
            }
        }
        Ok(())
    }

    fn check_braces(&self) -> Result<(), TemplateError> {
        // A value is never empty and never holds a brace, so any letter can stand for it.
        if works_on_cluster(&self.literals.join("x")) {
            return Ok(());
        }
        let start = self.text.find("{{").or_else(|| self.text.find("}}")).unwrap_or(0);
        Err(TemplateError::new(
            start..start + 2,
            "the literal braces do not form a Redis Cluster hash tag; write `}}` after the first \
             `{{`, with text in between"
                .to_owned(),
        ))
    }
}

/// Returns where the value ends that a text begins with. The separator after it contains a character that no value contains,
/// which marks its position.
fn end_of_value(text: &str, separator: &str) -> Option<usize> {
    let mark = |text: &str| text.find(|c| !is_value_char(c));
    mark(text)?.checked_sub(mark(separator)?)
}

/// A text that is not a template. Its [`Display`](fmt::Display) says why and what to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError {
    span: Range<usize>,
    message: String,
}

impl TemplateError {
    fn new(span: Range<usize>, message: String) -> Self {
        Self { span, message }
    }

    /// Returns the position of the error, as a range of bytes in the template.
    #[must_use]
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for TemplateError {}

#[cfg(test)]
mod tests;
