//! Properties that can be checked again with the same values.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a seed is new with each run, and is to be seen"
)]

use proptest::test_runner::{Config, RngSeed};

/// This many cases of the seed in `RATELIMIT_SEED`, else of a new one. It is printed, which cargo shows
/// of a test that fails.
pub(crate) fn seeded(cases: u32) -> Config {
    let given = std::env::var("RATELIMIT_SEED").ok();
    let seed = given.map_or_else(of_now, |text| {
        text.parse().unwrap_or_else(|_| panic!("`RATELIMIT_SEED={text}` is not a number"))
    });
    eprintln!("RATELIMIT_SEED={seed}");
    Config { rng_seed: RngSeed::Fixed(seed), ..Config::with_cases(cases) }
}

fn of_now() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    u64::from(now.unwrap_or_default().subsec_nanos())
}
