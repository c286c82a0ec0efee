//! Many requests at the same time, and what is to be said of their answers.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use http_body_util::{BodyExt, Empty};
use hyper::{Method, Request, StatusCode, Version, body::Bytes, header::RETRY_AFTER};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};

const CONNECTIONS: u64 = 8;
/// Between the rounds of a connection: all of them ask for many times what is admitted, and leave the shop the processor.
const PAUSE: Duration = Duration::from_millis(20);
/// Users of each phase, who have not been seen before it.
pub(crate) const USERS: u64 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Quote,
    Payment,
    Order { user: u64 },
}

#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) route: Route,
    /// The phase it was asked for in.
    pub(crate) phase: u64,
    pub(crate) status: StatusCode,
    pub(crate) retry_after: Option<u64>,
    sent: Instant,
    received: Instant,
}

/// A client of the shop.
#[derive(Clone)]
pub(crate) struct Shopper {
    client: Client<HttpConnector, Empty<Bytes>>,
    version: Version,
    url: String,
}

impl Shopper {
    pub(crate) fn new(url: &str) -> Self {
        let client = Client::builder(TokioExecutor::new()).build_http();
        Self { client, version: Version::HTTP_11, url: url.to_owned() }
    }

    /// One that speaks HTTP/2 from the first byte, all requests over one connection.
    pub(crate) fn over_http2(url: &str) -> Self {
        let client = Client::builder(TokioExecutor::new()).http2_only(true).build_http();
        Self { client, version: Version::HTTP_2, url: url.to_owned() }
    }

    /// Asks once. That there is no answer is a failure, whatever happens behind the shop.
    pub(crate) async fn ask(&self, route: Route, phase: u64) -> Answer {
        let (method, path) = match route {
            Route::Quote => (Method::GET, "/quote".to_owned()),
            Route::Payment => (Method::POST, "/payments".to_owned()),
            Route::Order { user } => (Method::POST, format!("/orders/{user}")),
        };
        let request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        let request = request.body(Empty::new()).unwrap();
        let sent = Instant::now();
        let response = self.client.request(request).await.unwrap();
        let received = Instant::now();
        assert_eq!(response.version(), self.version, "{route:?}");
        let (head, body) = response.into_parts();
        // A connection is free for the next request once the body is read.
        body.collect().await.unwrap();
        let retry_after = head.headers.get(RETRY_AFTER);
        let retry_after = retry_after.map(|value| value.to_str().unwrap().parse().unwrap());
        Answer { route, phase, status: head.status, retry_after, sent, received }
    }
}

/// Requests of all routes over several connections, until it is finished.
pub(crate) struct Load {
    phase: Arc<AtomicU64>,
    /// The phase of each connection's round.
    rounds: Vec<Arc<AtomicU64>>,
    over: Arc<AtomicBool>,
    answers: Arc<Mutex<Vec<Answer>>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Load {
    pub(crate) fn start(shopper: &Shopper) -> Self {
        let (phase, over) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let answers = Arc::<Mutex<Vec<_>>>::default();
        let rounds: Vec<_> = (0..CONNECTIONS).map(|_| Arc::<AtomicU64>::default()).collect();
        let tasks = (0..CONNECTIONS).zip(rounds.clone()).map(|(n, round)| {
            let (shopper, phase, over) = (shopper.clone(), phase.clone(), over.clone());
            let answers = answers.clone();
            tokio::spawn(async move {
                while !over.load(Ordering::SeqCst) {
                    let phase = phase.load(Ordering::SeqCst);
                    round.store(phase, Ordering::SeqCst);
                    let user = phase * USERS + n % USERS;
                    for route in [Route::Quote, Route::Payment, Route::Order { user }] {
                        let answer = shopper.ask(route, phase).await;
                        answers.lock().unwrap().push(answer);
                    }
                    sleep(PAUSE).await;
                }
            })
        });
        Self { tasks: tasks.collect(), phase, rounds, over, answers }
    }

    /// What is asked from now on is of this phase; all of the last one is answered.
    pub(crate) async fn enter(&self, phase: u64) {
        self.phase.store(phase, Ordering::SeqCst);
        while self.rounds.iter().any(|round| round.load(Ordering::SeqCst) < phase) {
            sleep(PAUSE).await;
        }
    }

    /// Goes on until these routes were refused two windows after this phase began, or later on a busy machine.
    pub(crate) async fn fill_windows(&self, routes: &[Route], per: Duration) {
        let phase = self.phase.load(Ordering::SeqCst);
        let is_filled = |route: &Route| {
            let answers = self.answers.lock().unwrap();
            let answers: Vec<_> = answers.iter().filter(|answer| answer.phase == phase).collect();
            refused_later(&answers, *route, 2 * per).next().is_some()
        };
        let filled = async {
            while !routes.iter().all(is_filled) {
                sleep(PAUSE).await;
            }
        };
        let patience = Duration::from_secs(60);
        timeout(patience, filled).await.expect("more is asked for than is admitted");
    }

    pub(crate) async fn finish(self) -> Vec<Answer> {
        self.over.store(true, Ordering::SeqCst);
        for task in self.tasks {
            task.await.unwrap();
        }
        std::mem::take(&mut self.answers.lock().unwrap())
    }
}

/// How many answers the fullest window holds that were certainly decided in it, asked for and given within it.
pub(crate) fn fullest_window(answers: &[&Answer], per: Duration) -> usize {
    // Limits count in whole milliseconds.
    let surely = per - Duration::from_millis(2);
    let within = |first: &&Answer| {
        let is_inside =
            |one: &&&Answer| one.sent >= first.sent && one.received < first.sent + surely;
        answers.iter().filter(is_inside).count()
    };
    answers.iter().map(within).max().unwrap_or(0)
}

/// The refusals of a route that were asked for more than this after the first one of these answers was.
pub(crate) fn refused_later<'a>(
    answers: &[&'a Answer],
    route: Route,
    than: Duration,
) -> impl Iterator<Item = &'a Answer> {
    let first = answers.iter().map(|answer| answer.sent).min();
    answers.iter().copied().filter(move |answer| {
        let is_later = first.is_some_and(|first| answer.sent > first + than);
        answer.route == route && answer.status == StatusCode::TOO_MANY_REQUESTS && is_later
    })
}

/// How many answers may have been decided in the window that ended with this refusal.
pub(crate) fn window_before(refused: &Answer, answers: &[&Answer], per: Duration) -> usize {
    let is_inside =
        |one: &&&Answer| one.received + per >= refused.sent && one.sent < refused.received;
    answers.iter().filter(is_inside).count()
}
