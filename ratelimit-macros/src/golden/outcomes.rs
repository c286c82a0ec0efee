//! Refunds of a call's permits, and the result of a rejected call.

use super::golden;

#[test]
fn permits_of_failed_calls_come_back() {
    golden(
        "refund_on",
        r#"
        #[rate_limit(key = "quote", rate = 2, per = "1s", refund_on = "err")]
        async fn quote(&self, item: &str) -> Result<Price, ShopError> {
            Ok(self.prices().await?.of(item))
        }
        "#,
    );
    golden(
        "stacked_refund_on",
        r#"
        #[rate_limit(key = "user:{user}", rate = 2, per = "1s", refund_on = "never")]
        #[rate_limit(key = "everyone", rate = 100, per = "1s", wait = "none")]
        async fn quote(user: u64) -> Result<Price, ShopError> {
            price(user).await
        }
        "#,
    );
}

/// The body has them in variables of its own, which would cause the same lints again.
#[test]
fn lints_allowed_for_a_parameter_are_allowed_in_the_body() {
    golden(
        "refund_on_and_lints",
        r#"
        #[rate_limit(key = "quote", rate = 2, per = "1s", refund_on = "err")]
        async fn quote(
            #[cfg(unix)] #[allow(unused_variables)] item: &str,
            #[expect(unused_variables)] shop: &str,
            #[cfg_attr(unix, deny(unused_variables))] day: u8,
            _old: u8,
        ) -> Result<Price, ShopError> {
            Ok(price(day).await.expect("the shop is open"))
        }
        "#,
    );
}

#[test]
fn results_decide_what_becomes_of_permits() {
    golden(
        "refund_if_and_actual",
        r#"
        #[rate_limit(
            key = "tokens:{tenant}",
            rate = 90_000,
            per = "1m",
            permits = estimate(prompt),
            refund_if = LlmError::is_ours,
            actual = |answer| answer.as_ref().ok().map(|answer| answer.tokens),
        )]
        async fn complete(tenant: u64, prompt: &str) -> Result<Answer, LlmError> {
            model().complete(prompt).await
        }
        "#,
    );
}

#[test]
fn permits_that_the_body_holds() {
    golden(
        "bind",
        r#"
        #[rate_limit(key = "tokens", rate = 90_000, per = "1m", bind = permit)]
        async fn complete(prompt: &str) -> Answer {
            let answer = model().complete(prompt).await;
            permit.record(answer.tokens);
            answer
        }
        "#,
    );
    golden(
        "stacked_bind",
        r#"
        #[rate_limit(key = "user:{user}", rate = 2, per = "1s", skip_if = user == 0, bind = own)]
        #[rate_limit(key = "everyone", rate = 100, per = "1s")]
        #[rate_limit(key = "tokens", rate = 90_000, per = "1m", wait = "none", bind = tokens)]
        async fn complete(user: u64) -> Result<Answer, LlmError> {
            model().answer(own, tokens).await
        }
        "#,
    );
}

#[test]
fn a_fallback_that_is_a_closure() {
    golden(
        "fallback_closure",
        r#"
        #[rate_limit(key = "quote", rate = 2, per = "1s", wait = "none", fallback = |rejection| cached(item, rejection))]
        async fn quote(item: &str) -> Price {
            price(item).await
        }
        "#,
    );
}
