//! Names of HTTP headers: `x-forwarded-for`.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::quote::Quoted;

/// The name of an HTTP header (a token of RFC 9110), in lower case.
///
/// # Examples
///
/// ```
/// use ratelimit_spec::HeaderName;
///
/// let name: HeaderName = "CF-Connecting-IP".parse()?;
/// assert_eq!(name.as_str(), "cf-connecting-ip");
/// # Ok::<(), ratelimit_spec::HeaderNameError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HeaderName(Arc<str>);

impl HeaderName {
    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for HeaderName {
    type Err = HeaderNameError;

    fn from_str(text: &str) -> Result<Self, HeaderNameError> {
        if text.is_empty() || !text.chars().all(is_token_char) {
            return Err(HeaderNameError(text.to_owned()));
        }
        Ok(Self(text.to_ascii_lowercase().into()))
    }
}

/// Returns whether this is a character of a token of RFC 9110.
#[must_use]
pub fn is_token_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}

/// A text that is not the name of an HTTP header. Its [`Display`](fmt::Display) says what to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderNameError(String);

impl fmt::Display for HeaderNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = Quoted(&self.0);
        write!(f, "{text} is not the name of a header; write one such as `x-forwarded-for`")
    }
}

impl std::error::Error for HeaderNameError {}
