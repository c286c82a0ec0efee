//! What the runtime does without its features, and what it reports where one is missing.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::shop::{NO_FEATURES, Shop, errors};

/// Prints whether the first and the second call were admitted.
const PROGRAM: &str = r#"
use std::{future::Future, pin::pin, task::{Context, Poll, Waker}};

#[ratelimit_runtime::rate_limit(key = "quote", rate = 1, per = "1h", wait = "none")]
async fn quote() -> Result<(), ratelimit_runtime::Rejection> {
    Ok(())
}

fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("an embedded limiter decides at once"),
    }
}

fn main() {
    match ready(ratelimit_runtime::init()) {
        Ok(_) => println!("{} {}", ready(quote()).is_ok(), ready(quote()).is_ok()),
        Err(error) => println!("{error}"),
    }
}
"#;

const BY_THE_DAY: &str = r#"
#[ratelimit_runtime::rate_limit(
    key = "quote",
    rate = 1,
    per = "day",
    time_zone = "Europe/Vienna",
    algorithm = "fixed_window",
)]
pub async fn quote() {}
"#;

#[test]
fn without_features_there_is_an_embedded_limiter() {
    let shop = Shop::new("embedded", "ratelimit-runtime", NO_FEATURES);
    shop.write("src/main.rs", PROGRAM);
    shop.write("src/lib.rs", "");
    let program = shop.program();
    let folder = program.with_file_name("embedded.folder");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).unwrap();
    assert_eq!(run(&program, &folder, None), "true false\n");

    let reported = run(&program, &folder, Some("redis://:s3cr3t@localhost"));
    let expected = "requires the crate feature `redis`; enable it, or write `memory`";
    assert!(reported.contains(expected) && !reported.contains("s3cr3t"), "{reported}");

    fs::write(folder.join("ratelimit.yaml"), "limiters: {}").unwrap();
    let reported = run(&program, &folder, None);
    assert!(reported.contains(&format!("ratelimit.yaml: {NO_LIMITS_FILE}")), "{reported}");
}

const NO_LIMITS_FILE: &str =
    "limits files require the crate feature `limits-file`; enable it, or remove the file";

#[test]
fn a_program_says_that_it_misses_the_limits_file_of_its_compilation() {
    const FILE: &str = "limiters: { quote: { wait: none } }";

    let options = ", default-features = false, features = [\"limits-file\"]";
    let shop = Shop::new("fileless", "ratelimit-runtime", options);
    let install =
        "ratelimit_runtime::Limits::builder().on_event(|event| println!(\"{event}\")).install()";
    shop.write("src/main.rs", &PROGRAM.replace("ratelimit_runtime::init()", install));
    shop.write("src/lib.rs", "");
    shop.write("ratelimit.yaml", FILE);
    let program = shop.program();
    let folder = program.with_file_name("fileless.folder");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).unwrap();
    let missing =
        "this program was compiled with the limits file `ratelimit.yaml`, but finds none now";
    let output = run(&program, &folder, Some("memory"));
    assert!(output.starts_with(missing) && output.ends_with("true false\n"), "{output}");
    assert_eq!(output.matches(missing).count(), 1, "{output}");
    fs::write(folder.join("ratelimit.yaml"), FILE).unwrap();
    let output = run(&program, &folder, Some("memory"));
    assert!(!output.contains(missing) && output.ends_with("true false\n"), "{output}");
}

#[test]
fn the_features_of_a_missing_module_are_shown() {
    let shop = Shop::new("modules", "ratelimit-runtime", NO_FEATURES);
    for (import, features) in [
        ("web::ClientIp", &["actix", "axum", "tonic", "tower"][..]),
        ("tower::Limit", &["tower"]),
        ("client::Throttle", &["client"]),
    ] {
        shop.write("src/lib.rs", &format!("pub use ratelimit_runtime::{import};\n"));
        let output = shop.does_not_compile();
        let is_shown = |feature| output.contains(&format!("feature = \"{feature}\""));
        assert!(features.iter().all(is_shown), "{output}");
        assert!(!output.contains("_web"), "{output}");
    }
}

#[test]
fn a_missing_feature_is_a_compile_error() {
    let shop = Shop::new("featureless", "ratelimit-runtime", NO_FEATURES);
    shop.write("src/lib.rs", BY_THE_DAY);
    let output = shop.does_not_compile();
    let expected = [
        "error: calendar window `day` requires the crate feature `calendar`; enable it, or write a \
         length such as `1d`",
        "error: time zone `Europe/Vienna` requires the crate feature `calendar`; enable it",
    ];
    assert_eq!(errors(&output), expected);

    let plain = "#[ratelimit_runtime::rate_limit(key = \"quote\", rate = 1, per = \"1d\")]";
    shop.write("src/lib.rs", &format!("{plain}\npub async fn quote() {{}}\n"));
    shop.compiles();
    shop.write("ratelimit.yaml", "limiters: { quote: { rate: 1, per: 1s } }");
    shop.write("src/lib.rs", &format!("{plain}\npub async fn quote() {{}}\n\n"));
    let output = shop.does_not_compile();
    assert_eq!(errors(&output), [format!("error: ratelimit.yaml: {NO_LIMITS_FILE}")]);
}

fn run(program: &Path, folder: &Path, store: Option<&str>) -> String {
    let mut run = Command::new(program);
    run.current_dir(folder).env_remove("REDIS_URL").env_remove("RATELIMIT_LIMITS");
    run.env("RATELIMIT_STORE", store.unwrap_or_default());
    let output = run.output().expect("the program runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
