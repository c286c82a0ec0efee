//! One limit for several processes: each calls as fast as it can, and together they keep to it.
//!
//!     REDIS_URL=redis://127.0.0.1/ cargo run -p examples --example two_processes
//!     REDIS_URL=redis://127.0.0.1/ cargo run -p examples --example two_processes 2 5
//!
//! The arguments are the number of processes and the seconds they run for (4 and 20 by default).

use std::{
    env,
    error::Error,
    io::{self, BufRead, BufReader},
    iter,
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, UNIX_EPOCH},
};

use ratelimit_runtime::{Limits, Quota, Reason};

const RATE: u32 = 50;
const PER: Duration = Duration::from_secs(1);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // They share a few cores with Redis here, so that its answers may take their time.
    let limits = Limits::builder().deadline(5 * PER).install().await?;
    if limits.report().store == "memory" {
        println!("without Redis each process has a limit of its own; start one, say with");
        println!("`docker run -p 6379:6379 redis`, and set REDIS_URL=redis://127.0.0.1/");
        return Ok(());
    }
    // Without their server, processes count on their own.
    limits.health().store?;
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (processes, seconds) = match &arguments[..] {
        [worker] if worker == "worker" => return work(&limits).await,
        [] => (4, 20),
        [processes, seconds] => (processes.parse().unwrap_or(0), seconds.parse().unwrap_or(0)),
        _ => (0, 0),
    };
    if processes == 0 || seconds == 0 {
        return Err("usage: two_processes [PROCESSES SECONDS], each at least 1".into());
    }
    // This process takes no permits, so it must not count as one of those that share the limit.
    limits.shutdown().await;
    compare(processes, seconds)
}

/// One of the processes: prints when each call was admitted, by the clock of Redis.
async fn work(limits: &Limits) -> Result<(), Box<dyn Error>> {
    let limiter = limits.limiter("two_processes", Quota::new(RATE.into(), PER)?);
    // The parent closes our input when the time is over.
    let over = thread::spawn(|| io::read_to_string(io::stdin()));
    while !over.is_finished() {
        match limiter.try_acquire(1).await {
            Ok(decision) => println!("{}", decision.at().duration_since(UNIX_EPOCH)?.as_millis()),
            Err(rejection) if rejection.reason() == Reason::Limited => {}
            Err(rejection) => return Err(rejection.into()),
        }
    }
    Ok(())
}

/// The parent: starts the processes, and counts their admitted calls.
fn compare(processes: usize, seconds: u32) -> Result<(), Box<dyn Error>> {
    println!("{processes} processes call one limit of {RATE} per second for {seconds} s");
    let (to_parent, calls) = mpsc::channel();
    let mut workers = Vec::new();
    for process in 0..processes {
        let mut command = Command::new(env::current_exe()?);
        command.arg("worker").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut worker = command.spawn()?;
        let output = BufReader::new(worker.stdout.take().expect("a pipe"));
        let to_parent = to_parent.clone();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = to_parent.send((line, process));
            }
        });
        workers.push(worker);
    }
    drop(to_parent);
    // The time begins with the first admitted call, however long the processes take to start.
    let first = calls.recv().map_err(|_| "nothing was admitted")?;
    thread::sleep(PER * seconds);
    for worker in &mut workers {
        drop(worker.stdin.take());
    }

    let mut admitted: Vec<(u64, usize)> = Vec::new();
    for (line, process) in iter::once(first).chain(calls) {
        admitted.push((line.parse()?, process));
    }
    for (process, mut worker) in workers.into_iter().enumerate() {
        let status = worker.wait()?;
        if !status.success() {
            return Err(format!("process {process} ended with {status}").into());
        }
    }
    admitted.sort_unstable();
    let start = admitted[0].0;
    admitted.retain(|call| call.0 < start + u64::from(seconds) * 1000);
    print_seconds(&admitted, processes);

    let mean = f64::from(u32::try_from(admitted.len())?) / f64::from(seconds);
    println!("at most {} in any second, {mean:.2} per second on average", worst_second(&admitted));
    Ok(())
}

/// What was admitted in each second since the first call, together and by each process.
fn print_seconds(admitted: &[(u64, usize)], processes: usize) {
    let second = |call: &(u64, usize)| 1 + (call.0 - admitted[0].0) / 1000;
    for calls in admitted.chunk_by(|a, b| second(a) == second(b)) {
        let of = |process| calls.iter().filter(|call| call.1 == process).count();
        let each: Vec<_> = (0..processes).map(|process| of(process).to_string()).collect();
        println!("second {:>2}: {:>2} = {}", second(&calls[0]), calls.len(), each.join(" + "));
    }
}

/// The most calls in any one second, wherever it begins. It holds its first millisecond and not the
/// one a second later, in which the first permit is free again.
fn worst_second(admitted: &[(u64, usize)]) -> usize {
    let from = |n: usize| admitted[n..].partition_point(|call| call.0 < admitted[n].0 + 1000);
    (0..admitted.len()).map(from).max().unwrap_or(0)
}
