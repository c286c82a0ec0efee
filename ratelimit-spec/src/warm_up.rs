//! How long a token bucket can take to warm up.

use std::{fmt, time::Duration};

use crate::duration::{MAX_PER, MIN_PER, format_duration};

/// What can be stored, in parts of a millisecond as many as the rate. Its square is divided by half
/// of it in the floating-point numbers of Redis' scripts, 13 bits at a time.
const MAX_TICKS: u64 = 1 << 40;

/// Whether a token bucket of this rate can take as long to warm up.
///
/// # Errors
///
/// When it is no whole number of milliseconds from 1 to those of 366 days, or cannot be counted
/// exactly.
pub fn check_warm_up(rate: u32, warm_up: Duration) -> Result<(), WarmUpError> {
    if warm_up < MIN_PER || warm_up > MAX_PER || !warm_up.subsec_nanos().is_multiple_of(1_000_000) {
        return Err(WarmUpError { warm_up, most: None });
    }
    let most = MAX_TICKS / u64::from(rate.max(1));
    if warm_up.as_millis() > u128::from(most) {
        let most = Some((rate, Duration::from_millis(most)));
        return Err(WarmUpError { warm_up, most });
    }
    Ok(())
}

/// A warm-up that cannot be counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarmUpError {
    warm_up: Duration,
    /// The rate for which it is too long, and what would not be.
    most: Option<(u32, Duration)>,
}

impl fmt::Display for WarmUpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let warm_up = self.warm_up;
        match self.most {
            Some((rate, most)) => write!(
                f,
                "a `warm_up` of {} at a `rate` of {rate} is too long to be counted exactly; write \
                 at most `{}`, or a smaller `rate`",
                format_duration(warm_up),
                format_duration(most)
            ),
            None => write!(
                f,
                "a warm-up of {warm_up:?} cannot be counted; use whole milliseconds from {} to {}",
                format_duration(MIN_PER),
                format_duration(MAX_PER)
            ),
        }
    }
}

impl std::error::Error for WarmUpError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_counted_says_what_can() {
        assert_eq!(check_warm_up(100, Duration::from_secs(3600)), Ok(()));
        assert_eq!(check_warm_up(1 << 20, Duration::from_millis(1 << 20)), Ok(()));
        let error = check_warm_up(1 << 20, Duration::from_millis((1 << 20) + 1)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a `warm_up` of 17m28s577ms at a `rate` of 1048576 is too long to be counted exactly; \
             write at most `17m28s576ms`, or a smaller `rate`"
        );
        let error = check_warm_up(1, Duration::from_micros(1500)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a warm-up of 1.5ms cannot be counted; use whole milliseconds from 1ms to 366d"
        );
    }
}
