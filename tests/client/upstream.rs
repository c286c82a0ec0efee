//! A partner's server.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use axum::{Router, extract::State, response::Response};
use tokio::net::TcpListener;

/// A server that notes when requests arrive, and answers them one after the other by these answers; by an
/// empty 200 when there are no more.
pub(crate) struct Upstream {
    pub(crate) url: String,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    arrivals: Mutex<Vec<Instant>>,
    answers: Mutex<Vec<Response<String>>>,
}

impl Upstream {
    pub(crate) async fn start(answers: impl IntoIterator<Item = Response<String>>) -> Self {
        let seen = Arc::<Seen>::default();
        seen.answers.lock().unwrap().extend(answers);
        seen.answers.lock().unwrap().reverse();
        let app = Router::new().fallback(answer).with_state(Arc::clone(&seen));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { url, seen }
    }

    /// When requests arrived, the first one first.
    pub(crate) fn arrivals(&self) -> Vec<Instant> {
        self.seen.arrivals.lock().unwrap().clone()
    }

    /// The most requests that arrived within any window of this length.
    pub(crate) fn worst_window(&self, per: Duration) -> usize {
        let arrivals = self.arrivals();
        let from = |n: usize| arrivals[n..].partition_point(|at| *at < arrivals[n] + per);
        (0..arrivals.len()).map(from).max().unwrap_or(0)
    }
}

async fn answer(State(seen): State<Arc<Seen>>) -> Response<String> {
    seen.arrivals.lock().unwrap().push(Instant::now());
    seen.answers.lock().unwrap().pop().unwrap_or_default()
}
