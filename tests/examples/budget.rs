//! The endpoint that calls a language model, in two processes with one budget.

use std::time::Duration;

use reqwest::{Client, Response};
use tests::redis_server::RedisServer;
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::program::Server;

/// What the program allows each tenant in a minute.
const OF_TENANT: u64 = 20_000;

async fn post(client: &Client, server: &str, path: &str, prompt: &str) -> Response {
    client.post(format!("{server}/{path}")).body(prompt.to_owned()).send().await.unwrap()
}

fn words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

/// Asks once, and returns how many tokens that used.
async fn ask(client: Client, server: String, path: String, prompt: String) -> u64 {
    let answer = post(&client, &server, &path, &prompt).await;
    assert_eq!(answer.status(), 200, "{path}");
    let told = answer.headers().get("x-tokens").map(|tokens| tokens.to_str().unwrap().to_owned());
    let used = words(&prompt) + words(&answer.text().await.unwrap());
    assert!(told.is_none_or(|told| told.parse() == Ok(used)), "{path}: {used}");
    used
}

async fn left(client: &Client, server: &Server, tenant: &str) -> u64 {
    let answer = client.get(format!("{}/{tenant}/budget", server.url)).send().await.unwrap();
    answer.text().await.unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_share_a_budget_and_the_totals_add_up() {
    let redis = RedisServer::start();
    let start = || Server::with_file("llm_budget", Some(&redis), "llm_budget.yaml");
    let servers = [start(), start()];
    let client = Client::new();
    let mut asked = JoinSet::new();
    for n in 0..24_usize {
        let kind = if n % 2 == 0 { "complete" } else { "stream" };
        let prompt = "word ".repeat(20 + 7 * n);
        let path = format!("acme/user-{}/{kind}", n % 6);
        asked.spawn(ask(client.clone(), servers[n / 2 % 2].url.clone(), path, prompt));
    }
    let used: u64 = asked.join_all().await.into_iter().sum();
    assert_eq!(used, (0..24).map(|n| 2 * (20 + 7 * n)).sum::<u64>());
    for server in &servers {
        let settled = async {
            while left(&client, server, "acme").await != OF_TENANT - used {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_secs(10), settled).await.expect("all is settled");
    }

    // A client that hangs up pays for what it got, of 300 parts.
    let prompt = "word ".repeat(300);
    let mut answer = post(&client, &servers[0].url, "globex/eve/stream", &prompt).await;
    let got = answer.chunk().await.unwrap().map_or(0, |part| part.len());
    assert!(got < 300, "{got} bytes of the answer");
    drop(answer);
    sleep(Duration::from_millis(500)).await;
    let paid = OF_TENANT - left(&client, &servers[1], "globex").await;
    assert!((301..600).contains(&paid), "{paid} tokens");

    // The estimate of one more is above what a tenant on trial has, whichever process is asked.
    let prompt = "word ".repeat(500);
    assert_eq!(post(&client, &servers[0].url, "trial/a/complete", &prompt).await.status(), 200);
    assert_eq!(post(&client, &servers[1].url, "trial/b/complete", &prompt).await.status(), 200);
    let refused = post(&client, &servers[0].url, "trial/c/stream", &prompt).await;
    assert_eq!(refused.status(), 429);
    let told = refused.headers()["ratelimit"].to_str().unwrap();
    assert!(told.starts_with("\"tenant:{tenant}: 2000 per 1m\";r=0;t="), "{told}");
}
