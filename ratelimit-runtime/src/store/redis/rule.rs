//! How a limiter counts, as a text: what the scripts take, keep in epochs and answer with.

use std::borrow::Cow;

use ratelimit_spec::{Algorithm, Mode};

use crate::store::Config;

/// Redisson's ordinal of the mode, and the algorithm where it is not Redisson's: `0`, `1/leaky_bucket`,
/// `0/token_bucket/20`, with a warm-up in milliseconds `0/token_bucket/w4000`, or
/// `0/fixed_window/day@Europe/Vienna`.
pub(super) fn write_rule(config: &Config) -> Cow<'static, str> {
    let mode = if config.mode == Mode::PerClient { "1" } else { "0" };
    match (config.algorithm, config.calendar) {
        (Algorithm::SlidingWindow, _) => mode.into(),
        (Algorithm::TokenBucket, _) if config.warm_up_ms > 0 => {
            format!("{mode}/token_bucket/w{}", config.warm_up_ms).into()
        }
        (Algorithm::TokenBucket, _) => format!("{mode}/token_bucket/{}", config.burst).into(),
        (Algorithm::FixedWindow, Some(calendar)) => {
            format!("{mode}/fixed_window/{calendar}").into()
        }
        (other, _) => format!("{mode}/{other}").into(),
    }
}

/// Numbers that are counted as such a text says; nothing when it says what no limiter writes.
pub(super) fn read_rule(text: &str, rate: u64, per_ms: u64) -> Option<Config> {
    let mut words = text.splitn(3, '/');
    let mode = match words.next()? {
        "0" => Mode::Overall,
        "1" => Mode::PerClient,
        _ => return None,
    };
    let config = Config::new(rate, per_ms, mode);
    let Some(algorithm) = words.next() else { return Some(config) };
    let algorithm = algorithm.parse().ok()?;
    let Some(detail) = words.next() else { return Some(config.algorithm(algorithm, 0)) };
    if algorithm == Algorithm::FixedWindow {
        // The length is what is stored, whatever a peer made of it.
        let calendar = Some(detail.parse().ok()?);
        return Some(Config { calendar, ..config.algorithm(algorithm, 0) });
    }
    if let Some(warm_up) = detail.strip_prefix('w') {
        return Some(config.algorithm(algorithm, 0).warm_up_ms(warm_up.parse().ok()?));
    }
    Some(config.algorithm(algorithm, detail.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for (algorithm, burst) in [
            (Algorithm::SlidingWindow, 0),
            (Algorithm::TokenBucket, 20),
            (Algorithm::FixedWindow, 0),
            (Algorithm::LeakyBucket, 0),
        ] {
            for mode in [Mode::Overall, Mode::PerClient] {
                let config = Config::new(5, 1000, mode).algorithm(algorithm, burst);
                assert_eq!(read_rule(&write_rule(&config), 5, 1000), Some(config));
            }
        }
        let warms_up = Config::new(5, 1000, Mode::Overall).algorithm(Algorithm::TokenBucket, 0);
        let warms_up = warms_up.warm_up_ms(4000);
        assert_eq!(write_rule(&warms_up), "0/token_bucket/w4000");
        assert_eq!(read_rule("0/token_bucket/w4000", 5, 1000), Some(warms_up));
        for calendar in ["day@Europe/Vienna", "month@Etc/GMT+5", "week@America/Indiana/Knox"] {
            let calendar = calendar.parse().unwrap();
            let config = Config::new(5, 1000, Mode::Overall).calendar(calendar);
            assert_eq!(read_rule(&write_rule(&config), 5, config.per_ms), Some(config));
        }
        for unknown in [
            "",
            "2",
            "0/",
            "0/gcra",
            "0/token_bucket/",
            "0/token_bucket/w",
            "0/token_bucket/x",
            "0/fixed_window/",
            "0/fixed_window/day@Mars/Olympus",
            "0/fixed_window/fortnight@UTC",
        ] {
            assert_eq!(read_rule(unknown, 5, 1000), None, "{unknown}");
        }
    }
}
