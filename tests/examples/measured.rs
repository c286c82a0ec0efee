//! The example with metrics, and what is drawn of them.

use std::{collections::BTreeSet, fs, path::Path, time::Duration};

use ::bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use tests::redis_server::RedisServer;

use crate::program::Server;

async fn get(client: &Client<HttpConnector, Empty<Bytes>>, url: String) -> String {
    let request = Request::get(url).body(Empty::new()).unwrap();
    let body = client.request(request).await.unwrap().into_body().collect().await.unwrap();
    String::from_utf8(body.to_bytes().to_vec()).unwrap()
}

/// What a query selects: a name, and the labels it asks for.
fn selected(query: &str) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    for (at, _) in query.match_indices("ratelimit_") {
        let rest = &query[at..];
        let end = rest.find(|c: char| !c.is_ascii_lowercase() && c != '_').unwrap_or(rest.len());
        let labels = rest[end..].strip_prefix('{').and_then(|rest| rest.split_once('}'));
        let labels = labels.map_or("", |(labels, _)| labels).split(',');
        let exact = labels.filter(|label| label.contains("=\"")).map(str::to_owned).collect();
        found.push((rest[..end].to_owned(), exact));
    }
    found
}

fn docs(file: &str) -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("docs");
    fs::read_to_string(docs.join(file)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_panel_finds_a_series() {
    let redis = RedisServer::start();
    let server = Server::start("metrics", Some(&redis));
    let client = Client::builder(TokioExecutor::new()).build_http();
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..120 {
        let path = if n % 20 == 0 { "report" } else { "quote" };
        let (client, url) = (client.clone(), format!("{}/{path}", server.url));
        calls.spawn(async move { get(&client, url).await });
    }
    calls.join_all().await;
    redis.kill_hard();
    for _ in 0..5 {
        get(&client, format!("{}/quote", server.url)).await;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    let metrics = get(&client, format!("{}/metrics", server.url)).await;

    let dashboard: serde_json::Value =
        serde_json::from_str(&docs("metrics/dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let queries = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let queries = queries.map(|target| target["expr"].as_str().unwrap().to_owned());
    let alerts = docs("metrics/alerts.yaml");
    // What these count does not happen here; their names are in the page of metrics.
    let rare = [
        "ratelimit_blocked_total",
        "ratelimit_refunded_permits_total",
        "ratelimit_shadowed_total",
        "ratelimit_shared_keys_total",
    ];
    let page = docs("metrics.md");
    let mut names = BTreeSet::new();
    for query in queries.chain([alerts]) {
        for (name, labels) in selected(&query) {
            let metric =
                ["_bucket", "_count", "_sum"].iter().find_map(|end| name.strip_suffix(end));
            let metric = metric.unwrap_or(&name);
            assert!(page.contains(&format!("| `{metric}` |")), "{metric} in {query}");
            let has_labels = |line: &&str| labels.iter().all(|label| line.contains(label.as_str()));
            let mut series = metrics.lines().filter(|line| {
                line.starts_with(&format!("{name}{{")) || line.starts_with(&format!("{name} "))
            });
            let is_event = labels.iter().any(|label| label.starts_with("event="));
            let found = series.any(|line| is_event || has_labels(&line));
            assert!(found || rare.contains(&metric), "{query} finds nothing in\n{metrics}");
            names.insert(metric.to_owned());
        }
    }
    let documented = page.lines().filter(|line| line.starts_with("| `ratelimit_")).count();
    assert_eq!(names.len(), documented, "each metric is drawn or watched: {names:?}");
}
