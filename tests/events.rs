//! What operators read when much happens: the lines that events come to.
#![allow(clippy::disallowed_methods, reason = "real servers live in real time")]

use std::{
    io,
    pin::pin,
    sync::{Arc, Mutex, OnceLock, mpsc},
    task::{self, Poll, Waker},
    thread,
    time::{Duration, Instant},
};

use ratelimit_runtime::{
    Event, Limits, LimitsBuilder, Mode, Quota, Quotas, Reason, Rejection, Settings, rate_limit,
};
use tests::{
    alone::alone, eventually, limits_file::LimitsFile, poll_once, redis_server::RedisServer,
};
use tracing::{
    Dispatch, Subscriber,
    subscriber::{DefaultGuard, NoSubscriber},
};
use tracing_subscriber::{Layer, fmt::format::FmtSpan, layer::Context, layer::SubscriberExt};

const SECOND: Duration = Duration::from_secs(1);
const YAML: &str =
    "prefixes: [{ prefix: user-, rate: 1, per: 1h }]\ndefault: { rate: 1, per: 1h }\n";

/// The lines of a log, and how often what they say happened.
#[derive(Clone, Debug, Default)]
struct Log(Arc<Mutex<Vec<(String, u64)>>>);

impl Log {
    async fn limits(&self, builder: LimitsBuilder) -> Limits {
        let log = self.clone();
        let builder = builder.limits_yaml(YAML).deadline(2 * SECOND).on_event(move |event| {
            let times = if let Event::Repeated { more, .. } = event { *more } else { 1 };
            log.0.lock().unwrap().push((event.to_string(), times));
        });
        builder.build().await.unwrap()
    }

    /// The number of lines with this text, and of what they count.
    fn of(&self, text: &str) -> (usize, u64) {
        let lines = self.0.lock().unwrap();
        let found = lines.iter().filter(|(line, _)| line.contains(text));
        (found.clone().count(), found.map(|(_, times)| times).sum())
    }

    /// Asserts that since then, no more lines have this text than the first one and one for each ten seconds.
    #[track_caller]
    fn assert_quiet(&self, text: &str, start: Instant) {
        let (lines, elapsed) = (self.of(text).0, start.elapsed());
        assert!(lines as u64 <= 2 + elapsed.as_secs() / 10, "{lines} in {elapsed:?}");
    }
}

async fn rejected(limits: &Limits, name: &str) -> Option<Reason> {
    limits.configured(name).try_acquire(1).await.err().map(|rejection| rejection.reason())
}

/// A line says of how many rejections it stands, so they must have its reason.
#[tokio::test(flavor = "multi_thread")]
async fn rejections_are_counted_for_each_reason() {
    let log = Log::default();
    let limits = log.limits(Limits::builder().memory()).await;
    let user = limits.configured("user-0");
    user.acquire(1).await.unwrap();
    for _ in 0..3 {
        let reason = async |permits| user.try_acquire(permits).await.unwrap_err().reason();
        assert_eq!(reason(1).await, Reason::Limited);
        assert_eq!(reason(2).await, Reason::ExceedsCapacity);
    }
    let of = || (log.of("exceeded"), log.of("can never grant"));
    assert_eq!(of(), ((1, 1), (1, 1)), "the first of each is reported at once");
    eventually("the others are counted", 12 * SECOND, || of() == ((2, 3), (2, 3)));
    assert_eq!(limits.report().limiters.iter().map(|one| one.rejected).sum::<u64>(), 6);
}

/// A program that was restarted in an incident lost the last ten seconds of its log.
#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_reports_what_was_counted_since_the_last_line() {
    let log = Log::default();
    let limits = log.limits(Limits::builder().memory()).await;
    for _ in 0..=100 {
        rejected(&limits, "user-0").await;
    }
    assert_eq!(log.of("exceeded"), (1, 1), "the first is reported at once");
    limits.shutdown().await;
    assert_eq!(log.of("exceeded"), (2, 100));
}

/// 5 000 lines of new users, and none of 5 000 rejections.
#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_users_are_a_line_and_a_count() {
    let server = RedisServer::start();
    let log = Log::default();
    let limits = log.limits(Limits::builder().redis(server.url())).await;
    for user in 0..5000 {
        assert_eq!(rejected(&limits, &format!("user-{user}")).await, None);
    }
    let start = Instant::now();
    assert_eq!(log.of("user-"), (0, 0), "new keys are no event");
    assert_eq!(rejected(&limits, "user-0").await, Some(Reason::Limited));
    assert_eq!(log.of("user-"), (1, 1), "the first is reported at once");
    for user in 1..5000 {
        assert_eq!(rejected(&limits, &format!("user-{user}")).await, Some(Reason::Limited));
    }
    eventually("the others are counted", 12 * SECOND, || log.of("user-").1 == 5000);
    log.assert_quiet("user-", start);
    assert_eq!(log.of("user-0").0, 0, "by the template");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn rejections_in_several_threads_are_all_counted() {
    const CALLERS: u64 = 8;
    const CALLS: u64 = 5_000;
    let log = Log::default();
    let limits = log.limits(Limits::builder().memory()).await;
    assert_eq!(rejected(&limits, "user-0").await, None);
    let start = Instant::now();
    let callers = (0..CALLERS).map(|_| {
        let limits = limits.clone();
        tokio::spawn(async move {
            for _ in 0..CALLS {
                assert_eq!(rejected(&limits, "user-0").await, Some(Reason::Limited));
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
    let all = CALLERS * CALLS;
    assert_eq!(limits.report().limiters.iter().map(|one| one.rejected).sum::<u64>(), all);
    eventually("all are reported", 12 * SECOND, || log.of("user-").1 == all);
    log.assert_quiet("user-", start);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_without_a_template_have_a_bounded_number_of_lines() {
    let log = Log::default();
    let limits = log.limits(Limits::builder().memory()).await;
    for name in 0..2000 {
        for _ in 0..2 {
            let _ = rejected(&limits, &format!("name{name}")).await;
        }
    }
    eventually("all are counted", 12 * SECOND, || log.of("a call was rejected").1 == 2000);
    assert!(log.of("a call was rejected").0 <= 102, "{:?}", log.of("a call was rejected"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permission_that_is_lost_is_reported() {
    let server = RedisServer::start();
    let acl = |rules: &[&str]| {
        let mut acl = redis::cmd("ACL");
        acl.arg("SETUSER").arg("app").arg(rules).exec(&mut server.connect().unwrap()).unwrap();
    };
    acl(&["on", ">pass", "~*", "+@all"]);
    let log = Log::default();
    let limits = log.limits(Limits::builder().redis(server.url_for("app", "pass"))).await;
    assert_eq!(rejected(&limits, "user-1").await, None);
    acl(&["-evalsha", "-eval"]);
    for user in 0..100 {
        let reason = rejected(&limits, &format!("user-{user}")).await;
        assert_eq!(reason, Some(Reason::StoreMisconfigured));
    }
    assert_eq!(log.of("cannot be enforced"), (1, 1));
    eventually("the others are counted", 12 * SECOND, || log.of("cannot be enforced") == (2, 100));
}

/// What a subscriber writes.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl io::Write for Written {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Written {
    /// Of this thread until the guard is dropped: a line for each event, and for each span of a decision that ended.
    fn subscribe(&self) -> (DefaultGuard, Dispatch) {
        // While there is only one subscriber, `tracing` disables for all threads what a thread without it reports first.
        let other = Dispatch::new(NoSubscriber::new());
        let written = self.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_span_events(FmtSpan::CLOSE)
            .with_ansi(false)
            .with_writer(move || written.clone());
        (tracing::subscriber::set_default(subscriber.finish()), other)
    }

    fn lines_with(&self, part: &str) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().filter(|line| line.contains(part)).map(str::to_owned).collect()
    }

    fn spans(&self) -> Vec<String> {
        self.lines_with("ratelimit.decision")
    }
}

async fn decisions(limits: &Limits) {
    for user in [1, 2, 3] {
        for _ in 0..2 {
            let _ = limits.configured(&format!("user-{user}")).try_acquire(1).await;
        }
    }
}

#[tokio::test]
async fn one_decision_of_so_many_has_a_span() {
    let server = RedisServer::start();
    let build = |one_in| {
        let builder = Limits::builder().redis(server.url()).limits_yaml(YAML);
        builder.deadline(2 * SECOND).trace_decisions(one_in).build()
    };
    for (one_in, expected) in [(0, 0), (1, 6), (3, 2)] {
        let (written, limits) = (Written::default(), build(one_in).await.unwrap());
        let subscribed = written.subscribe();
        decisions(&limits).await;
        drop(subscribed);
        let spans = written.spans();
        assert_eq!(spans.len(), expected, "one of {one_in}: {spans:?}");
        assert!(spans.iter().all(|span| !span.contains("user-1")), "no values: {spans:?}");
        let all =
            spans.iter().filter(|span| span.contains("permits=1 limiter=\"user-*\" outcome="));
        assert_eq!(all.count(), expected, "{spans:?}");
        let _: () = server.cli(&["FLUSHALL"]);
    }
    let (written, limits) = (Written::default(), build(1).await.unwrap());
    let _subscribed = written.subscribe();
    decisions(&limits).await;
    let spans = written.spans();
    assert!(spans[0].contains("outcome=\"admitted\" degraded=false remaining=0"), "{spans:?}");
    assert!(spans[1].contains("outcome=\"limited\""), "{spans:?}");
}

#[tokio::test]
async fn a_log_can_select_events_by_their_fields() {
    let server = RedisServer::start();
    let written = Written::default();
    let _subscribed = written.subscribe();
    for rate in [9, 1] {
        let limits = Limits::builder().redis(server.url()).no_limits_file().build().await.unwrap();
        limits.limiter("shared", Quota::per_hour(rate)).try_acquire(1).await.unwrap();
        let refused = limits.limiter("shared", Quota::per_hour(rate)).try_acquire(9).await;
        assert!(refused.is_err());
        // The next version is younger by the server's clock.
        tokio::time::sleep(SECOND / 50).await;
    }
    let reset = written.lines_with("usage was reset");
    let fields = "kind=\"reconciled\" limiter=\"shared\" count=1 outcome=\"reset\" old=9 per 1h new=1 per 1h";
    assert!(reset.len() == 1 && reset[0].ends_with(fields), "{reset:?}");
    let rejected = written.lines_with("a call was rejected");
    assert!(rejected[0].contains("INFO"), "{rejected:?}");
    let fields = "kind=\"rejected\" limiter=\"shared\" count=1 reason=\"limited\"";
    assert!(rejected[0].ends_with(fields), "{rejected:?}");
}

/// Two versions with one quota differ all the same if their modes do.
#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_that_differs_in_its_mode_says_so() {
    let server = RedisServer::start();
    let log = Log::default();
    let settings = Settings::new(Quota::per_hour(9));
    for settings in [settings.clone().mode(Mode::PerClient), settings] {
        let limits = log.limits(Limits::builder().redis(server.url())).await;
        limits.limiter("shared", settings).try_acquire(1).await.unwrap();
        // The next version is younger by the server's clock.
        tokio::time::sleep(SECOND / 50).await;
    }
    let change = "usage was reset: 9 per 1h to 9 per 1h, mode per_client to overall";
    assert_eq!(log.of(change), (1, 1), "{log:?}");
}

/// The first panic at an outage ended the search for the server, and the first at a reload the watch of the file.
#[tokio::test(flavor = "multi_thread")]
async fn a_callback_that_panics_ends_nothing_else() {
    let server = RedisServer::start();
    let text = |rate: u64| format!("default: {{ rate: {rate}, per: 1h }}\n");
    let file = LimitsFile::new(&text(1));
    let seen = Log::default();
    let log = seen.clone();
    let limits = Limits::builder().redis(server.url()).limits_file(file.path());
    let limits = limits.watch(Duration::from_millis(20)).on_event(move |event| {
        log.0.lock().unwrap().push((event.to_string(), 1));
        panic!("{event}");
    });
    let limits = limits.build().await.unwrap();
    for rate in 2..4 {
        file.write(&text(rate));
        let reloaded = || seen.of("reloaded").1 >= rate - 1;
        eventually("the file is read", 5 * SECOND, reloaded);
    }
    let limiter = limits.configured("x");
    limiter.acquire(1).await.unwrap();
    server.stop();
    let begun = Instant::now();
    while limits.health().is_ok() {
        assert!(begun.elapsed() < 5 * SECOND, "calls take no reply");
        let limiter = limiter.clone();
        let call = tokio::spawn(async move { limiter.try_acquire(1).await.map(drop) });
        let _ = call.await.expect("the panic is not the caller's");
    }
    server.cont();
    eventually("the server is found again", 6 * SECOND, || limits.health().is_ok());
}

/// Returns the output of a future that waits for nothing.
fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut task::Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}

#[rate_limit(key = "log", rate = 10, per = "1h", wait = "none")]
async fn log() -> Result<(), Rejection> {
    Ok(())
}

/// A log that limits its lines.
struct LimitedLog(mpsc::Sender<Result<(), Rejection>>);

impl<S: Subscriber> Layer<S> for LimitedLog {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() == "ratelimit" {
            let _ = self.0.send(now(log()));
        }
    }
}

/// The limits were created while the event was reported, which waited for them.
#[test]
fn a_log_may_call_rate_limited_functions() {
    alone("a_log_may_call_rate_limited_functions", || {
        let (sender, logged) = mpsc::channel();
        let subscriber = tracing_subscriber::registry().with(LimitedLog(sender));
        tracing::subscriber::set_global_default(subscriber).unwrap();
        thread::spawn(|| now(log()).unwrap());
        logged.recv_timeout(5 * SECOND).unwrap().unwrap();
    });
}

/// The event was reported while the limiter was created, which waited for itself.
#[test]
fn a_callback_may_use_the_limiter_of_its_event() {
    let limits = Arc::new(OnceLock::<Limits>::new());
    let (sender, quotas) = mpsc::channel();
    let known = Arc::clone(&limits);
    let builder = Limits::builder().memory().limits_yaml("limiters: { x: { burst: 9 } }\n");
    let builder = builder.on_event(move |event| {
        if let (Event::NoEffect { limiter, .. }, Some(limits)) = (event, known.get()) {
            sender.send(limits.configured(limiter).quotas()).unwrap();
        }
    });
    limits.set(now(builder.build()).unwrap()).unwrap();
    let quota = Quota::per_second(5);
    thread::spawn(move || limits.get().unwrap().limiter("x", quota));
    assert_eq!(quotas.recv_timeout(5 * SECOND).unwrap(), Some(Quotas::from(quota)));
}

#[test]
fn a_program_without_a_store_learns_where_its_limits_file_is_looked_for() {
    let text = Event::EmbeddedStore.to_string();
    assert!(text.contains("`ratelimit.yaml` in the working directory"), "{text}");
}

/// What handles an event may run in a scope of its own, such as the code of a tenant.
#[tokio::test]
async fn an_event_is_handled_in_any_scope() {
    #[rate_limit(key = "handled", rate = 1, per = "1h", wait = "none")]
    async fn once() -> Result<(), Rejection> {
        Ok(())
    }
    let others = Limits::builder().memory().build().await.unwrap();
    let handled = Arc::new(Mutex::new(0));
    let count = Arc::clone(&handled);
    let handle = move |_: &Event| {
        let call = others.scope(async { once().await });
        if poll_once(pin!(call)).is_some_and(|called| called.is_ok()) {
            *count.lock().unwrap() += 1;
        }
    };
    let limits = Limits::builder().memory().on_event(handle).build().await.unwrap();
    limits.scope(once()).await.unwrap();
    limits.scope(once()).await.unwrap_err();
    assert_eq!(*handled.lock().unwrap(), 1);
}
