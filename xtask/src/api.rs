//! `cargo xtask api`: compares the public API of the runtime with `tests/api.txt`, and checks that its docs have examples.

use crate::{
    Outcome,
    shell::{cargo, is_bless, run, target_dir, write_script},
};

/// Calls rustdoc as a nightly one, because its JSON is not stable. Only rustdoc gets the variable: build scripts run again
/// if it changes.
const RUSTDOC: &str = "\
#!/bin/sh
RUSTC_BOOTSTRAP=1 exec rustdoc \"$@\"
";

/// Compares, and fails if the two differ; `--bless` writes the file.
pub(crate) fn compare(arguments: &[String]) -> Outcome {
    let bless = is_bless(arguments)?;
    let rustdoc = target_dir().join("rustdoc");
    write_script(&rustdoc, RUSTDOC)?;
    // With all packages and features, like the other checks, so that their builds are reused.
    let docs = ["doc", "--locked", "--workspace", "--no-deps", "--all-features", "--quiet"];
    run(cargo(&docs)
        .env("RUSTDOC", rustdoc)
        .env("RUSTDOCFLAGS", "-Z unstable-options --output-format json"))?;
    let test = ["test", "--locked", "--workspace", "--all-features", "--test", "api"];
    let mut test = cargo(&test);
    test.args(["--", "--ignored"])
        .env("RATELIMIT_API_JSON", target_dir().join("doc/ratelimit_runtime.json"));
    if bless {
        test.env("BLESS", "1");
    }
    run(&mut test)
}
