//! Reloads at the same time, and beside a shutdown.

use std::{
    collections::BTreeSet,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Instant,
};

use ratelimit_runtime::{
    Algorithm, Event, Limits, Permit, Reason,
    report::{Reconciled, Report},
};
use tests::{limits_file::LimitsFile, redis_server::RedisServer};

use crate::DEADLINE;

#[tokio::test(flavor = "multi_thread")]
async fn of_reloads_at_the_same_time_the_newest_text_stays() {
    let file = LimitsFile::new("limiters: { x: { rate: 1, per: 1h } }\n");
    let limits = Limits::builder().memory().limits_file(file.path()).build().await.unwrap();
    for rate in 100..300 {
        thread::scope(|scope| {
            for _ in 0..3 {
                // It may find the file half written.
                scope.spawn(|| limits.reload().is_ok());
            }
            file.write(&format!("limiters: {{ x: {{ rate: {rate}, per: 1h }} }}\n"));
            limits.reload().unwrap();
        });
        let permit = limits.configured("x").try_acquire(1).await.unwrap();
        assert_eq!(permit.quota().unwrap().rate(), rate);
    }
}

/// An operator who changes them must know that the log's "reloaded" is not about them.
#[tokio::test]
async fn a_reload_reports_the_settings_that_need_a_restart() {
    let text = |head| format!("{head}limiters: {{ x: {{ rate: 1, per: 1h }} }}\n");
    let file =
        LimitsFile::new(&text("store: memory\nkey_prefix: 'a:'\ndeadline: 1s\nrevision: 1\n"));
    let (sender, events) = mpsc::channel();
    let limits = Limits::builder().limits_file(file.path()).on_event(needs_restart(sender));
    let limits = limits.build().await.unwrap();
    for (head, changed) in [
        ("store: memory\nkey_prefix: 'a:'\ndeadline: 1000ms\nrevision: 2\ninstances: 3\n", &[][..]),
        ("key_prefix: 'b:'\ndeadline: 1s\n", &["store", "key_prefix"][..]),
        (
            "max_remembered: 7\nkey_prefix: 'a:'\nstore: memory\n",
            &["deadline", "max_remembered"][..],
        ),
        ("store: memory\nkey_prefix: 'a:'\ndeadline: 1s\n", &[][..]),
    ] {
        file.write(&text(head));
        limits.reload().unwrap();
        assert_eq!(events.try_iter().collect::<Vec<_>>(), changed, "{head}");
    }
}

/// A restart would not apply them either.
#[tokio::test]
async fn a_reload_reports_no_setting_that_the_program_has_chosen() {
    let text = |head| format!("{head}limiters: {{ x: {{ rate: 1, per: 1h }} }}\n");
    let file = LimitsFile::new(&text(""));
    let (sender, events) = mpsc::channel();
    let builder = Limits::builder().memory().key_prefix("a:").deadline(DEADLINE).max_remembered(9);
    let builder = builder.limits_file(file.path()).on_event(needs_restart(sender));
    let limits = builder.build().await.unwrap();
    file.write(&text("store: redis://other\nkey_prefix: 'b:'\ndeadline: 1s\nmax_remembered: 7\n"));
    limits.reload().unwrap();
    assert_eq!(events.try_iter().collect::<Vec<_>>(), [""; 0]);
}

fn needs_restart(sender: mpsc::Sender<&'static str>) -> impl Fn(&Event) + Send + Sync {
    move |event| {
        if let Event::NeedsRestart { setting, .. } = event {
            sender.send(*setting).unwrap();
        }
    }
}

/// A log that repeats what is as it was hides what is new.
#[tokio::test]
async fn a_reload_warns_only_of_what_is_new() {
    let text = |keys: &[&str]| {
        let entry = |key: &&str| format!("  {key}: {{ rate: 1, per: 1s }}\n");
        format!("limiters:\n{}", keys.iter().map(entry).collect::<String>())
    };
    let file = LimitsFile::new(&text(&["stranger"]));
    let (sender, events) = mpsc::channel();
    let builder = Limits::builder().memory().limits_file(file.path()).on_event(move |event| {
        if let Event::Unmatched { key, .. } = event {
            sender.send(key.clone()).unwrap();
        }
    });
    let limits = builder.build().await.unwrap();
    assert_eq!(events.try_iter().collect::<Vec<_>>(), ["stranger"]);
    for (keys, warned) in [
        (&["stranger"][..], &[][..]),
        (&["stranger", "newcomer"][..], &["newcomer"][..]),
        (&["newcomer"][..], &[][..]),
        (&["newcomer", "stranger"][..], &["stranger"][..]),
    ] {
        file.write(&text(keys));
        limits.reload().unwrap();
        assert_eq!(events.try_iter().collect::<Vec<_>>(), warned, "{keys:?}");
        file.write("limiters: {}\nbad: 1\n");
        limits.reload().unwrap_err();
    }
}

/// A reload that the store does not adopt says so, or an operator would believe the file.
#[tokio::test]
async fn a_reload_with_an_older_revision_reports_that_the_stored_limit_applies() {
    let redis = RedisServer::start();
    for url in [None, Some(redis.url())] {
        let text =
            |revision, rate| format!("{revision}limiters: {{ x: {{ rate: {rate}, per: 1h }} }}\n");
        let file = LimitsFile::new(&text("revision: 5\n", 10));
        let (sender, events) = mpsc::channel();
        let builder = Limits::builder().limits_file(file.path()).deadline(DEADLINE);
        let builder = builder.on_event(move |event| {
            if let Event::Reconciled { outcome: Reconciled::Followed, old, new, .. } = event {
                sender.send((old.unwrap().rate(), new.rate())).unwrap();
            }
        });
        let builder = match url {
            Some(url) => builder.redis(url),
            None => builder.memory(),
        };
        let limits = builder.build().await.unwrap();
        let x = limits.configured("x");
        x.try_acquire(1).await.unwrap();
        file.write(&text("revision: 4\n", 20));
        limits.reload().unwrap();
        for _ in 0..3 {
            assert_eq!(x.try_acquire(1).await.unwrap().quota().unwrap().rate(), 10);
        }
        assert_eq!(events.try_iter().collect::<Vec<_>>(), [(20, 10)]);
        let report = limits.report();
        assert!(report.limiter("x").unwrap().reconciled.contains(&(Reconciled::Followed, 1)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_is_applied_whole_or_not_at_all() {
    let text = |rate| {
        format!("limiters: {{ a: {{ rate: {rate}, per: 1h }}, b: {{ rate: {rate}, per: 1h }} }}\n")
    };
    let file = LimitsFile::new(&text(1));
    let limits = Limits::builder().memory().limits_file(file.path()).build().await.unwrap();
    let rate =
        |report: &Report, key| report.limiter(key).unwrap().quotas.as_ref().unwrap()[0].rate();
    let done = AtomicBool::new(false);
    let mut answers = Vec::new();
    thread::scope(|scope| {
        let observer = scope.spawn(|| {
            let mut seen = BTreeSet::new();
            while !done.load(Ordering::Relaxed) {
                let report = limits.report();
                assert_eq!(rate(&report, "a"), rate(&report, "b"));
                seen.insert(rate(&report, "a"));
            }
            seen.len()
        });
        for n in 2..200 {
            file.write(&text(n));
            thread::scope(|scope| {
                let reloads = [(); 2].map(|()| scope.spawn(|| limits.reload()));
                answers.extend(reloads.map(|reload| reload.join().unwrap()));
            });
            assert_eq!(rate(&limits.report(), "a"), n);
        }
        done.store(true, Ordering::Relaxed);
        assert!(observer.join().unwrap() > 2, "it looked while limits changed");
    });
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_beside_a_shutdown_revives_nothing() {
    let server = RedisServer::start();
    let file = LimitsFile::new("limiters: { x: { rate: 1000, per: 1h } }\n");
    for _ in 0..20 {
        let builder = Limits::builder().redis(server.url()).limits_file(file.path());
        let limits = builder.deadline(DEADLINE).build().await.unwrap();
        let limiter = limits.configured("x");
        limiter.try_acquire(1).await.unwrap();
        let reloads: Vec<_> = (0..4)
            .map(|_| {
                let limits = limits.clone();
                tokio::task::spawn_blocking(move || (0..5).all(|_| limits.reload().is_ok()))
            })
            .collect();
        let start = Instant::now();
        limits.shutdown().await;
        assert!(start.elapsed() < 2 * DEADLINE, "{:?}", start.elapsed());
        for reload in reloads {
            assert!(reload.await.unwrap(), "a good file is no error, whatever else ends");
        }
        limits.reload().unwrap();
        let rejection = limiter.try_acquire(1).await.unwrap_err();
        assert_eq!(rejection.reason(), Reason::StoreUnavailable);
        assert!(!limits.health().is_ok());
    }
}

#[tokio::test]
async fn what_was_counted_is_reported_after_a_limiter_was_disabled_or_removed() {
    let entry = |key| format!("  {key}: {{ rate: 1, per: 1h }}\n");
    let file =
        LimitsFile::new(&format!("limiters:\n{}{}{}", entry("off"), entry("gone"), entry("idle")));
    let limits = Limits::builder().memory().limits_file(file.path()).build().await.unwrap();
    for key in ["off", "gone"] {
        limits.configured(key).try_acquire(1).await.unwrap();
        limits.configured(key).try_acquire(1).await.unwrap_err();
    }
    file.write("limiters:\n  off: { enabled: false }\n  idle: { enabled: false }\n");
    limits.reload().unwrap();
    let report = limits.report();
    let text = |key| report.limiter(key).unwrap().to_string();
    const COUNTS: &str = "allowed 1, rejected 1, waited 0, degraded 0, shadowed 0";
    assert_eq!(
        text("off"),
        format!("off\n  off (limits file)\n  {COUNTS}\n  reconciled: created 1")
    );
    assert_eq!(text("gone"), format!("gone\n  no quota\n  {COUNTS}\n  reconciled: created 1"));
    assert_eq!(text("idle"), "idle\n  off (limits file)", "nothing was counted");
}

/// A preview writes nothing, so it has to know what the first call makes of the stored configuration.
#[tokio::test]
async fn after_a_reload_a_preview_judges_as_the_first_call_will() {
    const ALGORITHMS: [&str; 4] =
        ["sliding_window", "token_bucket", "fixed_window", "leaky_bucket"];
    let redis = RedisServer::start();
    let pairs = || ALGORITHMS.iter().flat_map(|from| ALGORITHMS.map(|to| (*from, to)));
    for (url, mode) in [
        (None, "overall"),
        (None, "per_client"),
        (Some(redis.url()), "overall"),
        (Some(redis.url()), "per_client"),
    ] {
        for (from, to) in pairs() {
            // The last is older than what is stored.
            for (drift, revision) in [("reset", 2), ("carry", 2), ("reset", 0)] {
                for rates in [[8, 279], [8, 5]] {
                    let name = format!("{mode}-{from}-{to}-{drift}-{revision}-{}", rates[1]);
                    let text = |revision, algorithm, rate| {
                        format!(
                            "revision: {revision}\ndefault: {{ mode: {mode}, on_drift: {drift} }}\nlimiters:\n  \
                             {name}: {{ algorithm: {algorithm}, rate: {rate}, per: 366d }}\n"
                        )
                    };
                    let file = LimitsFile::new(&text(1, from, rates[0]));
                    let builder = Limits::builder().limits_file(file.path()).deadline(DEADLINE);
                    let builder = match &url {
                        Some(url) => builder.redis(url.clone()),
                        None => builder.memory(),
                    };
                    let limits = builder.build().await.unwrap();
                    let limiter = limits.configured(name.as_str());
                    while limiter.try_acquire(1).await.is_ok() {}
                    file.write(&text(revision, to, rates[1]));
                    limits.reload().unwrap();
                    let looks = [limiter.peek(1).await, limiter.peek(1).await];
                    let free = limiter.available_permits().await.unwrap();
                    let call = limiter.try_acquire(1).await;
                    for look in looks {
                        assert_eq!(look.is_ok(), call.is_ok(), "{name}: {look:?}, {call:?}");
                    }
                    // After a leaky bucket's slot, none is free.
                    let leaky = |permit: &Permit| {
                        permit.quota().unwrap().algorithm() == Algorithm::LeakyBucket
                    };
                    match call {
                        Ok(permit) if leaky(&permit) => assert!(free > 0, "{name}"),
                        Ok(permit) => assert_eq!(free, permit.remaining() + 1, "{name}"),
                        Err(_) => assert_eq!(free, 0, "{name}"),
                    }
                }
            }
        }
    }
}
