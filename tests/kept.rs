//! Promises that a change broke once without any test noticing. Each test names the fault in its
//! first comment, and uses what users can use: modules may move, these stay.
#![allow(clippy::disallowed_methods, reason = "real servers live in real time")]

#[path = "kept/altered.rs"]
mod altered;
#[path = "kept/buckets.rs"]
mod buckets;
#[path = "kept/calls.rs"]
mod calls;
#[path = "kept/debts.rs"]
mod debts;
#[path = "kept/outage.rs"]
mod outage;
#[path = "kept/per_client.rs"]
mod per_client;
#[path = "kept/replies.rs"]
mod replies;
#[path = "kept/startup.rs"]
mod startup;
#[path = "kept/stored.rs"]
mod stored;
#[path = "kept/waits.rs"]
mod waits;
#[path = "kept/windows.rs"]
mod windows;
