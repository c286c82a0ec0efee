//! `cargo xtask schema`: writes the JSON schema of the limits file.

use crate::{
    Failed, Outcome,
    shell::{cargo, run},
};

/// The test that compares the file with the tables can also write it.
pub(crate) fn write(arguments: &[String]) -> Outcome {
    if let Some(argument) = arguments.first() {
        eprintln!("unknown argument `{argument}`; `cargo xtask schema` takes none");
        return Err(Failed);
    }
    let test = ["test", "--package", "ratelimit-spec", "--test", "limits_file", "published_schema"];
    run(cargo(&test).env("RATELIMIT_SCHEMA", "write"))
}
