//! What is promised to those who need permits of several limiters at once.

use ratelimit_runtime::__private::store::{
    Algorithm, Assertion, Config, OnDrift,
    Outcome::{self, ExceedsCapacity, Granted, NotTaken, PerClient, Refused, Unknown},
    Reconciled, Reply, StateKeys, Store,
};
use tests::decide::Decide;
use tokio::time::Instant;

use super::{ALGORITHMS, Process, Time, config};

const HOUR_MS: u64 = 3_600_000;

/// Keeps what goes beyond a limiter alone. All limiters of a test share a hash tag.
pub(super) async fn run<S: Store>(store: &S, prefix: &str, time: &Time) {
    let since = Instant::now();
    // A tag of the prefix's own comes first, and is then the one that counts.
    let process = |name: &str, config| {
        let keys = StateKeys::new(format!("{prefix}{{joint}}:{name}"));
        Process { store, keys, config, revision: 0, since }
    };
    for one in ALGORITHMS {
        for other in ALGORITHMS {
            let name = format!("{one}-{other}");
            let few = process(&format!("{name}:few"), config(one, 3, HOUR_MS));
            let many = process(&format!("{name}:many"), config(other, 5, HOUR_MS));
            takes_of_all_or_of_none([&few, &many]).await;
        }
    }
    let second = config(Algorithm::SlidingWindow, 1, 400);
    let minute = config(Algorithm::SlidingWindow, 2, HOUR_MS);
    for order in ["one", "other"] {
        let second = process(&format!("{order}:second"), second);
        let minute = process(&format!("{order}:minute"), minute);
        names_who_refuses(&second, &minute, order == "one", time).await;
    }
    let minute = process("batch:wide", config(Algorithm::SlidingWindow, 10, HOUR_MS));
    let second = process("batch:narrow", config(Algorithm::TokenBucket, 6, HOUR_MS));
    decides_callers_in_order([&minute, &second]).await;
    let limiters = [
        process("mixed:one", config(Algorithm::SlidingWindow, 5, HOUR_MS)),
        process("mixed:two", config(Algorithm::FixedWindow, 5, HOUR_MS)),
    ];
    reconciles_each([&limiters[0], &limiters[1]]).await;
    takes_nothing_where_one_is_not_counted(&process("whole", second_of(5)), |config| {
        process("part", config)
    })
    .await;
    refuses_what_makes_no_sense([&limiters[0], &limiters[1]]).await;
}

fn second_of(rate: u32) -> Config {
    config(Algorithm::SlidingWindow, rate, HOUR_MS)
}

/// Asks for these costs of each limiter, and returns what each caller was told by each.
async fn ask<S: Store>(limiters: &[&Process<'_, S>], costs: &[&[u32]]) -> Vec<Vec<Reply>> {
    ask_as(limiters, costs, Assertion::Steady).await
}

async fn ask_as<S: Store>(
    limiters: &[&Process<'_, S>],
    costs: &[&[u32]],
    assertion: Assertion,
) -> Vec<Vec<Reply>> {
    let requests: Vec<_> = limiters.iter().map(|one| one.request(assertion)).collect();
    limiters[0].store.acquire_jointly(&requests, costs).await.expect("the store answers")
}

fn outcomes(replies: &[Vec<Reply>]) -> Vec<Outcome> {
    replies.iter().map(|row| row[0].outcome).collect()
}

async fn takes_of_all_or_of_none<S: Store>([few, many]: [&Process<'_, S>; 2]) {
    let of = |permits| [permits; 2];
    let told = |permits: u32| async move {
        let [one, other] = of([permits]);
        outcomes(&ask(&[few, many], &[&one, &other]).await)
    };
    assert_eq!(told(4).await, [ExceedsCapacity, NotTaken], "4 of 3 and of 5");
    assert_eq!(told(6).await, [ExceedsCapacity, ExceedsCapacity], "6 of 3 and of 5");
    assert_eq!(told(3).await, [Granted, Granted], "nothing was taken yet");
    // Three of five are used, or a leaky bucket is closed.
    let room = if many.spaces() { Refused } else { NotTaken };
    for _ in 0..3 {
        assert_eq!(told(1).await, [Refused, room], "one is used up");
    }
    let left = if many.spaces() { 0 } else { 2 };
    assert_eq!(many.peek(1).await.remaining, left, "what is spared is not taken");
}

async fn names_who_refuses<S: Store>(
    second: &Process<'_, S>,
    minute: &Process<'_, S>,
    second_first: bool,
    time: &Time,
) {
    let limiters = if second_first { [second, minute] } else { [minute, second] };
    let told = || async move {
        let mut replies = ask(&limiters, &[&[1], &[1]]).await;
        if !second_first {
            replies.reverse();
        }
        replies.into_iter().map(|row| row[0]).collect::<Vec<_>>()
    };
    let granted = told().await;
    assert_eq!([granted[0].outcome, granted[1].outcome], [Granted, Granted]);
    assert_eq!(granted[0].now_ms, granted[1].now_ms, "one instant");
    let refused = told().await;
    assert_eq!([refused[0].outcome, refused[1].outcome], [Refused, NotTaken], "1 in 400 ms");
    assert_eq!((refused[1].remaining, refused[1].retry_after_ms), (1, 0), "it has room");
    time.pass(refused[0].retry_after_ms).await;
    let granted = told().await;
    assert_eq!([granted[0].outcome, granted[1].outcome], [Granted, Granted], "its wait is over");
    let refused = told().await;
    assert_eq!([refused[0].outcome, refused[1].outcome], [Refused, Refused], "now both refuse");
    assert!(refused[0].retry_after_ms <= 400, "each by its own wait: {refused:?}");
    assert!(refused[1].retry_after_ms > HOUR_MS - 60_000, "each by its own wait: {refused:?}");
    time.pass(refused[0].retry_after_ms).await;
    let refused = told().await;
    assert_eq!([refused[0].outcome, refused[1].outcome], [NotTaken, Refused], "2 in an hour");
}

async fn decides_callers_in_order<S: Store>([wide, narrow]: [&Process<'_, S>; 2]) {
    assert_eq!(ask(&[wide, narrow], &[&[], &[]]).await, [[], []], "nothing for nobody");
    let costs: [&[u32]; 2] = [&[1, 8, 11, 9, 2, 1], &[1, 2, 1, 4, 3, 3]];
    let replies = ask(&[wide, narrow], &costs).await;
    let told = |limiter: usize| -> Vec<_> {
        replies[limiter].iter().map(|reply| (reply.outcome, reply.remaining)).collect()
    };
    let expected = [
        (Granted, 9),
        (Granted, 1),
        (ExceedsCapacity, 10),
        (Refused, 1),
        (Refused, 1),
        (Granted, 0),
    ];
    assert_eq!(told(0), expected);
    let expected =
        [(Granted, 5), (Granted, 3), (NotTaken, 3), (Refused, 3), (NotTaken, 3), (Granted, 0)];
    assert_eq!(told(1), expected, "who comes later may fit");
}

async fn reconciles_each<S: Store>(limiters: [&Process<'_, S>; 2]) {
    let first = Assertion::First(OnDrift::Reset);
    let replies = ask_as(&limiters, &[&[1, 1], &[1, 1]], first).await;
    for row in &replies {
        assert_eq!(row[0].reconciled, Some(Reconciled::Created), "each of them");
        assert_eq!(row[1].reconciled, None, "it is told once");
    }
    let replies = ask_as(&limiters, &[&[9], &[1]], first).await;
    assert_eq!(outcomes(&replies), [ExceedsCapacity, NotTaken]);
    for row in replies {
        assert_eq!(row[0].reconciled, Some(Reconciled::Unchanged), "and when nothing is granted");
    }
}

async fn takes_nothing_where_one_is_not_counted<'a, S: Store>(
    whole: &Process<'a, S>,
    process: impl Fn(Config) -> Process<'a, S>,
) {
    let part = process(super::per_client(second_of(5)));
    let replies = ask(&[whole, &part], &[&[1, 9], &[1, 1]]).await;
    let told: Vec<_> = replies.iter().flatten().map(|reply| reply.outcome).collect();
    assert_eq!(told, [NotTaken, NotTaken, PerClient, PerClient], "for each caller");
    let unknown = Process { keys: StateKeys::new(format!("{}:no", part.keys.config())), ..part };
    let follow = Assertion::Follow { first: true };
    let requests = [whole.request(Assertion::Steady), unknown.request(follow)];
    let replies = whole.store.acquire_jointly(&requests, &[&[1], &[1]]).await;
    assert_eq!(outcomes(&replies.expect("the store answers")), [NotTaken, Unknown]);
    assert_eq!(whole.peek(1).await.remaining, 5, "nothing was taken");
}

async fn refuses_what_makes_no_sense<S: Store>([one, other]: [&Process<'_, S>; 2]) {
    let twice = [one.request(Assertion::Steady), one.request(Assertion::Steady)];
    let both = [twice[0], other.request(Assertion::Steady)];
    let store = one.store;
    assert!(store.acquire_jointly(&twice, &[&[1], &[1]]).await.is_err(), "a limiter twice");
    assert!(store.acquire_jointly(&both, &[&[1]]).await.is_err(), "a limiter without costs");
    assert!(store.acquire_jointly(&both, &[&[1], &[1, 1]]).await.is_err(), "a cost is missing");
    assert!(store.acquire_jointly(&[], &[]).await.is_err(), "no limiter at all");
    assert!(store.decide(&[]).await.expect("nothing of nobody").is_empty());
}
