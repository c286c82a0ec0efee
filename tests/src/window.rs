//! The invariant of every limiter: no window of length `per` admitted more than `rate` permits.
//!
//! Times are whole milliseconds of the server's clock, and a window is half open: one that ends at
//! `t` holds the permits with a time in `(t - per, t]`, since a permit is free again when its age
//! reaches `per`.

use std::fmt;

/// The permits admitted within one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The window holds times greater than this one. Negative when the window begins before the
    /// clock does.
    pub after_ms: i128,
    /// The window holds times up to this one.
    pub until_ms: u64,
    /// Their sum.
    pub permits: u64,
}

/// The window that admitted most, and the earliest of several; `None` for an empty history.
///
/// `history` is a list of (server time in ms, permits) in any order.
pub fn worst_window(history: &[(u64, u64)], per_ms: u64) -> Option<Window> {
    let mut history = history.to_vec();
    history.sort_unstable();
    let (mut oldest, mut sum) = (0, 0);
    let mut worst: Option<Window> = None;
    for &(now, permits) in &history {
        sum += permits;
        while history[oldest].0 + per_ms <= now {
            sum -= history[oldest].1;
            oldest += 1;
        }
        if worst.is_none_or(|worst| sum > worst.permits) {
            let after_ms = i128::from(now) - i128::from(per_ms);
            worst = Some(Window { after_ms, until_ms: now, permits: sum });
        }
    }
    worst
}

/// Checks that no window admitted more than `rate`, and gives the worst one (`None` for an empty
/// history).
///
/// # Errors
///
/// The worst window, and what it may hold.
pub fn check(history: &[(u64, u64)], per_ms: u64, rate: u64) -> Result<Option<Window>, Overrun> {
    let worst = worst_window(history, per_ms);
    match worst {
        Some(window) if window.permits > rate => Err(Overrun { window, rate }),
        _ => Ok(worst),
    }
}

/// As [`check`], for tests: panics where that gives an error.
///
/// # Panics
///
/// Panics if a window admitted more than `rate`, and names the window.
#[track_caller]
pub fn assert_kept(history: &[(u64, u64)], per_ms: u64, rate: u64) {
    if let Err(overrun) = check(history, per_ms, rate) {
        panic!("{overrun}");
    }
}

/// A window that admitted too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overrun {
    /// The worst one.
    pub window: Window,
    /// What it may hold.
    pub rate: u64,
}

impl fmt::Display for Overrun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Window { after_ms, until_ms, permits } = self.window;
        let rate = self.rate;
        write!(
            f,
            "{permits} permits admitted in ({after_ms}, {until_ms}] ms, where {rate} are allowed"
        )
    }
}

impl std::error::Error for Overrun {}

#[cfg(test)]
mod tests {
    use super::{Overrun, Window, check, worst_window};

    #[test]
    fn a_permit_is_free_again_at_the_age_of_a_window() {
        assert_eq!(worst_window(&[(0, 2), (100, 2)], 100).expect("a window").permits, 2);
        assert_eq!(worst_window(&[(0, 2), (99, 2)], 100).expect("a window").permits, 4);
    }

    #[test]
    fn the_worst_window_is_named() {
        let history = [(250, 1), (10, 1), (260, 2), (100, 2), (349, 1)];
        let window = Window { after_ms: 249, until_ms: 349, permits: 4 };
        assert_eq!(check(&history, 100, 4), Ok(Some(window)));
        let overrun = Overrun { window, rate: 3 };
        assert_eq!(check(&history, 100, 3), Err(overrun));
        let text = "4 permits admitted in (249, 349] ms, where 3 are allowed";
        assert_eq!(overrun.to_string(), text);
    }

    #[test]
    fn nothing_admitted_keeps_every_rate() {
        assert_eq!(check(&[], 100, 0), Ok(None));
    }

    #[test]
    fn agrees_with_counting_every_window() {
        let mut seed = 7_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        for _ in 0..200 {
            let per_ms = 1 + random(40);
            let history: Vec<_> = (0..50).map(|_| (random(200), random(4))).collect();
            let counted = history.iter().map(|&(until, _)| {
                let inside = |time: u64| time <= until && time + per_ms > until;
                history.iter().filter(|&&(time, _)| inside(time)).map(|&(_, n)| n).sum::<u64>()
            });
            let worst = worst_window(&history, per_ms).expect("a window");
            assert_eq!(Some(worst.permits), counted.max());
        }
    }
}
