use std::time::{Duration, Instant};

use redis::{Connection, RedisResult};
use tests::{
    eventually,
    proxy::{Proxy, Then},
    redis_server::RedisServer,
};

const SHORT: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_secs(5);

fn pair() -> (RedisServer, Proxy) {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    (server, proxy)
}

fn connect(proxy: &Proxy) -> RedisResult<Connection> {
    let connection = redis::Client::open(proxy.url())?.get_connection_with_timeout(LONG)?;
    connection.set_read_timeout(Some(LONG))?;
    Ok(connection)
}

fn increment(connection: &mut Connection) -> RedisResult<u64> {
    redis::cmd("INCR").arg("n").query(connection)
}

fn incremented(server: &RedisServer, to: u64) {
    let so_far = || server.cli::<Option<u64>>(&["get", "n"]).unwrap_or(0);
    eventually("the command arrived", LONG, || so_far() == to);
}

#[test]
fn commands_pass_and_are_counted() {
    let (_server, proxy) = pair();
    let mut connection = connect(&proxy).expect("a connection");
    proxy.reset_traffic();
    for n in 1..=3 {
        assert_eq!(increment(&mut connection), Ok(n));
    }
    let large = "x".repeat(1 << 20);
    redis::cmd("set").arg("large").arg(&large).exec(&mut connection).expect("an answer");
    let got: String = redis::cmd("get").arg("large").query(&mut connection).expect("an answer");
    assert!(got == large);
    let traffic = proxy.traffic();
    assert_eq!((traffic.count("INCR"), traffic.count("SET"), traffic.total()), (3, 1, 5));
    assert_eq!(traffic.connections, 0);
    assert!(traffic.bytes_to_server > 1 << 20 && traffic.bytes_to_clients > 1 << 20);
    assert_eq!(proxy.open_connections(), 1);
}

#[test]
fn a_cut_closes_and_refuses_until_restored() {
    let (_server, proxy) = pair();
    let mut connection = connect(&proxy).expect("a connection");
    proxy.cut();
    assert!(increment(&mut connection).expect_err("closed").is_connection_dropped());
    assert!(connect(&proxy).err().expect("refused").is_connection_refusal());
    proxy.restore();
    assert_eq!(increment(&mut connect(&proxy).expect("a connection")), Ok(1));
}

#[test]
fn dropped_connections_can_be_replaced_at_once() {
    let (_server, proxy) = pair();
    let mut connection = connect(&proxy).expect("a connection");
    proxy.drop_connections();
    assert!(increment(&mut connection).is_err());
    assert_eq!(increment(&mut connect(&proxy).expect("a connection")), Ok(1));
}

#[test]
fn a_blackhole_holds_back_and_delivers_later() {
    let (server, proxy) = pair();
    let mut connection = connect(&proxy).expect("a connection");
    connection.set_read_timeout(Some(SHORT)).expect("a timeout");
    proxy.blackhole();
    let error = increment(&mut connection).expect_err("no answer");
    assert!(error.is_timeout(), "{error}");
    assert!(std::net::TcpStream::connect(proxy.address()).is_ok());
    assert_eq!(server.cli::<Option<u64>>(&["get", "n"]), None);
    proxy.restore();
    incremented(&server, 1);
}

#[test]
fn with_replies_held_back_commands_arrive() {
    let (server, proxy) = pair();
    let mut connection = connect(&proxy).expect("a connection");
    connection.set_read_timeout(Some(SHORT)).expect("a timeout");
    proxy.blackhole_replies();
    assert!(increment(&mut connection).expect_err("no answer").is_timeout());
    incremented(&server, 1);
}

#[test]
fn a_delay_is_one_of_replies() {
    let (_server, proxy) = pair();
    let mut connection = connect(&proxy).expect("a connection");
    let delay = Duration::from_millis(40);
    proxy.delay(delay);
    let start = Instant::now();
    // A hundred at once are late once: the delay is a distance, not a narrow pipe.
    let mut pipe = redis::pipe();
    for _ in 0..100 {
        pipe.cmd("ping");
    }
    pipe.exec(&mut connection).expect("answers");
    let elapsed = start.elapsed();
    assert!((delay..100 * delay).contains(&elapsed), "{elapsed:?}");

    proxy.delay(Duration::ZERO);
    let start = Instant::now();
    for _ in 0..100 {
        increment(&mut connection).expect("an answer");
    }
    assert!(start.elapsed() < 100 * delay);
}

#[test]
fn a_swallowed_reply_closes_the_connection_after_the_deed() {
    let (server, proxy) = pair();
    let mut connection = connect(&proxy).expect("a connection");
    proxy.swallow_replies_to("INCR", 1, Then::Cut);
    redis::cmd("PING").exec(&mut connection).expect("not meant");
    assert!(increment(&mut connection).expect_err("swallowed").is_connection_dropped());
    incremented(&server, 1);
    assert_eq!(proxy.traffic().swallowed, 1);
    assert_eq!(increment(&mut connect(&proxy).expect("a connection")), Ok(2));
}

#[test]
fn a_swallowed_reply_can_leave_a_silent_connection() {
    let (server, proxy) = pair();
    let mut connection = connect(&proxy).expect("a connection");
    connection.set_read_timeout(Some(SHORT)).expect("a timeout");
    proxy.swallow_replies(1, Then::Hang);
    for n in 1..=2 {
        assert!(increment(&mut connection).is_err());
        incremented(&server, n);
    }
    assert_eq!(increment(&mut connect(&proxy).expect("a connection")), Ok(3));
}

#[test]
fn a_replica_follows_through_a_proxy() {
    let (server, proxy) = pair();
    let of = format!("127.0.0.1 {}", proxy.port());
    let replica = RedisServer::builder().config("replicaof", &of).start();
    eventually("the replica is in sync", LONG, || replica.info("master_link_status") == "up");
    server.cli::<()>(&["set", "key", "value"]);
    let copied = || replica.cli::<Option<String>>(&["get", "key"]).is_some();
    eventually("the value is replicated", LONG, copied);
    let refused = replica.try_cli::<()>(&["set", "key", "other"]);
    assert_eq!(crate::code(refused).as_deref(), Some("READONLY"));
}

#[tokio::test]
async fn a_proxy_may_be_dropped_in_async_code() {
    let (_server, proxy) = pair();
    let client = redis::Client::open(proxy.url()).expect("an address");
    let mut connection = client.get_multiplexed_async_connection().await.expect("a connection");
    redis::cmd("PING").query_async::<()>(&mut connection).await.expect("an answer");
    drop(proxy);
    assert!(redis::cmd("PING").query_async::<()>(&mut connection).await.is_err());
}

#[test]
fn a_repeated_script_runs_twice_and_answers_once() {
    let (server, proxy) = pair();
    let mut connection = connect(&proxy).expect("a connection");
    proxy.repeat_scripts(2);
    let mut run = |script: &str| -> u64 {
        redis::cmd("EVAL").arg(script).arg(0).query(&mut connection).expect("an answer")
    };
    let script = "return redis.call('INCR', 'n')";
    // The second and the fourth are sent twice.
    assert_eq!([run(script), run(script), run(script), run(script)], [1, 3, 4, 6]);
    proxy.repeat_scripts(0);
    assert_eq!(run(script), 7);
    assert_eq!(server.cli::<u64>(&["get", "n"]), 7);
    assert_eq!(proxy.traffic().repeated, 2);
}
