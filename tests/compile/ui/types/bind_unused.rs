#![deny(unused_variables)]

use ratelimit_runtime::rate_limit;

#[rate_limit(key = "mail", rate = 9, per = "1s", bind = permit)]
async fn send() {}

#[rate_limit(key = "letters", rate = 9, per = "1s", skip_if = false, bind = permit)]
async fn write() {}

fn main() {}
