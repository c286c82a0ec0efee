//! A limit for each user, tenant or guest: the key is made from the arguments.
//!
//!     cargo run -p examples --example per_user
//!     REDIS_URL=redis://127.0.0.1/ cargo run -p examples --example per_user

use std::fmt;

use ratelimit_runtime::{Rejection, SetupError, rate_limit};

struct Order {
    tenant: String,
    item: &'static str,
}

/// Two orders a second for each user. A third is rejected, because `wait` is `"none"`; callers handle
/// the rejection with `?` like any other error.
#[rate_limit(key = "orders:{user_id}", rate = 2, per = "1s", wait = "none")]
async fn place_order(user_id: u64, item: &str) -> Result<(), ShopError> {
    if item.is_empty() {
        return Err(ShopError::NothingOrdered { user_id });
    }
    Ok(())
}

/// One invoice a second for each tenant: a placeholder may be a path of fields.
#[rate_limit(key = "invoices:{order.tenant}", rate = 1, per = "1s", wait = "none")]
async fn send_invoice(order: &Order) -> Result<(), ShopError> {
    assert!(!order.item.is_empty());
    Ok(())
}

/// One search a second for each user, and one for all guests together. The `?` makes sharing
/// explicit: an `Option` without it does not compile.
#[rate_limit(key = "searches:{user?}", rate = 1, per = "1s", wait = "none")]
async fn search(user: Option<u64>) -> Result<(), ShopError> {
    Ok(())
}

#[derive(Debug)]
enum ShopError {
    NothingOrdered { user_id: u64 },
    TooFast(Rejection),
}

/// The only requirement for a function that rejects calls.
impl From<Rejection> for ShopError {
    fn from(rejection: Rejection) -> Self {
        Self::TooFast(rejection)
    }
}

impl std::error::Error for ShopError {}

impl fmt::Display for ShopError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingOrdered { user_id } => write!(f, "user {user_id} ordered nothing"),
            Self::TooFast(rejection) => match rejection.retry_after() {
                Some(wait) => write!(f, "refused, try again in {:.2} s", wait.as_secs_f32()),
                None => write!(f, "refused"),
            },
        }
    }
}

fn show(call: &str, result: Result<(), ShopError>) {
    match result {
        Ok(()) => println!("  {call}: done"),
        Err(error) => println!("  {call}: {error}"),
    }
}

#[tokio::main]
async fn main() -> Result<(), SetupError> {
    ratelimit_runtime::init().await?;

    println!("orders:{{user_id}}");
    show("user 1, tea", place_order(1, "tea").await);
    show("user 1, milk", place_order(1, "milk").await);
    show("user 1, sugar", place_order(1, "sugar").await);
    show("user 2, tea", place_order(2, "tea").await);

    println!("invoices:{{order.tenant}}");
    for (tenant, item) in [("acme", "tea"), ("acme", "milk"), ("globex", "tea")] {
        let tenant = tenant.to_owned();
        let order = Order { tenant, item };
        show(&format!("{}, {item}", order.tenant), send_invoice(&order).await);
    }

    println!("searches:{{user?}}");
    show("a guest", search(None).await);
    show("another guest", search(None).await);
    show("user 1", search(Some(1)).await);
    Ok(())
}
