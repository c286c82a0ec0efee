//! The JSON schema of the limits file, written from the tables that the reader uses.

use super::read::{FILE_FIELDS, LIMIT_FIELDS, settings};
use super::shape::{DURATION, Shape};
use crate::settings::{Merged, Settings};

const HEAD: &str = r##"{
  "$schema": "http://json-schema.org/draft-07/schema#",
  "title": "Limits file of ratelimit-runtime",
  "type": ["object", "null"],
  "additionalProperties": false,
  "properties": {
"##;

const NAME: Shape = Shape::Text("", "orders:42");
const OVERRIDES: Shape = Shape::Other(
    "",
    r##""type": ["array", "null"], "items": { "$ref": "#/definitions/override" }"##,
);

/// Returns the JSON schema of the limits file, for editors and other tools.
///
/// It accepts every file that [`LimitsFile`](super::LimitsFile) does, and no unknown field.
///
/// # Examples
///
/// ```
/// let schema = ratelimit_spec::limits_file::schema();
/// assert!(schema.contains("\"title\": \"Limits file of ratelimit-runtime\""));
/// ```
#[must_use]
pub fn schema() -> String {
    let fields = FILE_FIELDS.iter().map(|field| {
        member(field.name, field.about, field.shape, field.default.map(str::to_owned))
    });
    let key = member("key", "Exactly this name.", NAME, None);
    let prefix = member("prefix", "Every name that starts like this.", NAME, None);
    let about = "Other limits for some names; the first match decides.";
    let overrides = member("overrides", about, OVERRIDES, None);
    let limit =
        LIMIT_FIELDS.iter().map(|(name, shape)| format!("{name:?}: {{ {} }}", shape.schema()));
    let definitions = [
        object("settings", r#"["object", "null"]"#, "", []),
        object("limiter", r#"["object", "null"]"#, "", [overrides]),
        object(
            "override",
            r#""object""#,
            r#""oneOf": [{ "required": ["key"] }, { "required": ["prefix"] }], "#,
            [key, prefix.clone()],
        ),
        object("prefix", r#""object""#, r#""required": ["prefix"], "#, [prefix]),
        format!(
            "\"limit\": {{ \"type\": \"object\", \"required\": [\"rate\", \"per\"], \"additionalProperties\": false, \
             \"properties\": {{\n      {}\n    }} }}",
            lines(limit, 6)
        ),
    ];
    let built_in = Merged::of(&[]).or_built_in(()).rows();
    let settings = settings().map(|(name, about, shape)| {
        let default = built_in.iter().find(|(known, ..)| *known == name);
        member(name, about, shape, default.map(|(_, shown, ())| shape.json(shown)))
    });
    let duration = format!("\"duration\": {{ {} }}", DURATION.schema());
    let definitions = definitions.into_iter().chain([duration]).chain(settings);
    format!(
        "{HEAD}    {}\n  }},\n  \"definitions\": {{\n    {}\n  }}\n}}\n",
        lines(fields, 4),
        lines(definitions, 4)
    )
}

/// Returns the schema of an object with every setting and some fields of its own.
fn object<const N: usize>(name: &str, ty: &str, more: &str, own: [String; N]) -> String {
    let setting = |name: &&str| format!("{name:?}: {{ \"$ref\": \"#/definitions/{name}\" }}");
    // The keys of an override are those of its limiter; names with a prefix are built at run time.
    let useless = [("override", "max_keys"), ("prefix", "refund_on")];
    let names = Settings::NAMES.iter().filter(|field| !useless.contains(&(name, field)));
    let properties = own.into_iter().chain(names.map(setting));
    format!(
        "{name:?}: {{ \"type\": {ty}, {more}\"additionalProperties\": false, \"properties\": {{\n      {}\n    }} }}",
        lines(properties, 6)
    )
}

fn member(name: &str, about: &str, shape: Shape, default: Option<String>) -> String {
    let default = default.map(|value| format!(", \"default\": {value}")).unwrap_or_default();
    format!("{name:?}: {{ \"description\": {about:?}, {}{default} }}", shape.schema())
}

fn lines(members: impl Iterator<Item = String>, indent: usize) -> String {
    members.collect::<Vec<_>>().join(&format!(",\n{}", " ".repeat(indent)))
}
