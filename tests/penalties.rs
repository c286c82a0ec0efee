//! Keys that are refused in many windows in a row are blocked, on both stores alike.
#![allow(clippy::disallowed_methods, reason = "real servers live in real time")]

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use ratelimit_runtime::{
    Event, Limiter, Limits, Penalty, Quota, Quotas, Reason, Rejection, Settings, rate_limit,
    test_util, web,
};
use tests::{
    limits_file::LimitsFile,
    place::{Place, since_1970},
    redis_server::RedisServer,
};

#[path = "penalties/scripts.rs"]
mod scripts;
#[path = "penalties/waiting.rs"]
mod waiting;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const PER: u64 = 200;

/// One permit in each window, and after three windows a block of 2 s.
fn strict() -> Settings {
    let penalty = Penalty::new(3, ms(2_000)).up_to(ms(60_000));
    Settings::new(Quota::new(1, ms(PER)).unwrap()).penalty(penalty)
}

/// Calls until it is blocked, and returns the windows in which it was refused, with the last rejection.
async fn abuse(limiter: &Limiter) -> (BTreeSet<u64>, Rejection) {
    let (started, mut windows) = (Instant::now(), BTreeSet::new());
    while started.elapsed() < Duration::from_secs(20) {
        if let Err(rejection) = limiter.try_acquire(1).await {
            let decision = rejection.decision().expect("the store decides");
            windows.insert(since_1970(decision.at()) / PER);
            if rejection.reason() == Reason::Blocked {
                return (windows, rejection);
            }
            assert_eq!(rejection.reason(), Reason::Limited);
        }
        tokio::time::sleep(ms(10)).await;
    }
    panic!("never blocked, though refused in {windows:?}");
}

fn reason(result: Result<impl Sized, Rejection>) -> Option<Reason> {
    result.err().map(|rejection| rejection.reason())
}

#[tokio::test]
async fn a_row_of_windows_blocks_a_key_in_all_processes() {
    for place in [Place::Embedded, Place::redis()] {
        let limits = place.limits().await;
        let limiter = limits.limiter("login:eve", strict());
        let began = Instant::now();
        let (windows, rejection) = abuse(&limiter).await;
        let last = windows.last().unwrap();
        // The store may hear of the last refusal in the window after.
        assert!((last - 1..=*last).all(|window| windows.contains(&window)), "{windows:?}");
        assert!(began.elapsed() >= ms(PER), "{:?}", began.elapsed());
        assert!(rejection.retry_after().unwrap() <= ms(2_000), "{rejection:?}");
        assert_eq!(rejection.decision().unwrap().remaining(), 0);
        assert!(rejection.to_string().contains("the key is blocked, retry after"), "{rejection}");

        // A free window changes nothing, and nobody else pays.
        tokio::time::sleep(ms(PER * 2)).await;
        assert_eq!(reason(limiter.try_acquire(1).await), Some(Reason::Blocked));
        let left = limiter.peek(1).await.unwrap_err();
        assert_eq!(left.reason(), Reason::Blocked);
        assert!((ms(1)..ms(1_700)).contains(&left.retry_after().unwrap()), "{left:?}");
        assert_eq!(limiter.available_permits().await.unwrap(), 0);
        assert!(limits.limiter("login:ann", strict()).try_acquire(1).await.is_ok());

        if let Place::Redis(server) = &place {
            let other = place.limits().await.limiter("login:eve", strict());
            assert_eq!(reason(other.try_acquire(1).await), Some(Reason::Blocked));
            let ttl: i64 = server.cli(&["PTTL", "{login:eve}:~penalty"]);
            assert!((60_000..=62_000).contains(&ttl), "{ttl}");
        }
        tokio::time::sleep(left.retry_after().unwrap()).await;
        assert!(limiter.try_acquire(1).await.is_ok(), "the block is over");
        // The next one is twice as long.
        let again = abuse(&limiter).await.1.retry_after().unwrap();
        assert!((ms(2_001)..=ms(4_000)).contains(&again), "{again:?}");
    }
}

#[tokio::test]
async fn a_block_is_lifted_or_deleted() {
    for place in [Place::Embedded, Place::redis()] {
        let (limits, elsewhere) = (place.limits().await, place.limits().await);
        let limiter = limits.limiter("login:eve", strict());
        for delete in [false, true] {
            abuse(&limiter).await;
            if delete {
                assert!(limiter.delete().await.unwrap());
            } else {
                assert!(limiter.lift_penalty().await.unwrap());
                assert!(!limiter.lift_penalty().await.unwrap(), "it is gone");
            }
            tokio::time::sleep(ms(PER)).await;
            assert!(limiter.try_acquire(1).await.is_ok());
            // It begins anew: in the third window, with the first block.
            let (windows, rejection) = abuse(&limiter).await;
            assert!(windows.len() >= 2, "{windows:?}");
            assert!(rejection.retry_after().unwrap() <= ms(2_000), "{rejection:?}");
            limiter.lift_penalty().await.unwrap();
        }
        if let Place::Redis(_) = place {
            abuse(&limiter).await;
            let operator = elsewhere.limiter("login:eve", strict());
            assert!(operator.lift_penalty().await.unwrap());
            tokio::time::sleep(ms(1_050)).await;
            assert!(limiter.try_acquire(1).await.is_ok(), "noticed within a second");
        }
    }
}

#[tokio::test]
async fn a_key_that_another_process_unblocked_is_blocked_again_in_the_same_window() {
    let place = Place::redis();
    let settings = Settings::new(Quota::per_hour(1)).penalty(Penalty::new(1, ms(60_000)));
    let limits = [place.limits().await, place.limits().await];
    let [limiter, operator] = limits.each_ref().map(|it| it.limiter("login:ann", settings.clone()));
    for delete in [false, true] {
        let _ = limiter.try_acquire(1).await;
        assert_eq!(reason(limiter.try_acquire(1).await), Some(Reason::Blocked));
        if delete {
            assert!(operator.delete().await.unwrap());
        } else {
            assert!(operator.lift_penalty().await.unwrap());
        }
        tokio::time::sleep(ms(1_050)).await;
        assert_eq!(limiter.try_acquire(1).await.is_ok(), delete);
        assert_eq!(reason(limiter.try_acquire(1).await), Some(Reason::Blocked), "{delete}");
    }
}

/// A process reports one rejection of each window, and knew the end of the window that was.
#[tokio::test]
async fn a_row_begins_anew_when_the_window_changes_or_the_limiter_is_deleted() {
    let hourly = Quota::new(1, Duration::from_secs(3_600)).unwrap();
    for place in [Place::Embedded, Place::redis()] {
        let (limits, mut processes) = (place.limits().await, Vec::new());
        let settings = Settings::new(hourly).penalty(Penalty::new(1, ms(60_000)));
        let deleted = limits.limiter("login:ann", settings);
        for _ in 0..2 {
            assert!(deleted.try_acquire(1).await.is_ok());
            assert_eq!(reason(deleted.try_acquire(1).await), Some(Reason::Blocked));
            assert!(deleted.delete().await.unwrap());
        }

        processes.push(limits);
        if let Place::Redis(_) = place {
            processes.push(place.limits().await);
        }
        let each = |limits: &Limits| {
            let penalty = Penalty::new(2, ms(2_000));
            limits.limiter("login:eve", Settings::new(hourly).penalty(penalty))
        };
        let limiters: Vec<Limiter> = processes.iter().map(each).collect();
        assert!(limiters[0].try_acquire(1).await.is_ok());
        for limiter in &limiters {
            assert_eq!(reason(limiter.try_acquire(1).await), Some(Reason::Limited));
        }
        limiters[0].set_rate(Quota::new(1, ms(PER)).unwrap()).await.unwrap();
        for limiter in limiters.iter().rev() {
            abuse(limiter).await;
            assert!(limiter.lift_penalty().await.unwrap());
        }
    }
}

#[tokio::test]
async fn a_call_that_waits_and_goes_is_not_refused() {
    let (limits, time) = test_util::limits();
    let settings = |after| {
        let penalty = Penalty::new(after, Duration::from_secs(60));
        Settings::new(Quota::new(1, ms(1_000)).unwrap()).penalty(penalty)
    };
    let patient = limits.limiter("patient", settings(2));
    patient.acquire(1).await.unwrap();
    for _ in 0..4 {
        let waits = patient.acquire_timeout(1, ms(1_000));
        let (waited, ()) = tokio::join!(waits, async {
            tokio::task::yield_now().await;
            time.advance(ms(1_000));
        });
        waited.unwrap();
    }
    // A wait that cannot end in time is a refusal.
    let hasty = limits.limiter("hasty", settings(2));
    hasty.acquire(1).await.unwrap();
    assert_eq!(reason(hasty.acquire_timeout(1, ms(10)).await), Some(Reason::WaitTooLong));
    time.advance(ms(1_000));
    hasty.acquire(1).await.unwrap();
    let rejection = hasty.acquire_timeout(1, ms(10)).await.unwrap_err();
    assert_eq!(
        (rejection.reason(), rejection.retry_after()),
        (Reason::Blocked, Some(Duration::from_secs(60)))
    );
    // Who may wait for as long does.
    let (waited, ()) = tokio::join!(hasty.acquire(1), async {
        tokio::task::yield_now().await;
        time.advance(Duration::from_secs(60));
    });
    assert!(waited.is_ok());
}

#[tokio::test]
async fn what_is_taken_together_is_refused_together() {
    for place in [Place::Embedded, Place::redis()] {
        let limits = place.limits().await;
        let guarded = limits.limiter("{t}:guarded", strict());
        let other =
            limits.limiter("{t}:other", Quota::new(1_000, Duration::from_secs(60)).unwrap());
        abuse(&guarded).await;
        let free = other.available_permits().await.unwrap();
        let rejection = guarded.clone().and(other.clone()).try_acquire(1).await.unwrap_err();
        assert_eq!((rejection.reason(), rejection.limiter()), (Reason::Blocked, "{t}:guarded"));
        assert_eq!(other.available_permits().await.unwrap(), free, "nothing was taken");
        // What another limiter refuses is not counted against it.
        guarded.lift_penalty().await.unwrap();
        let none = limits.limiter("{t}:none", Quota::new(1, Duration::from_secs(3600)).unwrap());
        none.try_acquire(1).await.unwrap();
        let both = guarded.clone().and(none);
        for _ in 0..6 {
            assert_eq!(reason(both.try_acquire(1).await), Some(Reason::Limited));
            tokio::time::sleep(ms(PER)).await;
        }
        assert!(guarded.try_acquire(1).await.is_ok());
    }
}

#[tokio::test]
async fn a_limiter_without_a_quota_is_reported_beside_a_blocked_one() {
    for place in [Place::Embedded, Place::redis()] {
        let limits = place.limits().await;
        let (guarded, none) =
            (limits.limiter("{t}:guarded", strict()), limits.configured("{t}:none"));
        abuse(&guarded).await;
        for both in [guarded.clone().and(none.clone()), none.and(guarded)] {
            let rejection = both.try_acquire(1).await.unwrap_err();
            assert_eq!(
                (rejection.reason(), rejection.limiter()),
                (Reason::NotConfigured, "{t}:none")
            );
        }
    }
}

#[tokio::test]
async fn of_a_key_that_is_blocked_no_limit_has_permits_left() {
    let quotas = [Quota::new(3, ms(PER)).unwrap(), Quota::new(5, Duration::from_secs(60)).unwrap()];
    let settings = Settings::new(Quotas::new(quotas).unwrap()).penalty(Penalty::new(1, ms(5_000)));
    for place in [Place::Embedded, Place::redis()] {
        let limits = place.limits().await;
        let limiter = limits.limiter("two", settings.clone());
        limiter.try_acquire(3).await.unwrap();
        // The first one begins the block.
        for _ in 0..2 {
            let rejection = limiter.try_acquire(3).await.unwrap_err();
            assert_eq!(rejection.reason(), Reason::Blocked);
            let answer = web::response(&rejection, web::Headers::Ietf);
            let described = answer.headers()["ratelimit"].to_str().unwrap();
            assert_eq!(described.matches(";r=0;").count(), 2, "{described}");
        }
    }
}

#[tokio::test]
async fn a_block_that_ends_before_the_permits_are_free_leaves_the_longer_wait() {
    let quota = Quota::new(4, Duration::from_secs(600)).unwrap();
    let (bucket, spaced) = (quota.token_bucket(4).unwrap(), quota.leaky_bucket().unwrap());
    for place in [Place::Embedded, Place::redis()] {
        let limits = place.limits().await;
        for (n, quota) in [quota, bucket, quota.fixed_window(), spaced].into_iter().enumerate() {
            let free = limits.limiter(&format!("free:{n}"), quota);
            let settings = Settings::new(quota).penalty(Penalty::new(1, ms(2_000)));
            let blocked = limits.limiter(&format!("blocked:{n}"), settings);
            for limiter in [&free, &blocked] {
                limiter.try_acquire(4).await.unwrap();
            }
            // The first one begins the block.
            for permits in [1, 1, 4, 2] {
                let wait = free.try_acquire(permits).await.unwrap_err().retry_after().unwrap();
                let mut rejections = vec![blocked.try_acquire(permits).await.unwrap_err()];
                rejections.push(blocked.peek(permits).await.unwrap_err());
                for rejection in rejections {
                    assert_eq!(rejection.reason(), Reason::Blocked);
                    let named = rejection.retry_after().unwrap();
                    let later = wait.max(ms(2_000));
                    assert!(named.abs_diff(later) < ms(2_000), "{named:?} of {wait:?}, {quota}");
                }
            }
        }
    }
}

#[tokio::test]
async fn reservations_wait_for_the_end_of_a_block() {
    for place in [Place::Embedded, Place::redis()] {
        let penalty = Penalty::new(1, ms(900));
        let quota = Quota::new(1, ms(PER)).unwrap().token_bucket(1).unwrap();
        let limiter = place.limits().await.limiter("bucket", Settings::new(quota).penalty(penalty));
        let (_, rejection) = abuse(&limiter).await;
        let (began, left) = (Instant::now(), rejection.retry_after().unwrap());
        assert!(limiter.acquire(1).await.is_ok());
        let waited = began.elapsed();
        assert!(waited + ms(60) >= left && waited < left + ms(1_000), "{waited:?} of {left:?}");
    }
}

#[rate_limit(key = "guess:{name}", rate = 1, per = "1s", wait = "none", refund_on = "ok")]
async fn guess(name: &str, right: bool) -> Result<bool, Rejection> {
    if right { Ok(true) } else { Err(test_util::rejection(Reason::NotConfigured, None)) }
}

#[tokio::test]
async fn the_limits_file_sets_it_and_operators_hear_of_it() {
    let yaml = |penalty: &str| {
        format!("store: memory\nlimiters:\n  \"guess:{{name}}\": {{ {penalty} }}\n")
    };
    let file = LimitsFile::new(&yaml("penalty: { after: 2, block: 5m, up_to: 1d }"));
    let (told, time) = (Arc::new(Mutex::new(Vec::new())), test_util::ManualClock::new());
    let events = Arc::clone(&told);
    let builder = Limits::builder().limits_file(file.path()).clock(time.clone());
    let record = move |event: &Event| events.lock().unwrap().push(event.to_string());
    let limits = builder.on_event(record).build().await.unwrap();
    let setting = limits.report().to_string();
    assert!(setting.contains("penalty: after 2, block 5m, up to 1d (limits file)"), "{setting}");
    let last = limits
        .scope(async {
            for _ in 0..5 {
                assert!(guess("eve", true).await.unwrap(), "only failures count");
            }
            for _ in 0..2 {
                assert_eq!(reason(guess("eve", false).await), Some(Reason::NotConfigured));
                assert_ne!(reason(guess("eve", false).await), Some(Reason::NotConfigured));
                time.advance(ms(1_000));
            }
            assert!(guess("ann", true).await.unwrap());
            guess("eve", true).await.unwrap_err()
        })
        .await;
    assert_eq!((last.reason(), last.limiter()), (Reason::Blocked, "guess:{name}"));
    assert_eq!(last.retry_after(), Some(ms(299_000)));
    let blocked = "a key of rate limit `guess:{name}` is blocked for 300s";
    assert!(told.lock().unwrap().iter().any(|event| event == blocked), "{told:?}");
    // Without the setting nobody is blocked any more.
    file.write(&yaml("wait: none"));
    limits.reload().unwrap();
    assert!(limits.scope(guess("eve", true)).await.is_ok());
}

#[tokio::test]
async fn nothing_counts_while_the_store_is_away() {
    let server = RedisServer::start();
    let builder = Limits::builder().redis(server.url()).no_limits_file().deadline(ms(500));
    let limits = builder.build().await.unwrap();
    let limiter = limits.limiter("login:eve", strict());
    limiter.try_acquire(1).await.unwrap();
    server.kill_hard();
    for _ in 0..6 {
        let refused = loop {
            match limiter.try_acquire(1).await {
                Ok(_) => tokio::time::sleep(ms(5)).await,
                Err(rejection) => break rejection,
            }
        };
        assert_eq!(refused.reason(), Reason::Limited);
        tokio::time::sleep(ms(PER)).await;
    }
    server.restart();
    let keys: Vec<String> = server.limiter_keys();
    assert!(keys.iter().all(|key| !key.ends_with(":~penalty")), "{keys:?}");
}

#[tokio::test]
async fn only_limiters_with_a_penalty_pay_for_it() {
    let server = RedisServer::start();
    let limits = Limits::builder().redis(server.url()).no_limits_file().build().await.unwrap();
    let monitor = tests::monitor::Monitor::start(&server);
    let plain = limits.limiter("plain", Quota::new(1, Duration::from_secs(60)).unwrap());
    let guarded = limits.limiter("guarded", strict());
    for limiter in [&plain, &guarded] {
        let _ = (limiter.try_acquire(1).await, limiter.try_acquire(1).await);
    }
    let calls = monitor.finish();
    let touched = |name: &str| calls.iter().any(|call| call.args.iter().any(|arg| arg == name));
    assert!(!touched("{plain}:~penalty"));
    assert!(touched("{guarded}:~penalty"));
}
