//! Which thread a call depends on: its own runtime's and the engine's, never a stranger's.
#![allow(clippy::disallowed_methods, reason = "real servers live in real time")]

#[path = "runtimes/engine.rs"]
mod engine;
#[path = "runtimes/executors.rs"]
mod executors;
#[path = "runtimes/forks.rs"]
mod forks;
#[path = "runtimes/network.rs"]
mod network;
#[path = "runtimes/strangers.rs"]
mod strangers;
#[path = "runtimes/world.rs"]
mod world;
