//! A fallback function instead of an error, calls that are exempt, and calls that cost more.
//!
//!     cargo run -p examples --example fallback
//!     REDIS_URL=redis://127.0.0.1/ cargo run -p examples --example fallback

use ratelimit_runtime::{Rejection, SetupError, rate_limit};

/// Queries the exchange once a second, and returns the last known price in between.
#[rate_limit(key = "price", rate = 1, per = "1s", wait = "none", fallback = last_price)]
async fn price() -> &'static str {
    "1.0734, fresh from the exchange"
}

fn last_price(_: Rejection) -> &'static str {
    "1.07, as of a moment ago"
}

/// Sends one mail a second to each address, and puts the others off.
#[rate_limit(key = "mail:{to}", rate = 1, per = "1s", wait = "none", fallback = put_off)]
async fn send_mail(to: &str) -> String {
    format!("sent to {to}")
}

/// A fallback may be asynchronous. It receives the rejection, which contains the time to retry after.
async fn put_off(rejection: Rejection) -> String {
    tokio::task::yield_now().await;
    let wait = rejection.retry_after().unwrap_or_default();
    format!("put off for {:.2} s", wait.as_secs_f32())
}

struct User {
    name: &'static str,
    is_admin: bool,
}

/// One search a second for each user, any number for administrators.
#[rate_limit(key = "search:{user.name}", rate = 1, per = "1s", wait = "none", skip_if = user.is_admin)]
async fn search(user: &User) -> Result<&'static str, Rejection> {
    Ok("3 hits")
}

/// A hundred rows a second: what a call costs is computed from its arguments.
#[rate_limit(key = "import", rate = 100, per = "1s", wait = "none", permits = rows.len())]
async fn import(rows: &[u32]) -> Result<usize, Rejection> {
    Ok(rows.len())
}

fn show<T: ToString>(result: Result<T, Rejection>) -> String {
    result.map_or_else(|rejection| rejection.to_string(), |answer| answer.to_string())
}

#[tokio::main]
async fn main() -> Result<(), SetupError> {
    ratelimit_runtime::init().await?;

    println!("a plain fallback");
    println!("  {}", price().await);
    println!("  {}", price().await);

    println!("an asynchronous one");
    for to in ["ada@example.org", "ada@example.org", "bob@example.org"] {
        println!("  {}", send_mail(to).await);
    }

    println!("`skip_if`");
    for (name, is_admin) in [("ada", false), ("bob", true)] {
        let user = User { name, is_admin };
        for _ in 0..2 {
            println!("  {name}: {}", show(search(&user).await));
        }
    }

    println!("`permits`");
    for rows in [60, 60, 40, 101] {
        println!("  {rows} rows: {}", show(import(&vec![0; rows]).await));
    }
    Ok(())
}
