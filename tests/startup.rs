//! The limits file against the compiled program, before any traffic.

use std::{
    process::{Command, Output},
    sync::{Arc, Mutex},
};

use ratelimit_runtime::{Limits, Rejection, limiter, rate_limit};
use tests::redis_server::RedisServer;

#[rate_limit(key = "orders:{user_id}", rate = 5, per = "1m", wait = "none", permits = 2)]
async fn place_order(user_id: u64) -> Result<(), Rejection> {
    Ok(())
}

#[rate_limit(key = "mail", rate = 10, per = "1s")]
async fn send_mail() {}

#[rate_limit(key = "search", rate = 10, per = "1s", wait = "250ms")]
async fn search() -> Result<(), Rejection> {
    Ok(())
}

async fn refused(yaml: &str) -> String {
    let limits = Limits::builder().memory().limits_text(yaml).build().await;
    limits.map(|_| ()).expect_err(yaml).to_string()
}

async fn accepted(yaml: &str) -> (Limits, Vec<String>) {
    let events = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&events);
    let builder = Limits::builder()
        .memory()
        .limits_text(yaml)
        .on_event(move |event| seen.lock().unwrap().push(event.to_string()));
    let limits = builder.build().await.expect(yaml);
    let events = events.lock().unwrap().clone();
    (limits, events)
}

#[tokio::test]
async fn a_rate_below_a_call_s_cost_is_refused() {
    assert_eq!(
        refused("limiters:\n  \"orders:{user_id}\": { rate: 1 }\n").await,
        "tests/startup.rs:11: `orders:{user_id}` takes 2 permits a call, but limits:2:31 sets a rate \
         of 1; no call would ever get through"
    );
    let nested = "limiters:\n  \"orders:{user_id}\":\n    overrides:\n      - { key: \"orders:7\", rate: 1 }\n";
    let error = refused(nested).await;
    assert!(error.contains("but limits:4:34 sets a rate of 1"), "{error}");
    // Nobody is a decision, one of two permits a mistake.
    accepted("limiters:\n  \"orders:{user_id}\": { rate: 0 }\n").await;
}

#[tokio::test]
async fn what_a_function_cannot_answer_is_refused() {
    let error = refused("limiters:\n  mail: { rate: 0 }\n").await;
    assert!(
        error.ends_with("its function cannot refuse a call, so nobody would ever be answered"),
        "{error}"
    );
    let error = refused("limiters:\n  mail: { wait: none }\n").await;
    assert!(
        error.contains("`mail` cannot refuse a call, but limits:2:17 sets `wait: none`"),
        "{error}"
    );
    let error = refused("limiters:\n  mail: { on_store_error: reject }\n").await;
    assert!(error.contains("sets `on_store_error: reject`"), "{error}");
    accepted("limiters:\n  search: { rate: 0, wait: none, on_store_error: reject }\n").await;
}

#[tokio::test]
async fn a_typo_is_an_error_that_names_the_limiter() {
    assert_eq!(
        refused("limiters:\n  serach: { rate: 1, per: 1s }\n").await,
        "limits:2:3: `serach` matches no limiter of this program; did you mean `search`?"
    );
    let several = "limiters:\n  serach: { rate: 1, per: 1s }\n  mail: { rate: 0 }\n";
    assert!(refused(several).await.starts_with("2 problems keep the rate limits from starting:"));
    // Also beside what is wrong with the file itself.
    let error = refused("limiters:\n  serach: { rate: 1, per: 1s }\n  mail: { rat: 0 }\n").await;
    assert!(
        error.contains("did you mean `search`?") && error.contains("unknown field `rat`"),
        "{error}"
    );
}

#[tokio::test]
async fn the_file_goes_before_the_annotation_field_by_field() {
    let yaml = "default: { rate: 1, per: 1h }\nlimiters:\n  search: { rate: 3, wait: none }\n  \
                \"orders:{user_id}\":\n    overrides:\n      - { key: \"orders:7\", rate: 0 }\n      \
                - { prefix: \"orders:8\", rate: 4 }\n  mail: { enabled: false }\n";
    let (limits, events) = accepted(yaml).await;
    assert_eq!(events, ["rate limit `mail` is turned off"]);
    limits
        .scope(async {
            for _ in 0..3 {
                search().await.unwrap();
            }
            search().await.unwrap_err();
            place_order(7).await.unwrap_err();
            for user in [8, 9] {
                place_order(user).await.unwrap();
                place_order(user).await.unwrap();
                place_order(user).await.unwrap_err();
            }
            for _ in 0..50 {
                send_mail().await;
            }
            assert_eq!(limiter!("search").quotas().unwrap()[0].to_string(), "3 per 1s");
            assert_eq!(
                limiter!("orders:{user_id}", user_id = 8).quotas().unwrap()[0].to_string(),
                "4 per 1m"
            );
        })
        .await;
    let report = limits.report().to_string();
    for line in [
        "rate: 3 (limits file)",
        "per: 1s (annotation)",
        "off (limits file)",
        "used by startup::search (tests/startup.rs:19)",
    ] {
        assert!(report.contains(line), "{line} in\n{report}");
    }
}

fn unattended(variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unattended"));
    command.env_remove("REDIS_URL").env_remove("RATELIMIT_STORE").env_remove("RATELIMIT_LIMITS");
    command.envs(variables.iter().copied()).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_program_that_installs_nothing_is_limited_all_the_same() {
    let output = unattended(&[]);
    assert_eq!(said(&output), "first ok\nsecond Limited\nforever ok\n");
    let server = RedisServer::start();
    let output = unattended(&[("REDIS_URL", &server.url())]);
    assert_eq!(said(&output), "first ok\nsecond Limited\nforever ok\n");
    assert_eq!(server.cli::<String>(&["HGET", "unattended", "rate"]), "1");
    // Another process finds the permit taken.
    let output = unattended(&[("RATELIMIT_STORE", &server.url())]);
    assert_eq!(said(&output), "first Limited\nsecond Limited\nforever ok\n");
}

#[test]
fn a_program_that_installs_nothing_and_cannot_read_its_limits_says_so_with_each_call() {
    let path =
        std::env::temp_dir().join(format!("ratelimit-unattended-{}.yaml", std::process::id()));
    std::fs::write(&path, "limiters:\n  unattended: { rat: 1 }\n").unwrap();
    let output = unattended(&[("RATELIMIT_LIMITS", path.to_str().unwrap())]);
    std::fs::remove_file(path).unwrap();
    // What cannot refuse is limited by its annotation, in the process.
    let said = said(&output);
    assert_eq!(said, "first StoreMisconfigured\nsecond StoreMisconfigured\nforever ok\n");
}

#[test]
fn two_places_that_disagree_on_one_key_do_not_start() {
    let output = Command::new(env!("CARGO_BIN_EXE_disagreeing")).output().unwrap();
    let said = said(&output);
    let expected = "tests/src/bin/disagreeing.rs:8: `shared` has `rate` 2 here and 1 at \
                    tests/src/bin/disagreeing.rs:5; functions with one key share one limiter, write the \
                    same or leave it out\n";
    let other_way = "tests/src/bin/disagreeing.rs:5: `shared` has `rate` 1 here and 2 at \
                     tests/src/bin/disagreeing.rs:8; functions with one key share one limiter, write the \
                     same or leave it out\n";
    assert!(said == expected || said == other_way, "{said}");
}
