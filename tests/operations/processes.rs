//! What an operation of one process means to another, on one Redis.

use ratelimit_runtime::{Limiter, Mode, RateChange, Reason};

use crate::{HOUR, MINUTE, SOON, free, quota, refusal, world::World};

macro_rules! in_each_mode {
    ($($case:ident),+ $(,)?) => {
        mod overall { cases!(redis, Overall: $($case),+); }
        mod per_client { cases!(redis, PerClient: $($case),+); }
    };
}

in_each_mode!(
    permits_are_shared_or_not_and_numbers_always,
    who_starts_later_goes_by_what_was_set,
    previews_and_charges_go_by_what_was_set,
    a_cost_that_was_made_possible_is_granted,
    a_new_rate_is_in_the_mode_that_is_stored,
    release_goes_by_the_mode_that_is_stored,
    what_one_deletes_or_lets_expire_is_gone_for_all,
);

/// The same limiter in a process that has no numbers for it.
async fn another(world: &World) -> Limiter {
    world.process().await.configured("limiter")
}

async fn permits_are_shared_or_not_and_numbers_always(world: World) {
    let first = world.limiter(quota(5, MINUTE)).await;
    first.try_acquire(3).await.unwrap();
    let second = another(&world).await;
    assert_eq!(second.config().await.unwrap(), first.config().await.unwrap());
    assert!(second.exists().await.unwrap());

    let shared = world.mode == Mode::Overall;
    assert_eq!(free(&second).await, if shared { 2 } else { 5 });
    assert_eq!(second.try_acquire(2).await.unwrap().quota().unwrap(), quota(5, MINUTE));
    assert_eq!(free(&first).await, if shared { 0 } else { 2 });
    // Nobody gives back what only somebody else has.
    assert_eq!(second.release(9).await.unwrap(), if shared { 5 } else { 2 });
    assert_eq!(free(&second).await, 5);
    assert_eq!(free(&first).await, if shared { 5 } else { 2 });
}

async fn who_starts_later_goes_by_what_was_set(world: World) {
    let first = world.limiter(quota(5, MINUTE)).await;
    first.try_acquire(4).await.unwrap();
    first.set_rate(quota(3, HOUR)).await.unwrap();
    let second = another(&world).await;
    let decision = second.try_acquire(1).await.unwrap();
    assert_eq!((decision.quota().unwrap(), decision.remaining()), (quota(3, HOUR), 2));
    assert_eq!(second.config().await.unwrap().unwrap().mode, world.mode);

    assert!(first.update_rate(RateChange::new(quota(2, HOUR)).carry()).await.unwrap());
    let third = another(&world).await;
    let decision = third.try_acquire(1).await.unwrap();
    let used = if world.mode == Mode::Overall { 2 } else { 1 };
    assert_eq!((decision.quota().unwrap(), decision.remaining()), (quota(2, HOUR), 2 - used));
    assert_eq!(first.try_acquire(1).await.is_ok(), used == 1);
}

/// A process that has not called the limiter yet knows its own numbers only.
async fn previews_and_charges_go_by_what_was_set(world: World) {
    let first = world.limiter(quota(5, MINUTE)).await;
    first.try_acquire(1).await.unwrap();
    let second = world.process().await.limiter("limiter", quota(5, MINUTE));
    first.set_rate(quota(8, HOUR)).await.unwrap();
    let decision = second.peek(7).await.unwrap();
    assert_eq!((decision.quota().unwrap(), decision.remaining()), (quota(8, HOUR), 8));
    let charged = second.charge(8).await.unwrap();
    assert_eq!((charged.taken, charged.debt), (8, 0));
    assert_eq!(free(&second).await, 0);
}

async fn a_cost_that_was_made_possible_is_granted(world: World) {
    let first = world.limiter(quota(5, MINUTE)).await;
    first.try_acquire(1).await.unwrap();
    let second = world.process().await.limiter("limiter", quota(5, MINUTE));
    first.set_rate(quota(8, HOUR)).await.unwrap();
    assert_eq!(second.try_acquire(7).await.unwrap().remaining(), 1);
}

/// A quota says nothing of the mode, and a process that never heard of it keeps it.
async fn a_new_rate_is_in_the_mode_that_is_stored(world: World) {
    world.limiter(quota(3, MINUTE)).await.try_acquire(1).await.unwrap();
    let stranger = world.stranger().await.configured("limiter");
    assert!(stranger.set_keep_alive(Some(HOUR)).await.unwrap());
    stranger.set_rate(quota(4, MINUTE)).await.unwrap();
    assert!(stranger.update_rate(RateChange::new(quota(5, MINUTE)).carry()).await.unwrap());
    assert!(!stranger.try_set_rate(quota(6, MINUTE)).await.unwrap());
    let config = stranger.config().await.unwrap().unwrap();
    assert_eq!(config.quotas[0].rate(), 5);
    assert_eq!((config.mode, config.keep_alive), (world.mode, Some(HOUR)));
    assert_eq!(stranger.try_acquire(5).await.unwrap().remaining(), 0);
    assert_eq!(refusal(&stranger, 1).await, Reason::Limited);
}

async fn release_goes_by_the_mode_that_is_stored(world: World) {
    let first = world.limiter(quota(5, MINUTE)).await;
    first.try_acquire(2).await.unwrap();
    let second = another(&world).await;
    let (mode, released) = match world.mode {
        Mode::PerClient => (Mode::Overall, 2),
        _ => (Mode::PerClient, 0),
    };
    assert!(second.update_rate(RateChange::new(quota(5, MINUTE)).mode(mode)).await.unwrap());
    second.try_acquire(3).await.unwrap();
    assert_eq!(first.release(2).await.unwrap(), released);
    assert_eq!(free(&second).await, 2 + released);
}

async fn what_one_deletes_or_lets_expire_is_gone_for_all(world: World) {
    let first = world.limiter(quota(5, MINUTE)).await;
    first.try_acquire(5).await.unwrap();
    let second = another(&world).await;
    assert!(second.delete().await.unwrap());
    assert!(!first.exists().await.unwrap() && !first.delete().await.unwrap());

    second.set_rate(quota(2, SOON)).await.unwrap();
    assert!(first.expire(SOON).await.unwrap());
    assert!(second.ttl().await.unwrap().unwrap() <= SOON);
    world.pass(SOON).await;
    assert!(!second.exists().await.unwrap());
    assert_eq!(refusal(&another(&world).await, 1).await, Reason::NotConfigured);
}
