//! Costs and algorithms.

use super::{found, golden, golden_with};

const SEVERAL: &str = "
limiters:
  export:
    limits: [{ rate: 10, per: 1s }, { rate: 5, per: 1s, algorithm: token_bucket, burst: 20 }]
";

#[test]
fn a_bucket_that_warms_up() {
    golden(
        "warm_up",
        r#"
        #[rate_limit(key = "quote", rate = 2, per = "1s", algorithm = "token_bucket", warm_up = "4s")]
        async fn quote() -> Price {
            price().await
        }
        "#,
    );
}

#[test]
fn several_limits() {
    golden(
        "several_limits",
        r#"
        #[rate_limit(key = "quote", limits = [(10, "1s"), (limits::HOURLY, "1h")])]
        async fn quote() -> Price {
            price().await
        }
        "#,
    );
}

#[test]
fn several_limits_of_the_file() {
    golden_with(
        "limits_file_gives_several_limits",
        &found(SEVERAL),
        r#"
        #[rate_limit(key = "export")]
        async fn export() -> Rows {
            rows().await
        }
        "#,
    );
}

#[test]
fn a_day_of_the_calendar() {
    golden(
        "calendar",
        r#"
        #[rate_limit(key = "mail", rate = 1000, per = "day", time_zone = "Europe/Vienna", algorithm = "fixed_window")]
        async fn mail(letter: Letter) -> Receipt {
            post.send(letter).await
        }
        "#,
    );
}

#[test]
fn a_constant_beside_the_shards_of_the_file() {
    golden_with(
        "constant_beside_shards",
        &found("limiters: { quote: { shards: 4 } }"),
        r#"
        #[rate_limit(key = "quote", rate = limits::QUOTES, per = "1s", algorithm = "token_bucket", burst = BURST)]
        async fn quote() -> Price {
            price().await
        }
        "#,
    );
}
