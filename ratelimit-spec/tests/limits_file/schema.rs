//! The published schema against the reader: as much of JSON schema as it uses.

use std::{path::Path, time::Duration};

use ratelimit_spec::{LimitsFile, Merged, Settings, limits_file::schema};
use regex_lite::Regex;
use serde_yaml::Value;

/// Returns whether the schema accepts a file.
pub(crate) fn accepts(text: &str) -> bool {
    let schema: Value = serde_yaml::from_str(&schema()).expect("JSON is YAML");
    let text = text.trim_start_matches('\u{feff}');
    serde_yaml::from_str(text).is_ok_and(|file| fits(&file, &schema, &schema))
}

fn fits(value: &Value, schema: &Value, root: &Value) -> bool {
    let rules = schema.as_mapping().expect("a schema is a map");
    rules.iter().all(|(rule, said)| {
        let list = || said.as_sequence().expect("a list");
        match rule.as_str().expect("a rule has a name") {
            "$schema" | "title" | "description" | "examples" | "default" | "definitions"
            | "properties" => true,
            "$ref" => {
                let name = said.as_str().unwrap().rsplit('/').next().unwrap();
                fits(value, &root["definitions"][name], root)
            }
            "type" => match said {
                Value::Sequence(types) => types.iter().any(|ty| is_of(value, ty)),
                ty => is_of(value, ty),
            },
            "enum" => list().contains(value),
            "minimum" => value.as_u64() >= said.as_u64(),
            "maximum" => value.as_u64() <= said.as_u64(),
            "minLength" => value
                .as_str()
                .is_none_or(|text| text.chars().count() as u64 >= said.as_u64().unwrap()),
            "pattern" => {
                let pattern = Regex::new(said.as_str().unwrap()).unwrap();
                value.as_str().is_none_or(|text| pattern.is_match(text))
            }
            "minItems" => {
                value.as_sequence().is_none_or(|items| items.len() as u64 >= said.as_u64().unwrap())
            }
            "maxItems" => {
                value.as_sequence().is_none_or(|items| items.len() as u64 <= said.as_u64().unwrap())
            }
            "items" => value
                .as_sequence()
                .is_none_or(|items| items.iter().all(|item| fits(item, said, root))),
            "required" => list().iter().all(|name| value.get(name).is_some()),
            "oneOf" => list().iter().filter(|one| fits(value, one, root)).count() == 1,
            "additionalProperties" => value.as_mapping().is_none_or(|fields| {
                fields.iter().all(|(name, field)| {
                    match schema.get("properties").and_then(|known| known.get(name)) {
                        Some(known) => fits(field, known, root),
                        None => {
                            said.as_bool() != Some(false)
                                && name.is_string()
                                && fits(field, said, root)
                        }
                    }
                })
            }),
            other => panic!("the test does not know the rule `{other}`"),
        }
    })
}

fn is_of(value: &Value, ty: &Value) -> bool {
    match ty.as_str().expect("the name of a type") {
        "object" => value.is_mapping(),
        "array" => value.is_sequence(),
        "string" => value.is_string(),
        "boolean" => value.is_bool(),
        "integer" => value.is_i64() || value.is_u64(),
        "null" => value.is_null(),
        other => panic!("the test does not know the type `{other}`"),
    }
}

/// `RATELIMIT_SCHEMA=write`, which `cargo xtask schema` sets, writes the file.
#[test]
fn the_published_schema_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/ratelimit.schema.json");
    if std::env::var_os("RATELIMIT_SCHEMA").is_some() {
        std::fs::write(&path, schema()).unwrap();
    }
    let published = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(published, schema(), "run `cargo xtask schema`");
}

#[test]
fn the_schema_accepts_the_files_of_this_repository() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for path in [
        "ratelimit-spec/src/limits_file/reference.yaml",
        "tests/compile/ui/limits_file/loose/ratelimit.yaml",
        "tests/compile/ui/limits_file/passing/ratelimit.yaml",
        "tests/compile/ui/limits_file/strict/ratelimit.yaml",
    ] {
        let text = std::fs::read_to_string(root.join(path)).unwrap();
        assert!(accepts(&text), "{path}");
    }
}

#[test]
fn the_schema_shows_the_defaults_of_the_reader() {
    let schema: Value = serde_yaml::from_str(&schema()).unwrap();
    let defaults = |fields: &Value, names: &[&str]| {
        let line = |name: &&str| {
            let default = fields[name].get("default")?;
            Some(format!("{name}: {}\n", serde_yaml::to_string(default).unwrap().trim()))
        };
        names.iter().filter_map(line).collect::<Vec<_>>()
    };
    let of_file = ["strict", "unmatched", "shadow", "deadline", "max_remembered"];
    let lines = defaults(&schema["properties"], &of_file);
    let (file, none) = (LimitsFile::parse(&lines.concat()).unwrap(), LimitsFile::default());
    assert_eq!(lines.len(), of_file.len());
    assert_eq!((file.strict, file.unmatched), (none.strict, none.unmatched));
    assert_eq!((file.shadow, file.deadline), (none.shadow, Some(Duration::from_millis(100))));
    assert_eq!(file.max_remembered, Some(100_000));

    let lines = defaults(&schema["definitions"], Settings::NAMES);
    let file = LimitsFile::parse(&format!("default:\n  {}", lines.join("  "))).unwrap();
    let built_in = Merged::of(&[]).or_built_in(()).rows();
    assert_eq!(Merged::of(&[((), &file.default)]).rows(), built_in);
}

#[test]
fn the_schema_refuses_what_no_field_can_be() {
    for text in [
        "limiter: {}\n",
        "default: { raet: 5 }\n",
        "limiters: { a: { rate: -1 } }\n",
        "limiters: { a: { mode: overal } }\n",
        "limiters: { a: { per: 5sec } }\n",
        "limiters: { a: { per: 30m1h } }\n",
        "limiters: { a: { per: \"\" } }\n",
        "limiters: { a: { keep_alive: day } }\n",
        "limiters: { a: { wait: day } }\n",
        "limiters: { a: { limits: [{ rate: 1, per: day }] } }\n",
        "limiters: { a: { penalty: { after: 3, block: 5 min } } }\n",
        "limiters: { \"a:{b}\": { overrides: [{ key: \"a:1\", max_keys: 5 }] } }\n",
        "prefixes: [{ prefix: \"\" }]\n",
        "deadline: 0.1s\n",
        "store: \"\"\n",
        "limiters: { a: { overrides: [{ rate: 1 }] } }\n",
        "limiters: { a: { overrides: [{ key: a, prefix: a }] } }\n",
        "limiters: { a: { limits: [] } }\n",
        "limiters: { a: { limits: [{ rate: 1, per: 1s, brust: 2 }] } }\n",
        "limiters: { a: { penalty: { after: 3 } } }\n",
        "limiters: { a: { penalty: { after: 3, block: 5m, upto: 1d } } }\n",
        "prefixes: [{ rate: 1 }]\n",
    ] {
        assert!(!accepts(text), "{text}");
    }
}
