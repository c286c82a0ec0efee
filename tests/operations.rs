//! What each operation of a limiter promises: in both modes, on both stores.
//!
//! A case is written once and run four times. Where a promise is about several processes it is
//! made on Redis, in both modes.
#![allow(clippy::disallowed_methods, reason = "real servers live in real time")]

use std::{pin::pin, time::Duration};

use ratelimit_runtime::{Limiter, Mode, Quota, RateChange, Reason, Settings};

use self::world::World;

#[path = "operations/world.rs"]
mod world;

macro_rules! on_each_kind {
    ($($case:ident),+ $(,)?) => {
        mod embedded_overall { cases!(embedded, Overall: $($case),+); }
        mod embedded_per_client { cases!(embedded, PerClient: $($case),+); }
        mod redis_overall { cases!(redis, Overall: $($case),+); }
        mod redis_per_client { cases!(redis, PerClient: $($case),+); }
    };
}

macro_rules! cases {
    ($store:ident, $mode:ident: $($case:ident),+) => { $(
        #[tokio::test(flavor = "multi_thread")]
        async fn $case() {
            super::$case(crate::World::$store(crate::Mode::$mode)).await;
        }
    )+ };
}

#[path = "operations/processes.rs"]
mod processes;

on_each_kind!(
    try_acquire_takes_what_is_free,
    try_acquire_refuses_senseless_numbers,
    acquire_waits_for_its_permits,
    acquire_timeout_waits_no_longer_than_it_may,
    peek_takes_nothing,
    peek_overtakes_nobody,
    quota_is_the_one_in_force,
    a_cost_above_the_quota_is_rejected_by_the_one_in_force,
    available_permits_tells_without_a_trace,
    release_gives_back_what_is_in_use,
    release_wakes_who_waits,
    try_set_rate_sets_what_is_not_set,
    set_rate_forgets_what_is_used,
    set_rate_wakes_who_waits,
    update_rate_keeps_or_resets,
    update_rate_changes_only_what_is_there,
    a_new_rate_leaves_the_mode_and_the_keep_alive,
    a_change_can_set_the_mode_and_the_keep_alive,
    permits_are_given_back_and_settled,
    config_and_exists_ask_the_store,
    delete_forgets_everything,
    what_was_deleted_is_made_anew,
    what_was_deleted_is_known_by_the_own_numbers,
    what_a_shorter_window_no_longer_counts_stays_free,
    expire_ends_it_after_a_time,
    clear_expire_lets_it_live,
    set_keep_alive_ends_what_is_idle,
    a_short_keep_alive_counts_as_the_window,
    times_without_end_are_taken,
    expire_forgets_what_is_used,
    expire_ends_what_is_followed,
    peek_writes_nothing,
    peek_follows_what_is_stored,
    use_puts_the_keep_alive_in_place_of_an_expiry,
    what_grants_nothing_leaves_the_expiry,
    a_shorter_window_frees_what_is_older,
    release_wakes_a_head_that_is_just_asking,
);

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
/// Short enough to wait for.
const SOON: Duration = Duration::from_millis(60);

fn quota(rate: u32, per: Duration) -> Quota {
    Quota::new(rate.into(), per).unwrap()
}

/// Why so many permits are not free now.
async fn refusal(limiter: &Limiter, permits: u32) -> Reason {
    limiter.try_acquire(permits.into()).await.unwrap_err().reason()
}

async fn free(limiter: &Limiter) -> u64 {
    limiter.available_permits().await.unwrap()
}

async fn try_acquire_takes_what_is_free(world: World) {
    let limiter = world.limiter(quota(3, MINUTE)).await;
    let decision = limiter.try_acquire(2).await.unwrap();
    assert!(!decision.is_degraded());
    assert_eq!(decision.permits(), 2);
    assert_eq!((decision.remaining(), decision.quota().unwrap()), (1, quota(3, MINUTE)));
    assert_eq!(decision.retry_after(), None);
    assert!(decision.reset_after() > MINUTE - SOON && decision.reset_after() <= MINUTE);

    let rejection = limiter.try_acquire(2).await.unwrap_err();
    assert_eq!(rejection.reason(), Reason::Limited);
    assert!(rejection.retry_after().unwrap() <= MINUTE);
    assert_eq!(limiter.try_acquire(1).await.unwrap().remaining(), 0, "the refused call took none");

    let limiter = world.named("short", quota(3, SOON)).await;
    for _ in 0..2 {
        limiter.try_acquire(3).await.unwrap();
        world.pass(SOON).await;
    }
}

async fn try_acquire_refuses_senseless_numbers(world: World) {
    let limiter = world.limiter(quota(3, MINUTE)).await;
    assert_eq!(limiter.try_acquire(0).await.unwrap().permits(), 0, "0 permits are free");
    assert_eq!(refusal(&limiter, 4).await, Reason::ExceedsCapacity);
    assert_eq!(refusal(&world.follower().await, 1).await, Reason::NotConfigured);
    assert_eq!(free(&limiter).await, 3);
}

async fn acquire_waits_for_its_permits(world: World) {
    let limiter = world.limiter(quota(2, SOON)).await;
    let taken = limiter.acquire(2).await.unwrap();
    let (granted, ()) = tokio::join!(limiter.acquire(1), world.pass(SOON));
    let waited = granted.unwrap().at().duration_since(taken.at()).unwrap();
    assert!(waited >= SOON, "{waited:?}");
    assert_eq!(limiter.acquire(3).await.unwrap_err().reason(), Reason::ExceedsCapacity);
}

async fn acquire_timeout_waits_no_longer_than_it_may(world: World) {
    let limiter = world.limiter(quota(2, SOON)).await;
    limiter.acquire_timeout(2, Duration::ZERO).await.unwrap();
    let waiting = limiter.acquire_timeout(2, MINUTE);
    let (granted, ()) = tokio::join!(waiting, world.pass(SOON));
    assert_eq!(granted.unwrap().remaining(), 0);

    let limiter = world.named("long", quota(2, HOUR)).await;
    limiter.try_acquire(1).await.unwrap();
    // It does not wait for what cannot be: this test would not end.
    let rejection = limiter.acquire_timeout(2, MINUTE).await.unwrap_err();
    assert_eq!(rejection.reason(), Reason::WaitTooLong);
    assert!(rejection.retry_after().unwrap() > MINUTE);
    assert!(limiter.try_acquire(1).await.is_ok(), "it took nothing, and left the queue");
}

async fn peek_takes_nothing(world: World) {
    let limiter = world.limiter(quota(2, MINUTE)).await;
    for _ in 0..3 {
        let decision = limiter.peek(1).await.unwrap();
        assert_eq!(decision.remaining(), 2);
    }
    limiter.try_acquire(2).await.unwrap();
    let rejection = limiter.peek(1).await.unwrap_err();
    assert_eq!(rejection.reason(), Reason::Limited);
    let decision = rejection.decision().unwrap();
    assert_eq!((decision.limiter(), decision.remaining()), ("limiter", 0));
    assert!(decision.retry_after().unwrap() > MINUTE - Duration::from_secs(5));
    assert_eq!(decision.quota().unwrap(), quota(2, MINUTE));
}

async fn peek_overtakes_nobody(world: World) {
    let limiter = world.limiter(quota(8, MINUTE)).await;
    limiter.try_acquire(3).await.unwrap();
    let mut waiting = pin!(limiter.acquire(8));
    let moment = Duration::from_millis(100);
    assert!(tokio::time::timeout(moment, &mut waiting).await.is_err(), "it waits for all permits");
    let rejections = [limiter.try_acquire(1).await.map(drop), limiter.peek(1).await.map(drop)];
    for rejection in rejections.map(Result::unwrap_err) {
        assert_eq!(rejection.reason(), Reason::Limited);
        assert!(rejection.retry_after().unwrap() > MINUTE / 2, "{rejection:?}");
    }
    assert_eq!(free(&limiter).await, 5);
}

async fn quota_is_the_one_in_force(world: World) {
    let limiter = world.limiter(quota(3, MINUTE)).await;
    assert_eq!(limiter.quotas().unwrap()[0], quota(3, MINUTE));
    limiter.set_rate(quota(5, HOUR)).await.unwrap();
    assert_eq!(limiter.quotas().unwrap()[0], quota(5, HOUR));
    assert_eq!(limiter.try_acquire(1).await.unwrap().quota().unwrap(), quota(5, HOUR));
    assert_eq!(limiter.quotas().unwrap()[0], quota(5, HOUR));
    let follower = world.follower().await;
    assert_eq!(follower.quotas(), None);
}

async fn a_cost_above_the_quota_is_rejected_by_the_one_in_force(world: World) {
    let limiter = world.limiter(quota(3, MINUTE)).await;
    for in_force in [quota(5, HOUR), quota(2, HOUR)] {
        limiter.set_rate(in_force).await.unwrap();
        // The store is queried about the first one, and at most once a second.
        for permits in [9, 9, u64::MAX] {
            let rejection = limiter.try_acquire(permits).await.unwrap_err();
            assert_eq!(rejection.reason(), Reason::ExceedsCapacity);
            assert_eq!(rejection.violated(), [in_force], "{rejection}");
            let detail = format!("requested {permits}, quota {in_force}");
            assert!(rejection.to_string().ends_with(&detail), "{rejection}");
        }
    }
}

async fn available_permits_tells_without_a_trace(world: World) {
    let limiter = world.limiter(quota(3, SOON)).await;
    assert_eq!(free(&limiter).await, 3);
    assert!(!limiter.exists().await.unwrap());
    limiter.try_acquire(3).await.unwrap();
    world.pass(SOON).await;
    assert_eq!(free(&limiter).await, 3, "they are free again");

    let limiter = world.named("long", quota(3, MINUTE)).await;
    limiter.try_acquire(2).await.unwrap();
    assert_eq!((free(&limiter).await, free(&limiter).await), (1, 1));
    assert_eq!(free(&world.follower().await).await, 0, "without numbers there are none");
}

async fn release_gives_back_what_is_in_use(world: World) {
    let limiter = world.limiter(quota(5, MINUTE)).await;
    assert_eq!(limiter.release(1).await.unwrap(), 0, "nothing is in use");
    limiter.try_acquire(3).await.unwrap();
    limiter.try_acquire(2).await.unwrap();
    assert_eq!(limiter.release(0).await.unwrap(), 0);
    assert_eq!(limiter.release(4).await.unwrap(), 4);
    assert_eq!(free(&limiter).await, 4);
    assert_eq!(limiter.release(9).await.unwrap(), 1, "there was no more");
    assert_eq!(limiter.try_acquire(5).await.unwrap().remaining(), 0);
    assert_eq!(refusal(&limiter, 1).await, Reason::Limited);
}

async fn release_wakes_who_waits(world: World) {
    let limiter = world.limiter(quota(1, HOUR)).await;
    limiter.try_acquire(1).await.unwrap();
    let waiter = world.waiter(&limiter, 1).await;
    assert_eq!(limiter.release(1).await.unwrap(), 1);
    world.soon(waiter).await.unwrap();
    assert_eq!(free(&limiter).await, 0);
}

async fn try_set_rate_sets_what_is_not_set(world: World) {
    let limiter = world.follower().await;
    assert!(limiter.try_set_rate(quota(3, MINUTE)).await.unwrap());
    limiter.try_acquire(2).await.unwrap();
    assert!(!limiter.try_set_rate(quota(9, MINUTE)).await.unwrap());
    assert_eq!(limiter.quotas().unwrap()[0], quota(3, MINUTE));
    assert_eq!(free(&limiter).await, 1, "a refusal changes nothing");
    let config = limiter.config().await.unwrap().unwrap();
    assert_eq!((&*config.quotas, config.mode), (&[quota(3, MINUTE)][..], world.mode));
}

async fn set_rate_forgets_what_is_used(world: World) {
    let limiter = world.limiter(quota(3, MINUTE)).await;
    limiter.try_acquire(3).await.unwrap();
    limiter.set_rate(quota(2, HOUR)).await.unwrap();
    let decision = limiter.try_acquire(2).await.unwrap();
    assert_eq!((decision.remaining(), decision.quota().unwrap()), (0, quota(2, HOUR)));
    assert_eq!(refusal(&limiter, 1).await, Reason::Limited);
    limiter.set_rate(quota(2, HOUR)).await.unwrap();
    assert_eq!(free(&limiter).await, 2, "the same numbers, too");
}

async fn set_rate_wakes_who_waits(world: World) {
    let limiter = world.limiter(quota(1, HOUR)).await;
    limiter.try_acquire(1).await.unwrap();
    let waiter = world.waiter(&limiter, 1).await;
    limiter.set_rate(quota(2, HOUR)).await.unwrap();
    world.soon(waiter).await.unwrap();
    assert_eq!(free(&limiter).await, 1);
}

async fn update_rate_keeps_or_resets(world: World) {
    let limiter = world.limiter(quota(4, MINUTE)).await;
    limiter.try_acquire(3).await.unwrap();
    assert!(limiter.update_rate(RateChange::new(quota(5, MINUTE)).carry()).await.unwrap());
    assert_eq!(limiter.quotas().unwrap()[0], quota(5, MINUTE));
    assert_eq!(free(&limiter).await, 2);

    // Less than is used: what is used counts on.
    assert!(limiter.update_rate(RateChange::new(quota(2, MINUTE)).carry()).await.unwrap());
    assert_eq!(free(&limiter).await, 0);
    assert_eq!(refusal(&limiter, 1).await, Reason::Limited);
    assert_eq!(limiter.release(2).await.unwrap(), 2);
    assert_eq!(limiter.try_acquire(1).await.unwrap().remaining(), 0);

    assert!(limiter.update_rate(quota(2, MINUTE)).await.unwrap());
    assert_eq!(limiter.try_acquire(2).await.unwrap().remaining(), 0);
}

async fn update_rate_changes_only_what_is_there(world: World) {
    let limiter = world.limiter(quota(4, MINUTE)).await;
    let change = RateChange::new(quota(9, MINUTE));
    for change in [change.clone(), change.carry()] {
        assert!(!limiter.update_rate(change).await.unwrap());
    }
    assert!(!limiter.exists().await.unwrap());
    assert_eq!(limiter.try_acquire(1).await.unwrap().quota().unwrap(), quota(4, MINUTE));
}

async fn a_new_rate_leaves_the_mode_and_the_keep_alive(world: World) {
    let limiter = world.limiter(quota(3, MINUTE)).await;
    limiter.try_acquire(1).await.unwrap();
    assert!(limiter.set_keep_alive(Some(HOUR)).await.unwrap());
    limiter.set_rate(quota(4, MINUTE)).await.unwrap();
    assert!(limiter.update_rate(RateChange::new(quota(5, MINUTE)).carry()).await.unwrap());
    let config = limiter.config().await.unwrap().unwrap();
    assert_eq!((config.quotas[0].rate(), config.mode), (5, world.mode));
    assert_eq!(config.keep_alive, Some(HOUR));
    assert!(limiter.ttl().await.unwrap().is_some());
}

async fn a_change_can_set_the_mode_and_the_keep_alive(world: World) {
    let limiter = world.limiter(quota(3, MINUTE)).await;
    limiter.try_acquire(2).await.unwrap();
    let change = RateChange::new(quota(4, MINUTE)).carry();
    assert!(limiter.update_rate(change.clone().keep_alive(Some(HOUR))).await.unwrap());
    assert_eq!(free(&limiter).await, 2);
    assert_eq!(limiter.config().await.unwrap().unwrap().keep_alive, Some(HOUR));
    assert!(limiter.update_rate(change.clone().keep_alive(None)).await.unwrap());
    assert_eq!(limiter.config().await.unwrap().unwrap().keep_alive, None);
    assert_eq!(limiter.ttl().await.unwrap(), None);
    let other = match world.mode {
        Mode::PerClient => Mode::Overall,
        _ => Mode::PerClient,
    };
    assert!(limiter.update_rate(change.mode(other)).await.unwrap());
    assert_eq!(limiter.config().await.unwrap().unwrap().mode, other);
    assert_eq!(limiter.try_acquire(4).await.unwrap().remaining(), 0, "counted anew");
}

async fn permits_are_given_back_and_settled(world: World) {
    let limiter = world.limiter(quota(10, MINUTE)).await;
    let permit = limiter.acquire(4).await.unwrap();
    assert_eq!((permit.permits(), permit.parts().len()), (4, 1));
    assert_eq!(permit.give_back().await.unwrap(), 4);
    assert_eq!(free(&limiter).await, 10);
    let settled = limiter.acquire(4).await.unwrap().settle(1).await.unwrap();
    assert_eq!((settled.returned, settled.taken, settled.debt), (3, 0, 0));
    let settled = limiter.acquire(4).await.unwrap().settle(12).await.unwrap();
    assert_eq!((settled.returned, settled.taken, settled.debt, settled.excess), (0, 5, 3, 0));
    assert_eq!(refusal(&limiter, 1).await, Reason::Limited);

    let limiter = world.named("streamed", quota(10, MINUTE)).await;
    drop(limiter.acquire(2).await.unwrap());
    assert_eq!(free(&limiter).await, 8, "what is dropped is kept");
    for (used, left) in [(&[1, 2][..], 5), (&[2, 5][..], 0)] {
        let permit = limiter.acquire(4).await.unwrap();
        used.iter().for_each(|used| permit.record(*used));
        drop(permit);
        let start = std::time::Instant::now();
        while free(&limiter).await != left {
            assert!(start.elapsed() < SOON * 20, "{} free, not {left}", free(&limiter).await);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

async fn config_and_exists_ask_the_store(world: World) {
    let limiter = world.limiter(quota(3, MINUTE)).await;
    assert_eq!(limiter.config().await.unwrap(), None, "nobody used it yet");
    assert!(!limiter.exists().await.unwrap());
    limiter.try_acquire(1).await.unwrap();
    let config = limiter.config().await.unwrap().unwrap();
    assert_eq!(*config.quotas, [quota(3, MINUTE)]);
    assert_eq!((config.mode, config.keep_alive, config.held_for), (world.mode, None, None));
    assert!(limiter.exists().await.unwrap());
}

async fn delete_forgets_everything(world: World) {
    let limiter = world.limiter(quota(3, MINUTE)).await;
    assert!(!limiter.delete().await.unwrap(), "there is none");
    limiter.try_acquire(3).await.unwrap();
    assert!(limiter.delete().await.unwrap());
    assert!(!limiter.exists().await.unwrap());
    assert!(!limiter.delete().await.unwrap());
    assert_eq!(free(&limiter).await, 3, "also what was used");
    assert_eq!(limiter.release(3).await.unwrap(), 0);
}

async fn what_was_deleted_is_made_anew(world: World) {
    let limiter = world.limiter(quota(3, MINUTE)).await;
    limiter.try_acquire(3).await.unwrap();
    limiter.set_rate(quota(9, MINUTE)).await.unwrap();
    limiter.delete().await.unwrap();
    let decision = limiter.try_acquire(3).await.unwrap();
    assert_eq!(
        (decision.remaining(), decision.quota().unwrap()),
        (0, quota(3, MINUTE)),
        "by our own numbers"
    );
    assert_eq!(limiter.config().await.unwrap().unwrap().mode, world.mode);
    assert_eq!(refusal(&limiter, 1).await, Reason::Limited);

    // Whoever has no numbers does not make any.
    let follower = world.follower().await;
    follower.set_rate(quota(3, MINUTE)).await.unwrap();
    follower.try_acquire(1).await.unwrap();
    follower.delete().await.unwrap();
    assert_eq!(refusal(&follower, 1).await, Reason::NotConfigured);
    assert!(!follower.exists().await.unwrap());
}

async fn what_was_deleted_is_known_by_the_own_numbers(world: World) {
    let limiter = world.limiter(quota(3, MINUTE)).await;
    limiter.try_acquire(1).await.unwrap();
    limiter.set_rate(quota(5, HOUR)).await.unwrap();
    assert!(limiter.delete().await.unwrap());
    assert_eq!(limiter.quotas().unwrap()[0], quota(3, MINUTE));
    assert_eq!(limiter.peek(1).await.unwrap().quota(), Some(quota(3, MINUTE)));
    for _ in 0..2 {
        let rejection = limiter.try_acquire(9).await.unwrap_err();
        assert_eq!(rejection.violated(), [quota(3, MINUTE)]);
    }
    limiter.try_acquire(1).await.unwrap();
    assert!(limiter.exists().await.unwrap());

    let follower = world.follower().await;
    follower.set_rate(quota(5, HOUR)).await.unwrap();
    assert!(follower.delete().await.unwrap());
    assert_eq!(follower.quotas(), None);
    assert_eq!(refusal(&follower, 1).await, Reason::NotConfigured);
}

async fn what_a_shorter_window_no_longer_counts_stays_free(world: World) {
    let limiter = world.limiter(quota(3, HOUR)).await;
    limiter.try_acquire(3).await.unwrap();
    world.pass(SOON).await;
    for window in [SOON, HOUR] {
        assert!(limiter.update_rate(RateChange::new(quota(3, window)).carry()).await.unwrap());
    }
    assert_eq!(free(&limiter).await, 3);
}

async fn expire_ends_it_after_a_time(world: World) {
    let limiter = world.limiter(quota(3, SOON)).await;
    assert!(!limiter.expire(HOUR).await.unwrap(), "there is none");
    assert_eq!(limiter.ttl().await.unwrap(), None);
    limiter.try_acquire(3).await.unwrap();
    assert_eq!(limiter.ttl().await.unwrap(), None, "it stays");
    assert!(limiter.expire(HOUR).await.unwrap());
    let left = limiter.ttl().await.unwrap().unwrap();
    assert!(left > HOUR - MINUTE && left <= HOUR, "{left:?}");

    assert!(limiter.expire(SOON).await.unwrap());
    world.pass(SOON).await;
    assert!(!limiter.exists().await.unwrap());
    assert_eq!((limiter.config().await.unwrap(), limiter.ttl().await.unwrap()), (None, None));
    assert_eq!(limiter.try_acquire(3).await.unwrap().remaining(), 0);
}

async fn clear_expire_lets_it_live(world: World) {
    let limiter = world.limiter(quota(3, MINUTE)).await;
    assert!(!limiter.clear_expire().await.unwrap(), "there is none");
    limiter.try_acquire(2).await.unwrap();
    assert!(!limiter.clear_expire().await.unwrap(), "it does not expire");
    limiter.expire(HOUR).await.unwrap();
    assert!(limiter.clear_expire().await.unwrap());
    assert_eq!(limiter.ttl().await.unwrap(), None);
    assert_eq!(free(&limiter).await, 1, "nothing else changed");
}

async fn set_keep_alive_ends_what_is_idle(world: World) {
    let limiter = world.limiter(quota(3, SOON / 3)).await;
    assert!(!limiter.set_keep_alive(Some(HOUR)).await.unwrap(), "there is none");
    limiter.try_acquire(1).await.unwrap();
    assert!(limiter.set_keep_alive(Some(HOUR)).await.unwrap());
    assert_eq!(limiter.config().await.unwrap().unwrap().keep_alive, Some(HOUR));
    let left = limiter.ttl().await.unwrap().unwrap();
    assert!(left > HOUR - MINUTE && left <= HOUR, "{left:?}");

    assert!(limiter.set_keep_alive(None).await.unwrap());
    assert_eq!(limiter.ttl().await.unwrap(), None);
    assert_eq!(limiter.config().await.unwrap().unwrap().keep_alive, None);

    assert!(limiter.set_keep_alive(Some(SOON)).await.unwrap());
    world.pass(SOON).await;
    assert!(!limiter.exists().await.unwrap(), "nobody used it for so long");
}

async fn a_short_keep_alive_counts_as_the_window(world: World) {
    let limiter = world.limiter(quota(3, MINUTE)).await;
    limiter.try_acquire(3).await.unwrap();
    assert!(limiter.set_keep_alive(Some(Duration::from_millis(1))).await.unwrap());
    world.pass(Duration::from_millis(5)).await;
    assert!(limiter.ttl().await.unwrap().unwrap() > MINUTE);
    assert_eq!(refusal(&limiter, 1).await, Reason::Limited);
}

async fn times_without_end_are_taken(world: World) {
    let limiter = world.limiter(quota(3, MINUTE)).await;
    limiter.try_acquire(1).await.unwrap();
    assert!(limiter.expire(Duration::MAX).await.unwrap());
    assert!(limiter.ttl().await.unwrap().unwrap() > 1_000_000 * HOUR);
    assert!(limiter.set_keep_alive(Some(Duration::MAX)).await.unwrap());
    limiter.try_acquire(1).await.unwrap();
    limiter.set_rate(quota(4, MINUTE)).await.unwrap();
    assert_eq!(limiter.try_acquire(4).await.unwrap().remaining(), 0);
    limiter.try_acquire(1).await.unwrap_err();
    assert!(limiter.ttl().await.unwrap().unwrap() > 1_000_000 * HOUR);

    let settings = Settings::new(quota(3, MINUTE)).keep_alive(Duration::MAX);
    let kept = world.named("kept", settings).await;
    kept.try_acquire(1).await.unwrap();
    assert!(kept.config().await.unwrap().unwrap().keep_alive.unwrap() > 1_000_000 * HOUR);
    assert!(kept.ttl().await.unwrap().unwrap() > 1_000_000 * HOUR);
}

async fn expire_forgets_what_is_used(world: World) {
    let limiter = world.limiter(quota(3, MINUTE)).await;
    limiter.try_acquire(3).await.unwrap();
    limiter.expire(SOON).await.unwrap();
    world.pass(SOON).await;
    assert_eq!(free(&limiter).await, 3);
    assert_eq!(limiter.try_acquire(3).await.unwrap().remaining(), 0);
    assert!(limiter.exists().await.unwrap(), "made anew");
}

async fn expire_ends_what_is_followed(world: World) {
    let limiter = world.follower().await;
    limiter.set_rate(quota(3, MINUTE)).await.unwrap();
    limiter.try_acquire(1).await.unwrap();
    limiter.expire(SOON).await.unwrap();
    world.pass(SOON).await;
    assert_eq!(refusal(&limiter, 1).await, Reason::NotConfigured);
}

async fn peek_writes_nothing(world: World) {
    let limiter = world.limiter(quota(3, MINUTE)).await;
    limiter.peek(1).await.unwrap();
    assert!(!limiter.exists().await.unwrap());
}

async fn peek_follows_what_is_stored(world: World) {
    let limiter = world.follower().await;
    limiter.set_rate(quota(3, MINUTE)).await.unwrap();
    assert_eq!(limiter.peek(1).await.unwrap().quota().unwrap(), quota(3, MINUTE));
}

async fn use_puts_the_keep_alive_in_place_of_an_expiry(world: World) {
    let limiter = world.limiter(quota(3, MINUTE)).await;
    limiter.try_acquire(1).await.unwrap();
    limiter.set_keep_alive(Some(HOUR)).await.unwrap();
    limiter.expire(MINUTE).await.unwrap();
    limiter.try_acquire(1).await.unwrap();
    assert!(limiter.ttl().await.unwrap().unwrap() > MINUTE);
}

async fn what_grants_nothing_leaves_the_expiry(world: World) {
    // Rejections renewed the keep-alive on the embedded store, and releases did on Redis.
    if world.mode == Mode::PerClient {
        // Any use renews it, every ten seconds.
        return;
    }
    let bucket = quota(3, MINUTE).token_bucket(3).unwrap();
    let window = quota(3, HOUR).fixed_window();
    for (name, quota) in [("sliding", quota(3, MINUTE)), ("bucket", bucket), ("window", window)] {
        let limiter = world.named(name, quota).await;
        let permit = limiter.try_acquire(1).await.unwrap();
        limiter.try_acquire(2).await.unwrap();
        limiter.set_keep_alive(Some(2 * HOUR)).await.unwrap();
        for expiry in [Some(MINUTE), None] {
            match expiry {
                Some(expiry) => assert!(limiter.expire(expiry).await.unwrap()),
                None => assert!(limiter.clear_expire().await.unwrap()),
            }
            let ttl = async || limiter.ttl().await.unwrap().map(|ttl| ttl <= MINUTE);
            let stays = expiry.map(|_| true);
            assert_eq!(refusal(&limiter, 3).await, Reason::Limited);
            assert_eq!(ttl().await, stays, "{name} after a rejection");
            assert_eq!(limiter.release(1).await.unwrap(), 1);
            assert_eq!(ttl().await, stays, "{name} after a release");
        }
        limiter.expire(MINUTE).await.unwrap();
        permit.give_back().await.unwrap();
        assert!(limiter.ttl().await.unwrap().unwrap() <= MINUTE, "{name} after a refund");
        limiter.charge(1).await.unwrap();
        assert!(limiter.ttl().await.unwrap().unwrap() > MINUTE, "{name} after a charge");
    }
}

async fn a_shorter_window_frees_what_is_older(world: World) {
    let limiter = world.limiter(quota(3, HOUR)).await;
    limiter.try_acquire(3).await.unwrap();
    limiter.update_rate(RateChange::new(quota(3, SOON)).carry()).await.unwrap();
    world.pass(SOON).await;
    assert_eq!(limiter.release(3).await.unwrap(), 0, "none is in use");
}

async fn release_wakes_a_head_that_is_just_asking(world: World) {
    for attempt in 0..100 {
        let limiter = world.named(&format!("limiter-{attempt}"), quota(1, MINUTE)).await;
        limiter.try_acquire(1).await.unwrap();
        let waiter = tokio::spawn({
            let limiter = limiter.clone();
            async move { limiter.acquire(1).await }
        });
        for _ in 0..attempt % 7 {
            tokio::task::yield_now().await;
        }
        limiter.release(1).await.unwrap();
        let woken = tokio::time::timeout(Duration::from_secs(2), waiter).await;
        assert!(woken.is_ok(), "attempt {attempt}: it sleeps on");
    }
}
