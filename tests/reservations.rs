//! Callers that wait for a bucket: each takes its slot in one call, whichever process it is in.
#![allow(clippy::disallowed_methods, reason = "real servers live in real time")]

#[path = "reservations/limiter.rs"]
mod limiter;
#[path = "reservations/outage.rs"]
mod outage;
#[path = "reservations/processes.rs"]
mod processes;
#[path = "reservations/scripts.rs"]
mod scripts;
#[path = "reservations/too_large.rs"]
mod too_large;
