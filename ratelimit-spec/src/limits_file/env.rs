//! Environment variables in a text.

use crate::quote::Quoted;

/// What to add to an error about a variable elsewhere.
pub(super) const WHERE: &str = "; only `store`, `tls_ca` and `key_prefix` can contain variables";

/// Replaces `${NAME}` and `${NAME:-default}` by what a lookup finds, and `$$` by `$`.
///
/// The default is used, unchanged, if there is no such variable or it is empty; it ends at the
/// first `}`. Any other `$` stays.
///
/// # Errors
///
/// Returns an error if a variable without a default is not set, a `${` is not closed or names no
/// variable, or a default contains a variable. The error contains only the name: the text around it may be a secret.
///
/// # Examples
///
/// ```
/// use ratelimit_spec::expand_env;
///
/// let lookup = |name: &str| (name == "HOST").then(|| "redis.internal".to_owned());
/// assert_eq!(
///     expand_env("redis://${HOST}:${PORT:-6379}", lookup),
///     Ok("redis://redis.internal:6379".to_owned()),
/// );
/// ```
pub fn expand_env(text: &str, lookup: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            expanded.push('$');
            rest = after;
        } else if let Some(after) = rest.strip_prefix('{') {
            let (variable, after) =
                after.split_once('}').ok_or("unclosed `${`; write `${NAME}`, or `$$` for a `$`")?;
            expanded.push_str(&value_of(variable, &lookup)?);
            rest = after;
        } else {
            expanded.push('$');
        }
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// Returns the value for the text between `${` and `}`.
fn value_of(variable: &str, lookup: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let (name, default) = match variable.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (variable, None),
    };
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_name {
        let message = "`${..}` does not hold the name of a variable; write `${NAME}`, or \
                       `${NAME:-default}`";
        return Err(message.to_owned());
    }
    // The `}` of an inner variable would end the outer one, and the rest of the text would follow its value.
    if default.is_some_and(|default| default.contains("${")) {
        return Err(format!(
            "the default of {} contains a variable; write plain text after `:-`",
            Quoted(name),
        ));
    }
    match (lookup(name), default) {
        (Some(value), None) => Ok(value),
        (Some(value), Some(_)) if !value.is_empty() => Ok(value),
        (_, Some(default)) => Ok(default.to_owned()),
        (None, None) => Err(format!(
            "the environment variable {} is not set; set it, or write `${{{name}:-default}}`",
            Quoted(name),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::expand_env;

    fn expand(text: &str) -> Result<String, String> {
        expand_env(text, |name| match name {
            "HOST" => Some("db".to_owned()),
            "EMPTY" => Some(String::new()),
            "RAW" => Some("${HOST}$$".to_owned()),
            _ => None,
        })
    }

    #[test]
    fn variables_are_replaced() {
        for (text, expected) in [
            ("", ""),
            ("memory", "memory"),
            ("redis://${HOST}:6379/0", "redis://db:6379/0"),
            ("${HOST}${HOST}", "dbdb"),
            ("${PORT:-6379}", "6379"),
            ("${PORT:-}", ""),
            ("${PORT:-a:-b$}", "a:-b$"),
            ("${HOST:-other}", "db"),
            ("${EMPTY}", ""),
            ("${EMPTY:-x}", "x"),
            ("${RAW}", "${HOST}$$"),
            ("$$", "$"),
            ("$${HOST}", "${HOST}"),
            ("$HOST $", "$HOST $"),
            ("é${HOST}é", "édbé"),
        ] {
            assert_eq!(expand(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn a_reference_that_leads_nowhere_is_an_error_that_keeps_secrets() {
        let unclosed = "unclosed `${`; write `${NAME}`, or `$$` for a `$`";
        let no_name = "`${..}` does not hold the name of a variable; write `${NAME}`, or \
                       `${NAME:-default}`";
        let nested = "the default of `HOST` contains a variable; write plain text after `:-`";
        for (text, message) in [
            (
                "redis://:s3cret@${NOWHERE}",
                "the environment variable `NOWHERE` is not set; set it, or write \
                 `${NOWHERE:-default}`",
            ),
            ("s3cret${HOST", unclosed),
            ("s3cret${", unclosed),
            ("s3cret${}", no_name),
            ("${:-x}", no_name),
            ("${1A}", no_name),
            ("${s3cret!}", no_name),
            ("${HOST:-${s3cret}}", nested),
            (
                "${PORT:-s3cret${NOWHERE:-x}}",
                "the default of `PORT` contains a variable; write plain text after `:-`",
            ),
        ] {
            assert_eq!(expand(text).as_ref().map_err(String::as_str), Err(message), "{text}");
        }
    }
}
