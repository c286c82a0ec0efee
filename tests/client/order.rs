//! What a pause does to the requests that were there before, and to those that come during it.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Instant,
};

use http::{Request, Response};
use ratelimit_runtime::client::Throttle;
use tokio::time::{sleep, timeout};
use tower::{Layer, Service, ServiceExt, limit::ConcurrencyLimit, service_fn};

use super::*;

/// A service without a free connection.
#[derive(Clone)]
struct Busy;

impl Service<Request<()>> for Busy {
    type Response = Response<()>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Response<()>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Pending
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        panic!("it is not ready")
    }
}

#[tokio::test]
async fn a_request_that_is_dropped_before_it_was_sent_takes_nothing() {
    let partner = embedded().await.limiter("partner", quota(2, MINUTE));
    let free = partner.clone();
    let client = Throttle::new(move |_: &Request<()>| partner.clone()).layer(Busy);
    for _ in 0..3 {
        let sent = client.clone().oneshot(Request::new(()));
        assert!(timeout(SECOND / 20, sent).await.is_err());
        sleep(SECOND / 20).await;
        assert_eq!(free.available_permits().await.unwrap(), 2, "nothing was sent");
    }
}

/// The requests that an upstream got, and when.
type Sent = Arc<Mutex<Vec<(u32, Duration)>>>;

/// Answers the request `paused` by a pause of a second, after a while.
fn upstream(
    sent: &Sent,
    paused: u32,
    takes: impl Fn(u32) -> Duration + Clone + Send + 'static,
) -> impl Service<Request<u32>, Response = Response<()>, Error = Infallible, Future: Send>
+ Clone
+ Send
+ 'static {
    let (note, began) = (Arc::clone(sent), Instant::now());
    service_fn(move |request: Request<u32>| {
        let (number, takes) = (*request.body(), takes(*request.body()));
        note.lock().unwrap().push((number, began.elapsed()));
        let answer = Response::builder();
        let answer = match number == paused {
            true => answer.status(429).header("retry-after", "1"),
            false => answer,
        };
        async move {
            sleep(takes).await;
            Ok(answer.body(()).unwrap())
        }
    })
}

#[tokio::test]
async fn a_request_that_waits_for_a_connection_is_not_sent_in_a_pause() {
    let partner = embedded().await.limiter("partner", quota(100, SECOND));
    let free = partner.clone();
    let sent = Sent::default();
    let answer = upstream(&sent, 0, |_| SECOND / 10);
    let one_connection = ConcurrencyLimit::new(answer, 1);
    let client = Throttle::new(move |_: &Request<u32>| partner.clone()).layer(one_connection);
    let mut calls = Vec::new();
    for number in 0..3 {
        calls.push(tokio::spawn(client.clone().oneshot(Request::new(number))));
        sleep(SECOND / 50).await;
    }
    for call in calls {
        call.await.unwrap().unwrap();
    }
    let sent = sent.lock().unwrap().clone();
    assert!(sent[1].1 > SECOND, "{sent:?}");
    assert_eq!(free.available_permits().await.unwrap(), 98, "a permit for each of the last second");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_go_on_after_a_pause_in_the_order_in_which_they_came() {
    let partner = embedded().await.limiter("partner", quota(1, SECOND / 5));
    let sent = Sent::default();
    let answer = upstream(&sent, 1, |number| if number == 1 { SECOND / 5 } else { SECOND / 100 });
    let client = Throttle::new(move |_: &Request<u32>| partner.clone()).layer(answer);
    let send = |number: u32| tokio::spawn(client.clone().oneshot(Request::new(number)));
    let mut calls = Vec::new();
    for number in 0..12 {
        calls.push(send(number));
        // The pause begins between the sixth and the seventh.
        sleep(if number == 6 { SECOND / 2 } else { SECOND / 50 }).await;
    }
    // One that leaves holds up no other.
    calls.remove(3).abort();
    for call in calls {
        timeout(10 * SECOND, call).await.unwrap().unwrap().unwrap();
    }
    let numbers: Vec<u32> = sent.lock().unwrap().iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11]);
}

#[tokio::test]
async fn a_request_that_nobody_polls_any_more_holds_up_no_other() {
    let partner = embedded().await.limiter("partner", quota(100, SECOND));
    let sent = Sent::default();
    let answer = upstream(&sent, 0, |_| Duration::ZERO);
    let client = Throttle::new(move |_: &Request<u32>| partner.clone()).layer(answer);
    client.clone().oneshot(Request::new(0)).await.unwrap();
    let mut held = std::pin::pin!(client.clone().oneshot(Request::new(1)));
    assert!(timeout(SECOND / 20, &mut held).await.is_err(), "the pause holds");
    timeout(2 * SECOND, client.clone().oneshot(Request::new(2))).await.unwrap().unwrap();
    // As behind a stream with a buffer whose consumer is slow.
    let later = async {
        for number in 3..20 {
            client.clone().oneshot(Request::new(number)).await.unwrap();
        }
    };
    timeout(SECOND, later).await.expect("the time after the pause is over");
    held.await.unwrap();
    let numbers: Vec<u32> = sent.lock().unwrap().iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [vec![0], (2..20).collect(), vec![1]].concat());
}
