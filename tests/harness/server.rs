use std::{
    io::{Read, Write},
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

use tests::{
    eventually,
    monitor::{Monitor, monitor},
    redis_server::RedisServer,
    server_version,
};

use crate::code;

#[test]
fn a_server_answers_and_keeps_its_port_and_nothing_else() {
    let server = RedisServer::start();
    server.cli::<()>(&["set", "key", "value"]);
    let (port, pid) = (server.port(), server.pid());
    server.restart();
    assert_eq!((server.port(), server.cli::<u64>(&["dbsize"])), (port, 0));
    assert_ne!(server.pid(), pid);
}

#[test]
fn appended_data_outlives_a_kill() {
    let server = RedisServer::builder().appendonly().start();
    server.cli::<()>(&["set", "key", "value"]);
    server.restart_with_data();
    assert_eq!(server.cli::<String>(&["get", "key"]), "value");
    server.restart();
    assert_eq!(server.cli::<u64>(&["dbsize"]), 0);
}

#[test]
fn a_killed_server_refuses_and_comes_back() {
    let server = RedisServer::start();
    server.kill_hard();
    assert!(!server.is_running());
    let error = TcpStream::connect(server.address()).expect_err("nobody listens");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
    server.restart();
    assert!(server.is_running());
}

#[test]
fn a_stopped_server_accepts_and_says_nothing_until_it_goes_on() {
    let server = RedisServer::start();
    server.stop();
    let mut stream = TcpStream::connect(server.address()).expect("the kernel accepts");
    stream.write_all(b"PING\r\n").expect("the kernel takes it");
    stream.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
    let mut answer = [0; 7];
    assert!(stream.read_exact(&mut answer).is_err());
    server.cont();
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"+PONG\r\n");
}

#[test]
fn shutting_down_saves_what_is_to_be_saved() {
    let server = RedisServer::builder().config("save", "3600 1").start();
    server.cli::<()>(&["set", "key", "value"]);
    server.shut_down();
    assert!(!server.is_running());
    server.restart_with_data();
    assert_eq!(server.cli::<String>(&["get", "key"]), "value");
}

#[test]
fn a_loading_server_says_so() {
    let server = RedisServer::builder()
        .config("key-load-delay", "1000")
        .config("rdbcompression", "no")
        .start();
    server.cli::<()>(&["debug", "populate", "1000", "key", "16384"]);
    server.cli::<()>(&["save"]);
    server.restart_loading();
    assert_eq!(code(server.try_cli::<u64>(&["dbsize"])).as_deref(), Some("LOADING"));
    eventually("the data is loaded", Duration::from_secs(10), || {
        server.try_cli::<u64>(&["dbsize"]).is_ok_and(|size| size == 1000)
    });
}

#[test]
fn bgsave_fails_without_a_data_directory() {
    let server = RedisServer::builder().config("save", "3600 100000").start();
    std::fs::remove_dir_all(server.data_dir()).expect("a directory");
    server.cli::<()>(&["bgsave"]);
    eventually("the save has failed", Duration::from_secs(10), || {
        server.info("rdb_last_bgsave_status") == "err"
    });
    let set = server.try_cli::<()>(&["set", "key", "value"]);
    assert_eq!(code(set).as_deref(), Some("MISCONF"));
}

#[test]
fn passwords_and_users_are_demanded() {
    let rules = "on >letmein ~shop:* +@all -flushall";
    let server = RedisServer::builder().password("secret").user("app", rules).start();
    assert_eq!(server.cli::<String>(&["ping"]), "PONG");
    assert_eq!(server.url(), format!("redis://:secret@{}/0", server.address()));

    let try_url = |url: String, command: &str| {
        let client = redis::Client::open(url).expect("an address");
        let mut connection = client.get_connection()?;
        redis::cmd(command).query::<redis::Value>(&mut connection)
    };
    assert!(try_url(server.url(), "dbsize").is_ok());
    let stranger = format!("redis://{}/0", server.address());
    assert_eq!(code(try_url(stranger, "dbsize")).as_deref(), Some("NOAUTH"));
    let app = server.url_for("app", "letmein");
    assert_eq!(code(try_url(app, "flushall")).as_deref(), Some("NOPERM"));
    assert!(try_url(server.url_for("app", "wrong"), "dbsize").is_err());
}

#[test]
fn commands_can_be_taken_away_and_clients_be_limited() {
    let server = RedisServer::builder()
        .config("rename-command", "EVAL \"\"")
        .config("maxclients", "2")
        .start();
    let refused = server.try_cli::<()>(&["eval", "return 1", "0"]).expect_err("taken away");
    assert!(refused.to_string().contains("unknown command"), "{refused}");
    let held: Vec<_> = (0..2).map(|_| server.connect().expect("a place")).collect();
    assert!(server.try_cli::<()>(&["ping"]).is_err());
    drop(held);
    eventually("there is room again", Duration::from_secs(5), || {
        server.try_cli::<()>(&["ping"]).is_ok()
    });
}

#[test]
fn a_setting_that_does_not_exist_is_reported_with_the_log() {
    let problem = RedisServer::builder().config("no-such-setting", "1").try_start();
    assert!(problem.expect_err("no such setting").contains("no-such-setting"));
}

#[test]
fn a_port_another_server_won_is_left_to_it() {
    let first = RedisServer::start();
    let second = RedisServer::builder().config("port", &first.port().to_string()).try_start();
    assert!(second.expect_err("a taken port").contains("Address already in use"));
}

#[test]
fn servers_started_at_once_do_not_collide() {
    let start = || thread::spawn(RedisServer::start);
    let started = Instant::now();
    let threads: Vec<_> = (0..8).map(|_| start()).collect();
    let servers: Vec<_> =
        threads.into_iter().map(|thread| thread.join().expect("a server")).collect();
    eprintln!("8 servers at once: {:?}", started.elapsed());
    let mut ports: Vec<_> = servers.iter().map(RedisServer::port).collect();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), servers.len());
    assert!(ports.iter().all(|port| *port < 55_535));
}

#[test]
fn the_monitor_sees_commands_and_what_scripts_do() {
    let server = RedisServer::builder().password("secret").start();
    // No quotes: Valkey 8.1 prints those of values as they are.
    let seen = monitor(&server, || {
        server.cli::<()>(&["eval", "return redis.call('set', KEYS[1], 'a é')", "1", "k"]);
    });
    let [_auth, script, set] = &seen[..] else { panic!("{seen:?}") };
    assert_eq!(script.command(), "EVAL");
    assert!(!script.is_from_script() && set.is_from_script());
    assert_eq!(set.args, ["set", "k", "a é"]);
}

#[tokio::test]
async fn the_monitor_works_around_async_code() {
    let server = RedisServer::start();
    let client = redis::Client::open(server.url()).expect("an address");
    let mut connection = client.get_multiplexed_async_connection().await.expect("a connection");
    let monitor = Monitor::start(&server);
    redis::cmd("PING").query_async::<()>(&mut connection).await.expect("an answer");
    let commands: Vec<_> = monitor.finish().iter().map(|entry| entry.command()).collect();
    assert_eq!(commands, ["PING"]);
}

#[test]
fn the_version_is_the_one_that_runs() {
    let (major, minor, patch) = server_version();
    let version = RedisServer::start().info("redis_version");
    assert!(version.starts_with(&format!("{major}.{minor}.{patch}")) || major >= 8, "{version}");
}
