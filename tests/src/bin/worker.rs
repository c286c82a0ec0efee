//! One process that calls a limiter as fast as it can, for tests that need several.
//!
//! `worker URL KEY RATE PER_MS reset|carry CALLERS RUN_MS`: prints `event NAME` as things happen
//! and, when its time is over or its input ends, `admitted MS` for each grant by the server's
//! clock.
#![allow(clippy::print_stdout, reason = "its output is what it is for")]

use std::{env, io::Read, time::Duration};

use ratelimit_runtime::{Event, Limits};
use tests::place::at;
use tokio::{sync::watch, task::JoinSet};

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [url, key, rate, per_ms, on_drift, callers, run_ms] = &arguments[..] else {
        panic!("worker URL KEY RATE PER_MS reset|carry CALLERS RUN_MS");
    };
    let yaml = format!(
        "limiters:\n  {key}: {{ rate: {rate}, per: {per_ms}ms, on_drift: {on_drift}, on_store_error: reject }}\n"
    );
    let limits = Limits::builder()
        .redis(url)
        .limits_yaml(yaml)
        .deadline(Duration::from_secs(1))
        .on_event(|event| {
            if let Event::Reconciled { outcome, .. } = event {
                println!("event {outcome:?}");
            }
        })
        .build()
        .await
        .unwrap();
    let (ended, mut tasks) = (watch::Sender::new(false), JoinSet::new());
    for _ in 0..callers.parse().unwrap() {
        let (limiter, ended) = (limits.configured(key), ended.subscribe());
        tasks.spawn(async move {
            let mut admitted = Vec::new();
            while !*ended.borrow() {
                match limiter.try_acquire(1).await {
                    Ok(permit) if !permit.is_degraded() => admitted.push(at(&permit)),
                    _ => tokio::time::sleep(Duration::from_millis(2)).await,
                }
            }
            admitted
        });
    }
    let input = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    tokio::select! {
        () = tokio::time::sleep(Duration::from_millis(run_ms.parse().unwrap())) => {}
        _ = input => {}
    }
    // A grant to a call in progress counts too.
    ended.send_replace(true);
    for at in tasks.join_all().await.iter().flatten() {
        println!("admitted {at}");
    }
    std::process::exit(0);
}
