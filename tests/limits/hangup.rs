//! `SIGHUP` at any moment of a program's life.

use std::{
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use ratelimit_runtime::{Event, Limits};
use rustix::process::{Signal, getpid, kill_process};
use tests::{alone::alone, limits_file::LimitsFile};
use tokio::{runtime::Runtime, time::sleep};

fn yaml(rate: u32) -> String {
    format!("limiters:\n  seen: {{ rate: {rate}, per: 1h }}\n")
}

fn hang_up() {
    kill_process(getpid(), Signal::HUP).unwrap();
}

async fn becomes(limits: &Limits, wanted: u64) {
    let rate = || limits.configured("seen").quotas().map(|quotas| quotas[0].rate());
    let start = Instant::now();
    while rate() != Some(wanted) {
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}, not {wanted}", rate());
        sleep(Duration::from_millis(10)).await;
    }
}

#[test]
fn one_during_the_setup_is_neither_fatal_nor_missed() {
    alone("hangup::one_during_the_setup_is_neither_fatal_nor_missed", || {
        let file = LimitsFile::new(&yaml(2));
        // A store that accepts connections and never replies, so that the setup takes as long as the deadline.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let store = format!("redis://{}", silent.local_addr().unwrap());
        Runtime::new().unwrap().block_on(async {
            let builder = Limits::builder().redis(store).deadline(Duration::from_secs(2));
            let builder = builder.limits_file(file.path()).reload_on_hangup();
            let setup = tokio::spawn(builder.build());
            sleep(Duration::from_millis(300)).await;
            file.write(&yaml(3));
            hang_up();
            assert!(!setup.is_finished(), "it was too early");
            becomes(&setup.await.unwrap().unwrap(), 3).await;
        });
    });
}

#[test]
fn the_file_as_of_the_last_one_is_in_force() {
    alone("hangup::the_file_as_of_the_last_one_is_in_force", || {
        let file = LimitsFile::new(&yaml(1));
        let failed = Arc::<AtomicU32>::default();
        let count = Arc::clone(&failed);
        Runtime::new().unwrap().block_on(async {
            let builder = Limits::builder().memory().limits_file(file.path()).reload_on_hangup();
            let builder = builder.watch(Duration::from_millis(1)).on_event(move |event| {
                let is_failure = matches!(event, Event::ReloadFailed { .. });
                count.fetch_add(u32::from(is_failure), Ordering::Relaxed);
            });
            let limits = builder.build().await.unwrap();
            for rate in 2..50 {
                file.write(&yaml(rate));
                (0..20).for_each(|_| hang_up());
            }
            becomes(&limits, 49).await;
            let before = failed.load(Ordering::Relaxed);
            file.write("limiters: 5\n");
            hang_up();
            let start = Instant::now();
            while failed.load(Ordering::Relaxed) == before {
                assert!(start.elapsed() < Duration::from_secs(20), "a bad file is not reported");
                sleep(Duration::from_millis(10)).await;
            }
            becomes(&limits, 49).await;
        });
        // Its own thread reloads after the end of the runtime, too.
        let limits = Runtime::new().unwrap().block_on(async {
            file.write(&yaml(1));
            let builder = Limits::builder().memory().limits_file(file.path()).reload_on_hangup();
            builder.build().await.unwrap()
        });
        file.write(&yaml(7));
        hang_up();
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(becomes(&limits, 7));
    });
}
