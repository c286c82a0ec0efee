//! A background worker: jobs wait for their permits, however long that takes, or for a while and are put back then.
//!
//!     cargo run -p examples --example worker
//!     REDIS_URL=redis://127.0.0.1/ cargo run -p examples --example worker 50
//!
//! The argument is the number of mails (10 by default). With Redis all workers share the limits, which are in
//! `worker.yaml`.

use std::{
    collections::VecDeque,
    env,
    error::Error,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use ratelimit_runtime::{Limits, Rejection, rate_limit};
use tokio::{task::JoinSet, time::sleep};

const LIMITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/worker.yaml");

enum Job {
    Mail(u32),
    Export(u32),
}

/// The mail server takes five mails a second, evenly spaced. A call that waits forever cannot be rejected, so the
/// function may return any type.
#[rate_limit(key = "mail", rate = 5, per = "1s", algorithm = "leaky_bucket")]
async fn send_mail(number: u32) -> String {
    format!("mail {number} sent")
}

/// An export that cannot begin within a second is put back, so it keeps no mail waiting.
#[rate_limit(key = "exports", rate = 1, per = "1s", wait = "1s")]
async fn export(customer: u32) -> Result<String, Rejection> {
    Ok(format!("customer {customer} exported"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    Limits::builder().limits_file(LIMITS).deadline(Duration::from_secs(5)).install().await?;
    let mails = env::args().nth(1).map_or(Ok(10), |mails| mails.parse());
    let mails = mails.map_err(|_| "usage: worker [MAILS]")?;
    let exports = (1..=3).map(Job::Export);
    let jobs: VecDeque<Job> = exports.chain((1..=mails).map(Job::Mail)).collect();
    let (jobs, started) = (Arc::new(Mutex::new(jobs)), Instant::now());

    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        tasks.spawn(work(Arc::clone(&jobs), started));
    }
    tasks.join_all().await;
    Ok(())
}

async fn work(jobs: Arc<Mutex<VecDeque<Job>>>, started: Instant) {
    let next = || jobs.lock().expect("no task panics").pop_front();
    let say = |what: &str| println!("{:6.2} s: {what}", started.elapsed().as_secs_f32());
    while let Some(job) = next() {
        match job {
            Job::Mail(number) => say(&send_mail(number).await),
            Job::Export(customer) => match export(customer).await {
                Ok(done) => say(&done),
                Err(rejection) => {
                    say(&format!("customer {customer} later: {rejection}"));
                    // Without a pause, this is a busy loop if no other job is left.
                    sleep(Duration::from_millis(100)).await;
                    jobs.lock().expect("no task panics").push_back(Job::Export(customer));
                }
            },
        }
    }
}
