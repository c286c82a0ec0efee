//! The encoded rule of a limiter: what scripts receive, store in epochs and return.

use std::borrow::Cow;

use std::time::Duration;

use ratelimit_spec::{Algorithm, Mode, Rule};

use crate::store::Config;

/// Encodes Redisson's ordinal of the mode, and the algorithm if it is not Redisson's: `0`, `1/leaky_bucket`,
/// `0/token_bucket/20`, with a warm-up in milliseconds `0/token_bucket/w4000`, or
/// `0/fixed_window/day@Europe/Vienna`.
pub(super) fn write_rule(config: &Config) -> Cow<'static, str> {
    let mode = if config.mode == Mode::PerClient { "1" } else { "0" };
    let algorithm = config.rule.algorithm();
    match config.rule {
        Rule::SlidingWindow => mode.into(),
        Rule::TokenBucket { burst } => format!("{mode}/{algorithm}/{burst}").into(),
        Rule::WarmingBucket { .. } => format!("{mode}/{algorithm}/w{}", config.warm_up_ms()).into(),
        Rule::FixedWindow { calendar: Some(calendar) } => {
            format!("{mode}/{algorithm}/{calendar}").into()
        }
        Rule::FixedWindow { calendar: None } | Rule::LeakyBucket => {
            format!("{mode}/{algorithm}").into()
        }
    }
}

/// Decodes such a text into a configuration; `None` if no limiter writes it.
pub(super) fn read_rule(text: &str, rate: u64, per_ms: u64) -> Option<Config> {
    let mut words = text.splitn(3, '/');
    let mode = match words.next()? {
        "0" => Mode::Overall,
        "1" => Mode::PerClient,
        _ => return None,
    };
    let config = Config::new(rate, per_ms, mode);
    let Some(algorithm) = words.next() else { return Some(config) };
    let algorithm: Algorithm = algorithm.parse().ok()?;
    let Some(detail) = words.next() else { return Some(config.rule(algorithm.rule(0))) };
    Some(config.rule(match algorithm {
        Algorithm::SlidingWindow | Algorithm::LeakyBucket => return None,
        Algorithm::TokenBucket => match detail.strip_prefix('w') {
            Some(ms) => Rule::WarmingBucket { warm_up: Duration::from_millis(ms.parse().ok()?) },
            None => Rule::TokenBucket { burst: detail.parse().ok()? },
        },
        // The stored length counts, even if a peer stored another one than the calendar's.
        Algorithm::FixedWindow => Rule::FixedWindow { calendar: Some(detail.parse().ok()?) },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for rule in [
            Rule::SlidingWindow,
            Rule::TokenBucket { burst: 20 },
            Rule::FixedWindow { calendar: None },
            Rule::LeakyBucket,
        ] {
            for mode in [Mode::Overall, Mode::PerClient] {
                let config = Config::new(5, 1000, mode).rule(rule);
                assert_eq!(read_rule(&write_rule(&config), 5, 1000), Some(config));
            }
        }
        let warms_up = Rule::WarmingBucket { warm_up: Duration::from_secs(4) };
        let warms_up = Config::new(5, 1000, Mode::Overall).rule(warms_up);
        assert_eq!(write_rule(&warms_up), "0/token_bucket/w4000");
        assert_eq!(read_rule("0/token_bucket/w4000", 5, 1000), Some(warms_up));
        for calendar in ["day@Europe/Vienna", "month@Etc/GMT+5", "week@America/Indiana/Knox"] {
            let calendar = calendar.parse().unwrap();
            let config = Config::new(5, 1000, Mode::Overall).by_calendar(calendar);
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
            "0/leaky_bucket/5",
            "0/fixed_window/",
            "0/fixed_window/day@Mars/Olympus",
            "0/fixed_window/fortnight@UTC",
        ] {
            assert_eq!(read_rule(unknown, 5, 1000), None, "{unknown}");
        }
    }
}
