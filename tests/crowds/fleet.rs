//! Several processes want one limiter: nothing above its bound, hardly anything lost, alike for all.
//!
//! ```sh
//! RATELIMIT_FULL_LENGTH=1 cargo xtask test -p tests --test crowds fleet -- --nocapture --test-threads=1
//! ```

use std::time::{Duration, SystemTime};

use ratelimit_runtime::{Limits, Quota, RateChange};
use tests::{
    ledger::{Rates, Rule, excesses},
    place::since_1970,
    redis_server::RedisServer,
};
use tokio::time::sleep;

use super::{
    SECOND, ms,
    shared::{Habits, Record, Swarms, full_length, limits_file, numbers, script_calls},
};

/// The most reservations of one queue.
const MOST_SLOTS: u64 = 64;

const RULES: [(&str, Rule); 5] = [
    ("sliding", Rule::SlidingWindow),
    ("fixed", Rule::FixedWindow),
    ("token", Rule::TokenBucket(20)),
    ("leaky", Rule::LeakyBucket),
    ("warming", Rule::LeakyBucket),
];

fn now() -> u64 {
    since_1970(SystemTime::now())
}

fn quota(rule: &str, rate: u64, per_ms: u64) -> Quota {
    let quota = Quota::new(rate, ms(per_ms)).unwrap();
    match rule {
        "sliding" => quota,
        "fixed" => quota.fixed_window(),
        "token" => quota.token_bucket(20).unwrap(),
        "leaky" => quota.leaky_bucket().unwrap(),
        _ => quota.warming_bucket(ms(per_ms * 2)).unwrap(),
    }
}

async fn own_limits(server: &RedisServer) -> Limits {
    let builder = Limits::builder().redis(server.url()).no_limits_file().deadline(20 * SECOND);
    builder.build().await.unwrap()
}

/// Changes the rate to and fro while the processes run, and has them read their file again.
async fn change_to_and_fro(
    server: &RedisServer,
    swarms: &mut Swarms,
    (rule, per_ms): (&str, u64),
    (low, high): (u64, u64),
    Habits { run, costs, .. }: Habits,
) -> Rates {
    let mut rates = Rates::new(low, per_ms);
    if !matches!(rule, "sliding" | "fixed") {
        rates.promised(MOST_SLOTS * costs * per_ms / low);
        rates.rounded(costs);
    }
    let limiter = own_limits(server).await.configured("wanted");
    let end = tokio::time::Instant::now() + run;
    for n in 0.. {
        sleep(ms(170)).await;
        if tokio::time::Instant::now() >= end {
            break;
        }
        let (from, rate) = (now(), if n % 2 == 0 { high } else { low });
        let to = RateChange::new(quota(rule, rate, per_ms)).carry();
        if limiter.update_rate(to).await.unwrap() {
            rates.change(from, now(), rate);
        }
        if n % 3 == 0 {
            swarms.reload();
        }
    }
    rates
}

/// All permits are there again when nobody took any for a while.
async fn all_come_back(server: &RedisServer, rule: &str, per_ms: u64, rate: u64) {
    let limiter = own_limits(server).await.configured("wanted");
    let capacity = if rule == "token" { 20 } else { rate };
    // A window, another for a debt, and the rest until the log expires; and all that four processes
    // have reserved of a bucket when they end.
    let mut most_ms = per_ms * 3 + 100;
    if !matches!(rule, "sliding" | "fixed") {
        most_ms += 4 * MOST_SLOTS * 4 * per_ms / rate;
    }
    let end = tokio::time::Instant::now() + ms(most_ms);
    while limiter.available_permits().await.unwrap() < capacity {
        assert!(tokio::time::Instant::now() < end, "{rule}: after quiet time");
        sleep(ms(20)).await;
    }
}

#[track_caller]
fn assert_kept(rule: (&str, Rule), rates: &Rates, record: &Record) {
    let over = excesses(rule.1, rates, &record.all());
    let admitted = record.all().len();
    println!("{}: {} tried, {admitted} admitted", rule.0, record.tried);
    assert!(admitted > 20, "{}: {admitted} of {} calls admitted", rule.0, record.tried);
    let Some(first) = over.first() else { return };
    let mut around: Vec<_> = record.all();
    around.retain(|one| one.at_ms + 90 > first.at_ms && one.at_ms <= first.at_ms);
    around.sort_by_key(|one| (one.at_ms, one.permits));
    let (rate, over) = (rates.at(first.at_ms), over.len());
    panic!(
        "{}: {over} of {admitted} above the bound, the first {first:?} at a rate of {rate} after {around:#?}",
        rule.0
    );
}

async fn drops_and_rate_changes(rule: &str) {
    let rule = *RULES.iter().find(|(name, _)| *name == rule).unwrap();
    let run = if full_length() { 20 * SECOND } else { 3 * SECOND };
    let server = RedisServer::start();
    let file = limits_file(&server, &numbers(rule.0, 200, 1000, 20));
    let habits = Habits { tasks: 64, run, costs: 1, drops: 33, changes: 0 };
    let mut swarms = Swarms::start(&server, &file, 4, habits);
    let rates = change_to_and_fro(&server, &mut swarms, (rule.0, 1000), (200, 280), habits).await;
    assert_kept(rule, &rates, &swarms.record());
}

#[tokio::test]
async fn a_sliding_window_whose_rate_changes() {
    drops_and_rate_changes("sliding").await;
}

#[tokio::test]
async fn a_fixed_window_whose_rate_changes() {
    drops_and_rate_changes("fixed").await;
}

#[tokio::test]
async fn a_token_bucket_whose_rate_changes() {
    drops_and_rate_changes("token").await;
}

#[tokio::test]
async fn a_leaky_bucket_whose_rate_changes() {
    drops_and_rate_changes("leaky").await;
}

#[tokio::test]
async fn a_warming_bucket_whose_rate_changes() {
    drops_and_rate_changes("warming").await;
}

/// The same drops without rate changes: hardly a permit is lost.
async fn drops_alone(rule: &str) {
    let rule = *RULES.iter().find(|(name, _)| *name == rule).unwrap();
    let run = if full_length() { 20 * SECOND } else { 4 * SECOND };
    let server = RedisServer::start();
    let file = limits_file(&server, &numbers(rule.0, 200, 1000, 20));
    let habits = Habits { tasks: 64, run, costs: 1, drops: 33, changes: 0 };
    let record = Swarms::start(&server, &file, 4, habits).record();
    assert_kept(rule, &Rates::new(200, 1000), &record);
    let mut times: Vec<u64> = record.all().iter().map(|one| one.at_ms).collect();
    times.sort_unstable();
    // Without the start and the end, and without what the bucket held at first.
    let (from, until) = (times[0] + 500, times[0] + u64::try_from(run.as_millis()).unwrap() - 500);
    let used = times.iter().filter(|at| (from..until).contains(at)).count() as u64;
    let most = (until - from) / 5;
    println!("{}: {used} of {most}", rule.0);
    assert!(used * 100 >= most * 97, "{}: {used} of {most} permits used", rule.0);
}

#[tokio::test]
async fn a_leaky_bucket_whose_callers_hang_up_is_used() {
    drops_alone("leaky").await;
}

#[tokio::test]
async fn a_token_bucket_whose_callers_hang_up_is_used() {
    drops_alone("token").await;
}

/// Random costs, drops, waits, corrections and rate changes, judged by the record alone.
async fn anything(rule: &str) {
    let rule = *RULES.iter().find(|(name, _)| *name == rule).unwrap();
    // Of the five rules about a million calls, by what the short form tries in a second.
    let run = if full_length() { 300 * SECOND } else { 3 * SECOND };
    let server = RedisServer::start();
    // A slot of a bucket that spaces its callers takes longer than what its times are rounded by.
    let (low, high) = if rule.1 == Rule::LeakyBucket { (50, 60) } else { (400, 500) };
    let per_ms = 250;
    let file = limits_file(&server, &numbers(rule.0, low, per_ms, 20));
    let habits = Habits { tasks: 48, run, costs: 4, drops: 25, changes: 30 };
    let mut swarms = Swarms::start(&server, &file, 4, habits);
    let rates =
        change_to_and_fro(&server, &mut swarms, (rule.0, per_ms), (low, high), habits).await;
    let record = swarms.record();
    // Before the record is judged, which takes minutes: a limiter that is idle for one is forgotten.
    all_come_back(&server, rule.0, per_ms, rates.at(now() + 60_000)).await;
    assert_kept(rule, &rates, &record);
}

#[tokio::test]
async fn anything_to_a_sliding_window() {
    anything("sliding").await;
}

#[tokio::test]
async fn anything_to_a_fixed_window() {
    anything("fixed").await;
}

#[tokio::test]
async fn anything_to_a_token_bucket() {
    anything("token").await;
}

#[tokio::test]
async fn anything_to_a_leaky_bucket() {
    anything("leaky").await;
}

#[tokio::test]
async fn anything_to_a_warming_bucket() {
    anything("warming").await;
}

/// Two processes of 100 waiters on one leaky bucket: the record, and the script calls for each grant.
fn two_of_a_hundred(rate: u64, run: Duration) -> (Record, f64) {
    let server = RedisServer::start();
    let file = limits_file(&server, &numbers("leaky", rate, 1000, 0));
    let habits = Habits { tasks: 100, run, costs: 1, drops: 0, changes: 0 };
    let before = script_calls(&server);
    let record = Swarms::start(&server, &file, 2, habits).record();
    let grants = record.all().len();
    #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
    let calls = (script_calls(&server) - before) as f64 / grants as f64;
    println!("{rate}/s: {:?} grants, {calls:.2} calls for each", each(&record));
    (record, calls)
}

fn each(record: &Record) -> Vec<usize> {
    record.admissions.iter().map(Vec::len).collect()
}

#[test]
fn two_processes_share_slots_of_ten_milliseconds() {
    let run = if full_length() { 20 * SECOND } else { 4 * SECOND };
    let (record, calls) = two_of_a_hundred(100, run);
    let mut times: Vec<u64> = record.all().iter().map(|one| one.at_ms).collect();
    times.sort_unstable();
    // Without the start, when the processes do not know yet how long a round trip takes.
    let start = times[0] + 500;
    let times: Vec<u64> = times.into_iter().filter(|at| *at > start).collect();
    let gaps: Vec<_> = times.windows(2).map(|pair| (pair[0], pair[1])).collect();
    assert!(gaps.iter().all(|(slot, next)| next - slot >= 10), "{gaps:?}");
    // A slot is only free for longer if both processes are late: by themselves, if the machine was not.
    let is_late = |(slot, next): (u64, u64)| {
        let during = |late: &(u64, u64)| late.0 < next && slot < late.1;
        record.late.iter().all(|process| process.iter().any(during))
    };
    let longer = gaps.iter().copied().filter(|(slot, next)| next - slot > 10);
    let (by_machine, longer): (Vec<_>, Vec<_>) = longer.partition(|gap| is_late(*gap));
    println!("{} longer gaps, and {} while the machine was late", longer.len(), by_machine.len());
    assert!(longer.len() * 50 <= gaps.len(), "of {} gaps are longer: {longer:?}", gaps.len());
    let shares = each(&record);
    // The other one takes the slots of a process that is late.
    let late_ms =
        |process: &Vec<(u64, u64)>| process.iter().map(|(from, until)| until - from).sum();
    let late_ms: Vec<u64> = record.late.iter().map(late_ms).collect();
    let missed = usize::try_from(late_ms.iter().max().unwrap() / 10).unwrap();
    assert!(
        shares[0].abs_diff(shares[1]) <= shares[0].max(shares[1]) / 10 + missed,
        "{shares:?}, late for {late_ms:?} ms"
    );
    assert!(calls <= 1.1, "{calls} script calls for each grant");
}

#[test]
fn two_processes_share_slots_of_a_millisecond() {
    let (record, calls) = two_of_a_hundred(1000, 3 * SECOND);
    assert_kept(("leaky", Rule::LeakyBucket), &Rates::new(1000, 1000), &record);
    assert!(calls <= 0.3, "{calls} script calls for each grant");
}
