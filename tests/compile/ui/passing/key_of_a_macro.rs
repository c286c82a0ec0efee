use ratelimit_runtime::{limiter, rate_limit};

macro_rules! limited {
    ($name:ident($parameter:ident: $ty:ty), $key:literal, $rate:expr) => {
        #[rate_limit(key = $key, rate = $rate, per = "1s")]
        async fn $name($parameter: $ty) -> $ty {
            $parameter
        }
    };
    ($name:ident) => {
        // One template, from one place, on several functions.
        #[rate_limit(key = "all:{user_id}", rate = 2, per = "1s")]
        async fn $name(user_id: u64) -> u64 {
            user_id
        }
    };
}

limited!(search(user_id: u64), "search:{user_id}", 2);
limited!(find(r#type: &'static str), "find:{type}", 20);
limited!(list);
limited!(count);

macro_rules! handle {
    ($value:expr) => {
        limiter!("all:{user_id}", user_id = $value)
    };
}

fn main() {
    let user_id = 7;
    let _ = (search(user_id), find("x"), list(user_id), count(user_id));
    let _ = || (handle!(user_id), limiter!("search:{user_id}"));
}
