//! The limits file against the compiled program, before any traffic.

use std::{
    process::{Command, Output},
    sync::{Arc, Mutex},
};

use ratelimit_runtime::{Limits, Problem, ProblemKind, Quota, Rejection, limiter, rate_limit};
use tests::{limits_file::LimitsFile, redis_server::RedisServer};

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
    let limits = Limits::builder().memory().limits_yaml(yaml).build().await;
    limits.map(|_| ()).expect_err(yaml).to_string()
}

async fn accepted(yaml: &str) -> (Limits, Vec<String>) {
    let events = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&events);
    let builder = Limits::builder()
        .memory()
        .limits_yaml(yaml)
        .on_event(move |event| seen.lock().unwrap().push(event.to_string()));
    let limits = builder.build().await.expect(yaml);
    let events = events.lock().unwrap().clone();
    (limits, events)
}

#[tokio::test]
async fn a_rate_below_a_call_s_cost_is_refused() {
    assert_eq!(
        refused("limiters:\n  \"orders:{user_id}\": { rate: 1 }\n").await,
        "tests/startup.rs:11: `orders:{user_id}`: `permits` is 2, but `rate` is 1, so no call can succeed; lower \
         `permits`, or raise `rate` (`rate` is set at limits:2:31)"
    );
    let nested = "limiters:\n  \"orders:{user_id}\":\n    overrides:\n      - { key: \"orders:7\", rate: 1 }\n";
    let error = refused(nested).await;
    assert!(error.contains("(`rate` is set at limits:4:34)"), "{error}");
    // Nobody is a decision, one of two permits a mistake.
    accepted("limiters:\n  \"orders:{user_id}\": { rate: 0 }\n").await;
}

#[tokio::test]
async fn what_a_function_cannot_answer_is_refused() {
    let error = refused("limiters:\n  mail: { rate: 0 }\n").await;
    assert!(
        error.ends_with(
            "sets `rate: 0`; give its attribute a `wait` with an end, or raise the rate"
        ),
        "{error}"
    );
    let error = refused("limiters:\n  mail: { wait: none }\n").await;
    assert!(
        error.contains("`mail` cannot reject calls, but limits:2:17 sets `wait: none`"),
        "{error}"
    );
    let error = refused("limiters:\n  mail: { on_store_error: reject }\n").await;
    assert!(error.contains("write `on_store_error = \"reject\"` in its attribute"), "{error}");
    accepted("limiters:\n  search: { rate: 0, wait: none, on_store_error: reject }\n").await;
}

#[tokio::test]
async fn a_typo_is_an_error_that_names_the_limiter() {
    assert_eq!(
        refused("limiters:\n  serach: { rate: 1, per: 1s }\n").await,
        "limits:2:3: `serach` matches no limiter in this program; did you mean `search`? If it is the name of \
         another limiter, write `unmatched: ignore`"
    );
    // The way out of it: a name that exists at run time alone.
    let (limits, _) =
        accepted("unmatched: ignore\nlimiters:\n  serach: { rate: 1, per: 1s }\n").await;
    assert_eq!(limits.configured("serach").quotas().unwrap()[0], Quota::per_second(1));
    let several = "limiters:\n  serach: { rate: 1, per: 1s }\n  mail: { rate: 0 }\n";
    assert!(refused(several).await.starts_with("rate limits could not be set up, 2 problems:"));
    // Also beside what is wrong with the file itself.
    let error = refused("limiters:\n  serach: { rate: 1, per: 1s }\n  mail: { rat: 0 }\n").await;
    assert!(
        error.contains("did you mean `search`?") && error.contains("unknown field `rat`"),
        "{error}"
    );
}

/// The advice was to keep it, as the name of another limiter.
#[tokio::test]
async fn an_invalid_key_is_reported_once() {
    for yaml in [
        "limiters:\n  \"orders:{user_id\": { rate: 1 }\n",
        "unmatched: error\nlimiters:\n  \"exports:{user_id\": { rate: 1 }\n",
    ] {
        let error = refused(yaml).await;
        assert!(
            error.ends_with("unclosed `{` in the key; write `{{` for a literal brace"),
            "{error}"
        );
        assert!(!error.contains("matches no limiter"), "{error}");
    }
}

#[tokio::test]
async fn an_entry_beside_its_template_is_pointed_to_the_overrides() {
    let (_, events) =
        accepted("limiters:\n  \"orders:42\": { rate: 0 }\n  other: { rate: 1, per: 1s }\n").await;
    assert_eq!(
        events,
        [
            "`orders:42` in the limits file matches no limiter in this program; for calls of `orders:{user_id}` with \
             this name, write it in the `overrides` there",
            "`other` in the limits file matches no limiter in this program",
        ]
    );
}

/// Otherwise the operator believes that it limits the calls.
#[tokio::test]
async fn an_entry_that_only_has_other_placeholders_than_a_limiter_names_that_limiter() {
    for entry in [
        "orders",
        "orders:",
        "orders:{id}",
        "orders:*",
        "Orders:{tenant}:{user_id}",
        "order",
        "ordres",
        "order:{id}",
    ] {
        let yaml = format!("limiters:\n  \"{entry}\": {{ rate: 1, per: 1s }}\n");
        let expected = format!(
            "`{entry}` in the limits file matches no limiter in this program; did you mean `orders:{{user_id}}`?"
        );
        assert_eq!(accepted(&yaml).await.1, [expected]);
    }
    let error = refused("unmatched: error\nlimiters:\n  orders: { rate: 1, per: 1s }\n").await;
    assert_eq!(
        error,
        "limits:3:3: `orders` matches no limiter in this program; did you mean `orders:{user_id}`? If it is the \
         name of another limiter, write `unmatched: ignore`"
    );
    for entry in
        ["payments:{user_id}", "mail-orders:{user_id}", "{user_id}", "orders:{user_id}:items"]
    {
        let yaml = format!("limiters:\n  \"{entry}\": {{ rate: 1, per: 1s }}\n");
        let expected = format!("`{entry}` in the limits file matches no limiter in this program");
        assert_eq!(accepted(&yaml).await.1, [expected]);
    }
    // The limiter has an entry, so this one belongs to another program.
    let both = "limiters:\n  \"orders:{user_id}\": { rate: 5 }\n  orders: { rate: 1, per: 1s }\n";
    assert_eq!(
        accepted(both).await.1,
        ["`orders` in the limits file matches no limiter in this program"]
    );
}

#[tokio::test]
async fn the_file_goes_before_the_annotation_field_by_field() {
    let yaml = "default: { rate: 1, per: 1h }\nlimiters:\n  search: { rate: 3, wait: none }\n  \
                \"orders:{user_id}\":\n    overrides:\n      - { key: \"orders:7\", rate: 0 }\n      \
                - { prefix: \"orders:8\", rate: 4 }\n  mail: { enabled: false }\n";
    let (limits, events) = accepted(yaml).await;
    assert_eq!(events, ["rate limit `mail` is disabled"]);
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

/// What the program says that finds all permits free.
const ALONE: &str = "first ok, ok\nsecond Limited, Limited\nthird ok, ok\nfourth ok, ok\n";

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
    assert_eq!(said(&output), ALONE);
    let server = RedisServer::start();
    // On a busy machine, connecting takes longer than the default deadline.
    let patient = LimitsFile::new("deadline: 5s\n");
    let limits = ("RATELIMIT_LIMITS", patient.path().to_str().unwrap());
    let output = unattended(&[limits, ("REDIS_URL", &server.url())]);
    assert_eq!(said(&output), ALONE);
    assert_eq!(server.cli::<String>(&["HGET", "unattended", "rate"]), "1");
    // Another process finds the permit taken.
    let output = unattended(&[limits, ("RATELIMIT_STORE", &server.url())]);
    assert_eq!(
        said(&output),
        "first Limited, Limited\nsecond Limited, Limited\nthird ok, ok\nfourth ok, ok\n"
    );
}

#[test]
fn limits_that_were_used_cannot_be_installed() {
    assert_eq!(
        said(&unattended(&[("LATE", "1")])),
        "limits are already installed, or were used before; call `install` once, at startup, before any limiter is \
         used\n"
    );
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
    let expected = ["first", "second", "third", "fourth"]
        .map(|call| format!("{call} StoreMisconfigured, StoreMisconfigured\n"));
    assert_eq!(said, expected.concat());
}

fn disagreeing() -> Command {
    Command::new(env!("CARGO_BIN_EXE_disagreeing"))
}

#[test]
fn two_places_that_disagree_on_one_key_do_not_start() {
    let output = Command::new(env!("CARGO_BIN_EXE_disagreeing")).output().unwrap();
    // `main` returns the error, which is shown as text, line by line.
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stderr);
    let expected = "Error: rate limits could not be set up, 4 problems:\n  \
        tests/src/bin/disagreeing.rs:19: `on_store_error` of `outage` is local here, but allow at \
        tests/src/bin/disagreeing.rs:13; functions with the same key share one limiter, so write the same \
        value or remove one\n  \
        tests/src/bin/disagreeing.rs:10: `rate` of `shared` is 2 here, but 1 at \
        tests/src/bin/disagreeing.rs:7; functions with the same key share one limiter, so write the same \
        value or remove one\n  \
        tests/src/overlapping.rs:4: `overlap:{other}` can be the same name as `overlap:{user_id}` at \
        tests/src/overlapping.rs:3, and one name is one limiter; write one key for both, or start one of \
        them differently\n  \
        tests/src/overlapping.rs:5: `overlap:5` can be the same name as `overlap:{user_id}` at \
        tests/src/overlapping.rs:3, and one name is one limiter; write one key for both, or start one of \
        them differently\n";
    assert_eq!(told, expected);
}

#[test]
fn a_relative_path_starts_at_the_working_directory_and_is_shown_in_full() {
    let folder = std::env::temp_dir().join(format!("ratelimit-relative-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let folder = folder.canonicalize().unwrap();
    let told = || {
        let mut program = disagreeing();
        program.current_dir(&folder).env("RATELIMIT_LIMITS", "limits.yaml");
        String::from_utf8_lossy(&program.output().unwrap().stderr).into_owned()
    };
    let path = folder.join("limits.yaml");
    let missing = told();
    std::fs::write(&path, "limiters:\n  x: { rat: 1 }\n").unwrap();
    let mistaken = told();
    std::fs::remove_dir_all(&folder).unwrap();
    let path = path.display();
    assert!(missing.starts_with(&format!("Error: {path}: cannot be read: ")), "{missing}");
    assert!(mistaken.contains(&format!("{path}:2:8: unknown field `rat`")), "{mistaken}");
}

#[tokio::test]
async fn a_problem_says_what_it_is_about() {
    let problems = async |yaml: &str| {
        let error = Limits::builder().memory().limits_yaml(yaml).build().await.unwrap_err();
        let about = |problem: &Problem| {
            let place = problem.place().map(|(path, line, column)| {
                format!(
                    "{}:{line}:{column}",
                    path.display().to_string().rsplit('/').next().unwrap()
                )
            });
            let limiter = problem.limiter().map(str::to_owned);
            (problem.kind(), place.unwrap_or_default(), limiter, problem.setting())
        };
        error.problems().iter().map(about).collect::<Vec<_>>()
    };
    let mail = Some("mail".to_owned());
    assert_eq!(
        problems("limiters:\n  mail: { rate: -1 }\n").await,
        [(ProblemKind::Setting, "limits:2:17".to_owned(), mail.clone(), Some("rate"))]
    );
    assert_eq!(
        problems("limiters:\n  rate: { colour: red }\n").await,
        [(ProblemKind::Setting, "limits:2:11".to_owned(), Some("rate".to_owned()), None)],
        "a limiter may have the name of a setting"
    );
    for (yaml, setting) in [
        ("deadline: 90s\n", "deadline"),
        ("trusted_proxies: [10.0.0.0/8, x]\n", "trusted_proxies"),
        ("default: { rate: -1 }\n", "rate"),
        ("prefixes: [{ prefix: a, wait: soon }]\n", "wait"),
    ] {
        let [(kind, _, limiter, about)] = &problems(yaml).await[..] else { panic!("{yaml}") };
        assert_eq!((*kind, limiter, *about), (ProblemKind::Setting, &None, Some(setting)));
    }
    assert_eq!(
        problems("limiters: [\n").await,
        [(ProblemKind::Syntax, "limits:1:11".to_owned(), None, None)]
    );
    assert_eq!(
        problems("limiters:\n  mail: { wait: none }\n").await,
        [(ProblemKind::Setting, "startup.rs:16:1".to_owned(), mail, Some("wait"))]
    );
    assert_eq!(
        problems("limiters:\n  serach: { rate: 1, per: 1s }\n").await,
        [(ProblemKind::Unmatched, "limits:2:3".to_owned(), Some("serach".to_owned()), None)]
    );

    let missing = Limits::builder().memory().limits_file("/nowhere/limits.yaml");
    let error = missing.build().await.unwrap_err();
    assert_eq!(error.problems()[0].kind(), ProblemKind::File);
    assert!(std::error::Error::source(&error).is_some_and(|source| source.is::<std::io::Error>()));
    let elsewhere = Limits::builder().no_limits_file().redis("http://nowhere");
    let error = elsewhere.build().await.unwrap_err();
    assert_eq!(error.problems()[0].kind(), ProblemKind::Store);
}

/// A variable from a secret of two lines made two lines of a problem, and sent its codes to the terminal.
#[tokio::test]
async fn a_problem_is_one_line_without_control_characters() {
    let builder = || Limits::builder().no_limits_file();
    for (builder, shown) in [
        (builder().redis("one:6379\ntwo:6379"), r"store `one:6379\ntwo:6379`: "),
        (builder().redis("http://a\u{1b}[31m"), r"store `http://a\u{1b}[31m`: "),
        (Limits::builder().memory().limits_file("/nowhere\n.yaml"), r"/nowhere\n.yaml: "),
    ] {
        let error = builder.build().await.unwrap_err().to_string();
        assert!(error.starts_with(shown), "{error}");
    }
}

#[tokio::test]
async fn a_deadline_that_no_call_can_have_is_refused() {
    use std::time::Duration;
    for (deadline, shown) in [
        (Duration::ZERO, "0s"),
        (Duration::from_micros(999), "999µs"),
        (Duration::from_millis(60_001), "1m1ms"),
        (Duration::MAX, "18446744073709551615.999999999s"),
    ] {
        let limits = Limits::builder().memory().no_limits_file().deadline(deadline).build().await;
        let error = limits.map(|_| ()).unwrap_err();
        let expected = format!(
            "`deadline` cannot be `{shown}`; write a duration from `1ms` to `1m`, such as `100ms`"
        );
        assert_eq!(error.to_string(), expected);
        let [problem] = error.problems() else { panic!("{error}") };
        assert_eq!((problem.kind(), problem.setting()), (ProblemKind::Setting, Some("deadline")));
    }
    assert_eq!(
        refused("deadline: 90s\n").await,
        "limits:1:11: `deadline` cannot be `1m30s`; write a duration from `1ms` to `1m`, such as `100ms`"
    );
    for yaml in ["deadline: 1ms\n", "deadline: 1m\n"] {
        accepted(yaml).await;
    }
}

#[tokio::test]
async fn a_revision_that_no_script_counts_with_is_refused() {
    let revised = |revision| Limits::builder().memory().no_limits_file().revision(revision).build();
    for revision in [1 << 53, u64::MAX] {
        let expected = format!(
            "`revision` cannot be `{revision}`; write a whole number from 0 to 9007199254740991"
        );
        let error = revised(revision).await.map(|_| ()).unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert_eq!(error.problems()[0].setting(), Some("revision"));
        let yaml = format!("limiters: {{}}\nrevision: {revision}\n");
        assert_eq!(refused(&yaml).await, format!("limits:2:11: {expected}"));
    }
    revised((1 << 53) - 1).await.unwrap();
    accepted("revision: 9007199254740991\n").await;
}

#[tokio::test]
async fn numbers_of_the_builder_that_mean_nothing_are_refused() {
    use std::time::Duration;

    let builder = || Limits::builder().memory().limits_yaml("limiters: {}");
    for (builder, name, expected) in [
        (
            builder().instances(0),
            "instances",
            "`instances` cannot be `0`; write a whole number from 1 to 4294967295",
        ),
        (builder().watch(Duration::ZERO), "watch", "`watch` cannot be `0s`; write `1ms` or longer"),
    ] {
        let error = builder.build().await.map(|_| ()).unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert_eq!(error.problems()[0].setting(), Some(name));
    }
    builder().instances(1).watch(Duration::from_millis(1)).build().await.unwrap();
    let refused = refused("limiters: {}\ninstances: 0\n").await;
    assert_eq!(
        refused,
        "limits:2:12: `instances` cannot be `0`; write a whole number from 1 to 4294967295"
    );
}

#[tokio::test]
async fn the_report_says_how_limiters_were_reconciled() {
    let limits = accepted("limiters: { search: { rate: 1 } }").await.0;
    limits.scope(search()).await.unwrap();
    let report = limits.report().limiter("search").unwrap().to_string();
    assert!(report.ends_with("\n  reconciled: created 1"), "{report}");
}

#[tokio::test]
async fn all_mistakes_of_the_builder_and_of_the_file_are_in_one_report() {
    use std::time::Duration;

    let builder = || {
        Limits::builder()
            .redis("http://localhost")
            .key_prefix("{")
            .deadline(Duration::ZERO)
            .max_remembered(0)
            .instances(0)
            .watch(Duration::ZERO)
            .revision(u64::MAX)
            .trusted_proxies(["10.0.0.0/33", "10.0.0.1", "proxy"])
    };
    let settings = async |builder: ratelimit_runtime::LimitsBuilder| {
        let error = builder.build().await.map(|_| ()).unwrap_err();
        let mut settings: Vec<_> = error.problems().iter().map(Problem::setting).collect();
        settings.sort();
        settings
    };
    let expected = [
        None, // The address of the store.
        Some("deadline"),
        Some("instances"),
        Some("key_prefix"),
        Some("max_remembered"),
        Some("revision"),
        Some("trusted_proxies"),
        Some("trusted_proxies"),
        Some("watch"),
    ];
    assert_eq!(settings(builder().no_limits_file()).await, expected);
    let mut with_the_file = expected.to_vec();
    with_the_file.push(Some("rate"));
    with_the_file.sort();
    // A file that cannot be parsed in full, and one whose settings do not fit the program.
    for yaml in ["limiters:\n  mail: { rate: -1 }\n", "limiters:\n  mail: { rate: 0 }\n"] {
        assert_eq!(settings(builder().limits_yaml(yaml)).await, with_the_file, "{yaml}");
    }
}

#[tokio::test]
async fn a_bound_of_no_limiter_is_refused() {
    let expected = |limiters| {
        format!("`max_remembered` cannot be `{limiters}`; write a whole number from 1 to 100000000")
    };
    for limiters in [0, 100_000_001] {
        let builder = Limits::builder().memory().no_limits_file().max_remembered(limiters);
        let error = builder.build().await.map(|_| ()).unwrap_err();
        assert_eq!(error.to_string(), expected(limiters));
        assert_eq!(error.problems()[0].setting(), Some("max_remembered"));
        let yaml = format!("max_remembered: {limiters}\n");
        assert_eq!(refused(&yaml).await, format!("limits:1:17: {}", expected(limiters)));
    }
}

#[rate_limit(key = "browse", rate = 10, per = "1s", wait = "250ms")]
async fn browse() -> Result<(), Rejection> {
    Ok(())
}

#[rate_limit(key = "browse", rate = 10, per = "1s", wait = "none")]
async fn browse_at_once() -> Result<(), Rejection> {
    Ok(())
}

#[rate_limit(key = "enter", rate = 10, per = "1s", wait = "1s")]
async fn enter() -> Result<(), Rejection> {
    Ok(())
}

#[rate_limit(key = "enter", rate = 10, per = "1s")]
async fn enter_in_any_case() {}

macro_rules! two_at_once {
    ($key:literal) => {
        (limiter!($key), limiter!($key))
    };
}

#[tokio::test]
async fn the_report_lists_a_line_once() {
    let (limits, _) = accepted("").await;
    let (_, _) = limits.scope(async { two_at_once!("enter") }).await;
    let report = limits.report();
    let sites = &report.limiter("enter").unwrap().call_sites;
    assert!(matches!(&sites[..], [_, _, _]), "two functions and a line: {sites:?}");
    assert!(sites[0].contains("enter ("), "in the order of the source: {sites:?}");
}

#[tokio::test]
async fn the_report_shows_the_wait_of_each_function() {
    let waits = async |yaml: &str| {
        let (limits, _) = accepted(yaml).await;
        let call = async {
            enter_in_any_case().await;
            (enter().await, browse().await, browse_at_once().await, limiter!("browse"))
        };
        let (entered, ..) = limits.scope(call).await;
        entered.unwrap();
        let report = limits.report();
        let browse = report.limiter("browse").unwrap();
        let waits = browse.settings.iter().filter(|setting| setting.name == "wait");
        waits.map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(waits("").await, ["wait: 250ms (annotation)", "wait: none (annotation)"]);
    let by_file = "limiters:\n  browse: { wait: 1s }\n";
    assert_eq!(waits(by_file).await, ["wait: 1s (limits file)"]);
    let (limits, _) = accepted("").await;
    let report = limits.report().to_string();
    assert!(report.contains("\n  wait: 1s (annotation)\n  wait: forever (built in)\n"), "{report}");
}
