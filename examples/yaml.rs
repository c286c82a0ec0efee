//! Limits changed by a file at startup, without a rebuild.
//!
//!     cargo run -p examples --example yaml
//!     REDIS_URL=redis://127.0.0.1/ cargo run -p examples --example yaml
//!
//! The file is `fast.yaml`. A file named `ratelimit.yaml` is found without being named: at startup in the
//! working directory, and at compile time in the package's folder or above it, up to `Cargo.lock`. At
//! compile time it must declare every annotated key.

use std::time::Instant;

use ratelimit_runtime::{Limits, Rejection, SetupError, rate_limit};

const FAST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fast.yaml");
const TYPO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/typo.yaml");

#[rate_limit(key = "quote", rate = 2, per = "1s")]
async fn quote() {}

#[rate_limit(key = "exports:{user_id}", rate = 1, per = "1s", wait = "none")]
async fn export(user_id: u64) -> Result<(), Rejection> {
    Ok(())
}

async fn six_quotes() {
    let start = Instant::now();
    for _ in 0..6 {
        quote().await;
    }
    println!("six quotes took {:.2} s", start.elapsed().as_secs_f32());
}

#[tokio::main]
async fn main() -> Result<(), SetupError> {
    println!("as annotated:");
    let annotated = Limits::builder().no_limits_file().build().await?;
    annotated.scope(six_quotes()).await;

    println!("\nwith a file that has mistakes, the program does not start:");
    if let Err(error) = Limits::builder().limits_file(TYPO).install().await {
        println!("{error}");
    }

    println!("\nwith fast.yaml:");
    let limits = Limits::builder().limits_file(FAST).install().await?;
    six_quotes().await;
    for user_id in [1, 13] {
        match export(user_id).await {
            Ok(()) => println!("user {user_id}: done"),
            Err(rejection) => println!("user {user_id}: {rejection}"),
        }
    }

    println!("\nwhat is in force, and who said so:\n{}", limits.report());
    Ok(())
}
