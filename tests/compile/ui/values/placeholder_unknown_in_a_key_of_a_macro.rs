use ratelimit_runtime::rate_limit;

macro_rules! limited {
    ($name:ident($parameter:ident: $ty:ty), $key:literal) => {
        #[rate_limit(key = $key, rate = 2, per = "1s")]
        async fn $name($parameter: $ty) {
            let _ = $parameter;
        }
    };
}

limited!(search(user_id: u64), "search:{usr_id}");
limited!(find(user_id: f64), "find:{user_id}");

fn main() {}
