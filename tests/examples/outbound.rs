//! The examples that call others.

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
