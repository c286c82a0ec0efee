//! Crowds that wait for one limiter: callers that hang up or have little time, several processes.
#![allow(clippy::disallowed_methods, reason = "real servers live in real time")]

#[path = "crowds/dropped.rs"]
mod dropped;
#[path = "crowds/fleet.rs"]
mod fleet;
#[path = "crowds/hang_up.rs"]
mod hang_up;
#[path = "crowds/in_time.rs"]
mod in_time;
#[path = "crowds/shared.rs"]
mod shared;

use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
