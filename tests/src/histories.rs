//! Reproducible random histories.

use std::{
    env,
    time::{SystemTime, UNIX_EPOCH},
};

use proptest::test_runner::{Config, RngAlgorithm, RngSeed, TestRunner};

/// Runs a property over `cases` random histories. Prints the seed, which cargo shows if the test
/// fails: `RATELIMIT_SEED=<seed> cargo test ..` runs the same histories again.
///
/// # Panics
///
/// Panics if `RATELIMIT_SEED` is not a number.
pub fn random_histories(cases: u32) -> TestRunner {
    let seed = seed();
    eprintln!("RATELIMIT_SEED={seed}");
    TestRunner::new(Config {
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(seed),
        // Without optimization the default takes a third of the time of a history.
        rng_algorithm: RngAlgorithm::XorShift,
        ..Config::with_cases(cases)
    })
}

fn seed() -> u64 {
    match env::var("RATELIMIT_SEED") {
        Ok(given) => {
            given.parse().unwrap_or_else(|_| panic!("`RATELIMIT_SEED={given}` is not a number"))
        }
        Err(_) => {
            let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            // Only the nanoseconds, so that a seed is short enough to copy.
            u64::from(time.subsec_nanos())
        }
    }
}
