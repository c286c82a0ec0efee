//! Names that are built at run time, and the entries of the limits file that apply to them.

use std::sync::{Arc, Mutex};

use ratelimit_runtime::{Limiter, Limits, Quota, report::LimiterReport};
use tests::limits_file::LimitsFile;

use crate::{SECOND, embedded, quota};

async fn admit(limits: &Limits, name: &str) {
    limits.configured(name).try_acquire(1).await.unwrap();
}

fn rate(limits: &Limits, name: &str) -> u64 {
    limits.configured(name).quotas().unwrap()[0].rate()
}

/// The rates and the admitted calls in the rows of a report with this key.
fn rows(limits: &Limits, key: &str) -> Vec<(u64, u64)> {
    let row = |row: LimiterReport| (row.quotas.unwrap()[0].rate(), row.allowed);
    limits.report().limiters.into_iter().filter(|row| row.key == key).map(row).collect()
}

#[tokio::test]
async fn an_entry_that_ends_in_a_star_is_not_that_of_a_prefix() {
    let yaml = "limiters:
  'test*': { rate: 9, per: 1h, overrides: [{ key: 'test*', burst: 5, algorithm: token_bucket }] }
prefixes:
  - { prefix: test, rate: 2, per: 1h, max_keys: 1 }
";
    let limits = embedded(yaml).build().await.unwrap();
    assert_eq!((rate(&limits, "test*"), rate(&limits, "test1")), (9, 2));
    admit(&limits, "test1").await;
    assert_eq!(rows(&limits, "test*"), [(9, 0), (2, 1)]);
    for _ in 0..3 {
        admit(&limits, "test*").await;
    }
    assert_eq!(rows(&limits, "test*"), [(9, 3), (2, 1)]);
    assert_eq!(limits.report().limiter("test*").unwrap().overrides.len(), 1);
    let [_, prefix] = &limits.report().limiters[..] else { panic!("{}", limits.report()) };
    assert_eq!(prefix.overrides, []);
}

#[tokio::test]
async fn a_prefix_that_ends_in_a_star_is_not_the_shorter_one() {
    let yaml = "prefixes:
  - { prefix: 'a*', rate: 9, per: 1h, max_keys: 1 }
  - { prefix: a, rate: 2, per: 1h, max_keys: 1 }
limiters: { a: { rate: 7, per: 1h } }
";
    let limits = embedded(yaml).build().await.unwrap();
    admit(&limits, "ab").await;
    assert_eq!(rows(&limits, "a*"), [(2, 1)]);
    admit(&limits, "a*b").await;
    assert_eq!((rows(&limits, "a*"), rows(&limits, "a**")), (vec![(2, 1)], vec![(9, 1)]));
    assert_eq!((rate(&limits, "a"), rate(&limits, "ac")), (7, 2));
    assert_eq!(limits.configured("a*c").name(), "a*~others");
    assert_eq!(limits.configured("ac").name(), "a~others");
}

#[tokio::test]
async fn an_entry_applies_to_the_name_as_it_is_given() {
    let yaml = "limiters:
  '50%': { rate: 9, per: 1h, overrides: [{ key: '50%', rate: 8 }] }
  'a{{b}}~': { rate: 7, per: 1h }
prefixes:
  - { prefix: 'up:{', rate: 2, per: 1h }
  - { prefix: '~', rate: 3, per: 1h, max_keys: 1 }
";
    let limits = embedded(yaml).build().await.unwrap();
    for (name, expected, key) in
        [("50%", 8, "50%"), ("a{b}~", 7, "a{{b}}~"), ("up:{1", 2, "up:{*"), ("~1", 3, "~*")]
    {
        assert_eq!(rate(&limits, name), expected, "{name}");
        admit(&limits, name).await;
        let admitted = limits.report().limiter(key).map(|row| row.allowed);
        assert_eq!(admitted, Some(1), "{name}");
    }
    let others = limits.configured("~2");
    assert_eq!((others.name(), others.quotas().unwrap()[0].rate()), ("%7E~others", 3));
    // It applies after a reload as well, and the stored names stay safe.
    let file = LimitsFile::new("limiters: { other: { rate: 1 } }\n");
    let limits = Limits::builder().memory().limits_file(file.path()).build().await.unwrap();
    let [half, tagged] = ["50%", "up:{1"].map(|name| limits.configured(name));
    file.write(yaml);
    limits.reload().unwrap();
    let rate = |limiter: &Limiter| limiter.quotas().unwrap()[0].rate();
    assert_eq!((rate(&half), rate(&tagged)), (8, 2));
    assert_eq!((half.name(), tagged.name()), ("50%25", "up:%7B1"));
}

#[tokio::test]
async fn a_name_is_counted_by_an_entry_that_a_reload_adds() {
    let file = LimitsFile::new("{}");
    let limits = Limits::builder().memory().limits_file(file.path()).build().await.unwrap();
    let quota = Quota::per_hour(5);
    let (held, entry) = (limits.limiter("test:1", quota), limits.limiter("entry", quota));
    for limiter in [&held, &entry, &limits.limiter("test:2", quota)] {
        limiter.try_acquire(1).await.unwrap();
    }
    file.write("limiters: { entry: { max_waiters: 1 } }\nprefixes: [{ prefix: 'test:' }]\n");
    limits.reload().unwrap();
    for limiter in [&held, &entry, &limits.limiter("test:2", quota)] {
        limiter.try_acquire(1).await.unwrap();
    }
    let report = limits.report();
    let row = |key| report.limiter(key).map_or(0, |row| row.allowed);
    assert_eq!((row("entry"), row("test:*")), (1, 2), "those since the reload");
    assert_eq!(report.limiter("entry").unwrap().quotas.as_ref().unwrap()[0], quota);
}

/// The events about settings without effect.
async fn without_effect(yaml: &str, give: impl FnOnce(&Limits)) -> Vec<String> {
    let events = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&events);
    let limits = embedded(yaml).on_event(move |event| {
        seen.lock()
            .unwrap()
            .extend(event.to_string().split_once("as written: ").map(|it| it.1.to_owned()));
    });
    give(&limits.build().await.unwrap());
    let events = events.lock().unwrap();
    events.clone()
}

#[tokio::test]
async fn a_setting_that_does_not_fit_the_quota_in_code_is_reported() {
    let yaml = "unmatched: ignore
limiters:
  mails: { per: day }
  search: { burst: 9 }
  fits: { burst: 9 }
prefixes:
  - { prefix: 'up:', keep_alive: 1s }
default: { shards: 4 }
";
    let found = without_effect(yaml, |limits| {
        let window = Quota::per_hour(8);
        for name in ["mails", "search", "search", "other", "up:1"] {
            let _ = limits.limiter(name, window);
        }
        let _ = limits.limiter("fits", window.token_bucket(8).unwrap());
        let _ = limits.limiter("few", Quota::per_hour(3));
        let _ = limits.configured("other");
    });
    assert_eq!(
        found.await,
        [
            "calendar window `day` requires `fixed_window`, but the algorithm is `sliding_window`; write \
             `fixed_window`, or a length such as `1d`",
            "`burst` requires `token_bucket`, but the algorithm is `sliding_window`; set `algorithm` to \
             `token_bucket`, or remove `burst`",
            "`keep_alive` of `1s` is shorter than `per`; write at least `1h`",
            "`shards: 4` leaves a shard without permits; write at most 3, which is the `rate`",
        ]
    );
}

/// A test of a program asks for a key with placeholders as the limits file writes it.
#[tokio::test]
async fn an_entry_applies_to_a_name_that_is_written_like_it() {
    let yaml = "limiters:
  'search:{tenant}': { rate: 3, per: 1h }
  'a{b}': { rate: 4, per: 1h }
  'a{{b}}': { rate: 5, per: 1h }
";
    let limits = embedded(yaml).build().await.unwrap();
    admit(&limits, "search:{tenant}").await;
    assert_eq!(rows(&limits, "search:{tenant}"), [(3, 1)]);
    assert_eq!(rate(&limits, "a{b}"), 5, "the key that has only this name");
}

#[tokio::test]
async fn too_many_permits_of_an_unknown_quota_are_no_rate_of_0() {
    let limits = Limits::builder().memory().build().await.unwrap();
    let unknown = limits.configured("unknown");
    for result in
        [unknown.try_acquire(1 << 32).await.map(drop), unknown.peek(1 << 32).await.map(drop)]
    {
        let rejection = result.unwrap_err();
        assert_eq!(
            rejection.to_string(),
            "rate limit `unknown` can never grant that many permits at once: requested 4294967296, \
             and a call can request 4294967295 at most"
        );
    }
}

/// A quota of 0 would be that of a limiter that rejects every call.
#[tokio::test]
async fn a_disabled_limiter_has_no_quota() {
    let yaml = "limiters: { off: { enabled: false }, x: { rate: 5, per: 1s } }";
    let limits = embedded(yaml).build().await.unwrap();
    let (off, x) = (limits.configured("off"), limits.configured("x"));
    let decision = off.acquire(7).await.unwrap();
    assert_eq!((decision.quota(), off.quotas()), (None, None));
    assert_eq!(limits.limiter("off", quota(3, SECOND)).quotas(), None);
    assert_eq!(off.and(x).quotas().unwrap()[..], [quota(5, SECOND)]);
}
