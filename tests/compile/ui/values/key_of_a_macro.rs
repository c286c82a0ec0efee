use ratelimit_runtime::rate_limit;

macro_rules! limited {
    ($name:ident($parameter:ident), $key:literal, $rate:expr) => {
        #[rate_limit(key = $key, rate = $rate, per = "1s")]
        async fn $name($parameter: u64) -> u64 {
            $parameter
        }
    };
}

limited!(find(user_id), "find:{user_id", 2);
limited!(list(user_id), "list:{user_id}", 0);

fn main() {}
