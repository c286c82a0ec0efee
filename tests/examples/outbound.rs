//! The examples that call others, or work through jobs.

use std::{thread, time::Duration};

use tests::redis_server::RedisServer;

use crate::{program::run, upstream::Upstream};

#[test]
fn a_partner_that_asks_for_pauses_gets_them() {
    let lines = run("partner_api", None, &[]);
    assert_eq!(lines.len(), 12, "{lines:#?}");
    let refused = lines.iter().filter(|line| line.ends_with(": 429 Too Many Requests")).count();
    let answered = lines.iter().filter(|line| line.ends_with(": 200 OK")).count();
    assert_eq!(answered + refused, 12, "{lines:#?}");
    // One too many goes out with each four, before the first answer tells.
    assert!((1..=3).contains(&refused), "{lines:#?}");
    let (last, _) = lines[11].trim().split_once(' ').unwrap();
    assert!((1.9..6.0).contains(&last.parse::<f32>().unwrap()), "{lines:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_share_the_limit_of_a_partner() {
    let redis = RedisServer::start();
    let partner = Upstream::start([]).await;
    let call = || {
        let lines = run("partner_api", Some(&redis), &[&partner.url, "10"]);
        assert!(lines.iter().all(|line| line.ends_with(": 200 OK")), "{lines:#?}");
    };
    tokio::task::block_in_place(|| {
        thread::scope(|scope| {
            [call, call].map(|call| scope.spawn(call)).map(|ended| ended.join().unwrap())
        })
    });
    assert_eq!(partner.arrivals().len(), 20);
    // What arrives at a server depends on the network too.
    let window = Duration::from_millis(850);
    assert!(partner.worst_window(window) <= 5, "{:?}", partner.arrivals());
    let took = *partner.arrivals().last().unwrap() - partner.arrivals()[0];
    assert!((Duration::from_millis(2_900)..Duration::from_secs(8)).contains(&took), "{took:?}");
}

/// When a line says that something happened.
fn seconds(line: &str) -> f32 {
    line.split_once(" s: ").unwrap().0.trim().parse().unwrap()
}

#[test]
fn jobs_wait_or_are_put_back() {
    let lines = run("worker", None, &[]);
    let mails: Vec<&String> = lines.iter().filter(|line| line.ends_with(" sent")).collect();
    assert_eq!(mails.len(), 10, "{lines:#?}");
    for (n, mail) in (0_u8..).zip(mails) {
        assert!(seconds(mail) >= f32::from(n) * 0.2 - 0.02, "{lines:#?}");
    }
    assert_eq!(lines.iter().filter(|line| line.ends_with(" exported")).count(), 3, "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains(" later: ")), "{lines:#?}");
}

/// A worker without other jobs took the export that it had just put back, tens of thousands of times a second.
#[test]
fn a_job_that_is_put_back_keeps_no_worker_busy() {
    let lines = run("worker", None, &["0"]);
    assert_eq!(lines.iter().filter(|line| line.ends_with(" exported")).count(), 3, "{lines:#?}");
    assert!(lines.len() < 200, "{} lines", lines.len());
}

#[test]
fn workers_share_their_limits() {
    let redis = RedisServer::start();
    let work = || run("worker", Some(&redis), &["10"]);
    let lines = thread::scope(|scope| {
        [work, work].map(|work| scope.spawn(work)).map(|ended| ended.join().unwrap())
    });
    let sent = |lines: &Vec<String>| lines.iter().filter(|line| line.ends_with(" sent")).count();
    assert_eq!(lines.each_ref().map(sent), [10, 10]);
    // Twenty mails, a fifth of a second after each other.
    let last = lines.iter().flatten().map(|line| seconds(line)).fold(0.0, f32::max);
    assert!((3.4..8.0).contains(&last), "{lines:#?}");
}
