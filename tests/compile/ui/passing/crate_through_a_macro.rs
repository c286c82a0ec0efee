pub use ratelimit_runtime as rl;

#[macro_export]
macro_rules! search {
    ($name:ident) => {
        #[$crate::rl::rate_limit(key = "search:{query}", rate = 2, per = "1s", wait = "none", crate = $crate::rl)]
        #[$crate::rl::rate_limit(key = "search", rate = 100, per = "1s", permits = query.len(), crate = $crate::rl)]
        async fn $name(query: &str) -> Result<usize, $crate::rl::Rejection> {
            Ok(query.len())
        }
    };
}

macro_rules! handle {
    ($path:path) => {
        $crate::rl::limiter!("search:{query}", query = "a", crate = $crate::rl)
    };
    (by $path:path) => {
        $crate::rl::limiter!("search:{query}", query = "a", crate = $path)
    };
}

mod inner {
    search!(find);

    pub(super) fn run() {
        let _ = find("a");
        let _ = || (handle!(crate::rl), handle!(by crate::rl));
    }
}

fn main() {
    inner::run();
}
