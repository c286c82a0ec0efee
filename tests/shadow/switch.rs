//! Who is in shadow mode, who says so, and who is told.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use ratelimit_runtime::{
    Event, Limiter, Limits, LimitsBuilder, Permit, Rejection, report::Source,
    test_util::ManualClock,
};
use tests::limits_file::LimitsFile;
use tokio::{task::JoinHandle, time::timeout};

use super::{counted, embedded, granted, overruled};

/// Whether a name's second call goes ahead, of one permit an hour.
async fn is_shadowed(limits: &Limits, name: &str) -> bool {
    let limiter = limits.configured(name);
    granted(limiter.try_acquire(1).await);
    limiter.try_acquire(1).await.is_ok()
}

/// Five calls that wait.
async fn five_wait(limiter: &Limiter) -> Vec<JoinHandle<Result<Permit, Rejection>>> {
    let wait = |_| {
        let limiter = limiter.clone();
        tokio::spawn(async move { limiter.acquire(1).await })
    };
    let waiters = (0..5).map(wait).collect();
    tokio::time::sleep(Duration::from_millis(20)).await;
    waiters
}

#[tokio::test]
async fn the_nearest_that_says_so_decides() {
    let rest = "default: { rate: 1, per: 1h, shadow: false }\nlimiters:\n  own: { shadow: false }\n  \
                with:\n    shadow: true\n    overrides: [{ key: with, shadow: false }]\n  plain:\n\
                prefixes:\n  - { prefix: a, shadow: false }\n  - { prefix: b, shadow: true }\n  - { prefix: c }\n";
    let names = ["own", "with", "plain", "a1", "b1", "c1", "other"];
    let (exceptions, all) = (
        [false, false, false, false, true, false, false],
        [false, false, true, false, true, true, true],
    );
    let file = |shadow: &str| embedded(&format!("{shadow}{rest}"));
    let cases: [(LimitsBuilder, [bool; 7]); 5] = [
        (file(""), exceptions),
        (file("shadow: false\n"), exceptions),
        (file("shadow: true\n"), all),
        (file("").shadow(true), all),
        (file("shadow: true\n").shadow(false), exceptions),
    ];
    for (n, (builder, expected)) in cases.into_iter().enumerate() {
        let limits = builder.build().await.unwrap();
        for (name, expected) in names.into_iter().zip(expected) {
            assert_eq!(is_shadowed(&limits, name).await, expected, "{name} in case {n}");
        }
    }
    let by_default = embedded("default: { rate: 1, per: 1h, shadow: true }\nshadow: false\n");
    assert!(is_shadowed(&by_default.build().await.unwrap(), "x").await);
    let by_default = embedded("default: { rate: 1, per: 1h, shadow: true }\n").shadow(false);
    assert!(!is_shadowed(&by_default.build().await.unwrap(), "x").await);
}

#[tokio::test]
async fn the_report_says_who_said_so_and_counts() {
    let yaml =
        "default: { rate: 1, per: 1h, shadow: true }\nlimiters:\n  x: { shadow: false }\n  y:\n";
    let limits = embedded(yaml).build().await.unwrap();
    assert!(is_shadowed(&limits, "y").await);
    let report = limits.report().to_string();
    for line in [
        "shadow: false (limits file)",
        "shadow: true (default)",
        "allowed 2, rejected 0, waited 0, degraded 0, shadowed 1",
    ] {
        assert!(report.contains(line), "{line} in\n{report}");
    }
    let limits = embedded("limiters:\n  x: { rate: 1, per: 1s }\n").shadow(true).build().await;
    let report = limits.unwrap().report();
    let shadow = report.limiter("x").unwrap().setting("shadow").unwrap();
    assert_eq!((&*shadow.value, shadow.source), ("true", Source::Global));
    assert!(report.to_string().contains("shadow: true (global)"));
}

type Events = Arc<Mutex<Vec<Event>>>;

fn heard(builder: LimitsBuilder) -> (LimitsBuilder, Events) {
    let events = Events::default();
    let seen = Arc::clone(&events);
    (builder.on_event(move |event| seen.lock().unwrap().push(event.clone())), events)
}

fn told(events: &Events) -> Vec<String> {
    let events = events.lock().unwrap();
    let refusals = events.iter().filter(|event| matches!(event, Event::WouldReject { .. }));
    refusals.map(ToString::to_string).collect()
}

#[tokio::test]
async fn it_is_told_when_a_limiter_begins_to_refuse_and_not_with_each_call() {
    let time = ManualClock::new();
    let yaml = "limiters:\n  x: { rate: 1, per: 1h, shadow: true }\n";
    let (builder, events) = heard(embedded(yaml).clock(time.clone()));
    let limiter = builder.build().await.unwrap().configured("x");
    granted(limiter.acquire(1).await);
    assert_eq!(told(&events), [""; 0]);
    for _ in 0..20 {
        for _ in 0..50 {
            overruled(limiter.acquire(1).await);
        }
        overruled(limiter.peek(1).await);
        time.advance(Duration::from_secs(59));
    }
    let first = "shadow mode admitted a call that would have been rejected or delayed: rate limit `x` exceeded, retry after 3600s";
    assert_eq!(told(&events), [first]);
    time.advance(Duration::from_secs(1));
    overruled(limiter.acquire(1).await);
    assert_eq!(told(&events).len(), 2, "after a minute without");
    time.advance(Duration::from_secs(60));
    overruled(limiter.acquire(2).await);
    let never = "shadow mode admitted a call that would have been rejected or delayed: rate limit `x` can \
                 never grant that many permits at once: requested 2, quota 1 per 1h";
    assert_eq!(told(&events)[2..], [never]);
}

#[tokio::test]
async fn startup_tells_which_annotated_limiters_refuse_nobody() {
    let yaml = "limiters:\n  shadow-patient: { shadow: true }\n  shadow-user:{id}:\n    overrides: [{ \
                key: \"shadow-user:1\", shadow: true }]\n";
    let (builder, events) = heard(embedded(yaml));
    builder.build().await.unwrap();
    let events: Vec<String> = events.lock().unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(events, ["rate limit `shadow-patient` is in shadow mode and is not enforced"]);
}

#[tokio::test]
async fn a_reload_switches_it_on_and_off() {
    let yaml = |shadow: bool| format!("shadow: {shadow}\nlimiters:\n  x: {{ rate: 1, per: 1h }}\n");
    let file = LimitsFile::new(&yaml(false));
    let limits = Limits::builder().memory().limits_file(file.path()).build().await.unwrap();
    let limiter = limits.configured("x");
    granted(limiter.acquire(1).await);
    let waiters = five_wait(&limiter).await;
    assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
    file.write(&yaml(true));
    limits.reload().unwrap();
    overruled(limiter.try_acquire(1).await);
    for waiter in waiters {
        let decision = timeout(Duration::from_secs(10), waiter).await.expect("nobody waits");
        overruled(decision.unwrap());
    }
    assert_eq!(counted(&limits, "x"), [7, 0, 5, 6]);

    file.write(&yaml(false));
    limits.reload().unwrap();
    limiter.try_acquire(1).await.unwrap_err();
    assert_eq!(limiter.available_permits().await.unwrap(), 0, "no change of numbers, no reset");
}

/// The callers behind one that was really granted waited for their own permits.
#[tokio::test]
async fn a_reload_admits_every_waiting_call_though_some_permits_are_free() {
    let yaml = |rate: u32, shadow: bool| {
        format!("limiters:\n  x: {{ rate: {rate}, per: 1h, shadow: {shadow} }}\n")
    };
    let file = LimitsFile::new(&yaml(1, false));
    let limits = Limits::builder().memory().limits_file(file.path()).build().await.unwrap();
    let limiter = limits.configured("x");
    granted(limiter.acquire(1).await);
    let waiters = five_wait(&limiter).await;
    // Other numbers than before: the state is reset.
    file.write(&yaml(2, true));
    limits.reload().unwrap();
    let mut shadowed = 0;
    for waiter in waiters {
        let permit = timeout(Duration::from_secs(10), waiter).await.expect("a call still waits");
        shadowed += u32::from(permit.unwrap().unwrap().shadowed().is_some());
    }
    assert_eq!(shadowed, 3);
}
