//! An endpoint that calls a language model. Its tokens have a budget per minute and per day, for each tenant and for each of
//! its users: what a call may cost is reserved by an estimate, and settled by what the answer used.
//!
//!     cargo run -p examples --example llm_budget
//!     REDIS_URL=redis://127.0.0.1/ cargo run -p examples --example llm_budget
//!
//!     curl -i http://127.0.0.1:3000/acme/ada/complete -d 'why is the sky blue'
//!     curl -iN http://127.0.0.1:3000/acme/ada/stream -d 'why is the sky blue'
//!     curl http://127.0.0.1:3000/acme/budget
//!
//! The budgets are in `llm_budget.yaml`.

use std::{convert::Infallible, env, error::Error, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::Path,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use ratelimit_runtime::{Limits, Rejection, limiter, rate_limit, web::Headers};
use tokio::{net::TcpListener, time::sleep};
use tokio_stream::{Stream, StreamExt, iter};

const LIMITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/llm_budget.yaml");

/// The longest answer that the model gives, in tokens.
const LONGEST: u64 = 500;

/// A model in which each word is a token, and which repeats the prompt in capitals.
fn model(prompt: &str) -> Vec<String> {
    prompt.split_whitespace().map(str::to_uppercase).take(500).collect()
}

fn tokens(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

/// What a call costs at most: the prompt, and the longest answer.
fn estimate(prompt: &str) -> u64 {
    tokens(prompt) + LONGEST
}

struct Answer {
    text: String,
    /// Of the prompt and of the answer, as models report them.
    used: u64,
}

/// What an answer used. If the model failed, the estimate stands.
fn used(answer: &Result<Answer, Rejection>) -> Option<u64> {
    answer.as_ref().ok().map(|answer| answer.used)
}

/// Takes the estimate from both budgets or from neither, and refunds the tokens that the answer did not use.
#[rate_limit(
    key = "tenant:{tenant}",
    limits = [(20_000, "1m"), (1_000_000, "24h")],
    permits = estimate(prompt),
    wait = "none",
    actual = used
)]
#[rate_limit(
    key = "user:{tenant}:{user}",
    limits = [(5_000, "1m"), (100_000, "24h")],
    permits = estimate(prompt),
    wait = "none",
    actual = used
)]
async fn complete(tenant: &str, user: &str, prompt: &str) -> Result<Answer, Rejection> {
    let text = model(prompt).join(" ");
    let used = tokens(prompt) + tokens(&text);
    Ok(Answer { text, used })
}

/// The same for an answer that is sent as it is generated. Each part is recorded when it is sent; when the stream ends, or the
/// client hangs up, the budgets are settled at the sum.
#[rate_limit(
    key = "tenant:{tenant}",
    limits = [(20_000, "1m"), (1_000_000, "24h")],
    permits = estimate(&prompt),
    wait = "none",
    bind = of_tenant
)]
#[rate_limit(
    key = "user:{tenant}:{user}",
    limits = [(5_000, "1m"), (100_000, "24h")],
    permits = estimate(&prompt),
    wait = "none",
    bind = of_user
)]
async fn stream(
    tenant: String,
    user: String,
    prompt: String,
) -> Result<impl Stream<Item = Result<String, Infallible>>, Rejection> {
    let budgets = [of_tenant, of_user];
    let record = move |used| budgets.iter().for_each(|budget| budget.record(used));
    record(tokens(&prompt));
    Ok(iter(model(&prompt))
        .then(|word| async {
            sleep(Duration::from_millis(5)).await;
            word
        })
        .map(move |word| {
            record(tokens(&word));
            Ok(word + " ")
        }))
}

async fn post_complete(
    Path((tenant, user)): Path<(String, String)>,
    prompt: String,
) -> Result<Response, Rejection> {
    let answer = complete(&tenant, &user, &prompt).await?;
    Ok(([("x-tokens", answer.used.to_string())], answer.text).into_response())
}

async fn post_stream(
    Path((tenant, user)): Path<(String, String)>,
    prompt: String,
) -> Result<Response, Rejection> {
    Ok(Body::from_stream(stream(tenant, user, prompt).await?).into_response())
}

/// Returns the tokens that a tenant has left.
async fn budget(Path(tenant): Path<String>) -> Result<String, (StatusCode, String)> {
    let left = limiter!("tenant:{tenant}").available_permits().await;
    left.map(|left| left.to_string()).map_err(|error| (StatusCode::BAD_GATEWAY, error.to_string()))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let file = env::var("RATELIMIT_LIMITS").unwrap_or(LIMITS.to_owned());
    let limits = Limits::builder().key_prefix("llm:").limits_file(file);
    limits.on_event(|event| eprintln!("{event}")).install().await?;

    let service = Router::new()
        .route("/{tenant}/{user}/complete", post(post_complete))
        .route("/{tenant}/{user}/stream", post(post_stream))
        .layer(Headers::Ietf)
        .route("/{tenant}/budget", get(budget));
    let listener = TcpListener::bind(env::var("LISTEN").unwrap_or("127.0.0.1:3000".into())).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, service).await?;
    Ok(())
}
