//! What somebody sees who runs the examples, on the embedded store and on Redis.
#![allow(
    clippy::disallowed_methods,
    reason = "the examples are processes, which live in real time"
)]

#[path = "examples/budget.rs"]
mod budget;
#[path = "examples/grpc.rs"]
mod grpc;
#[path = "examples/load.rs"]
mod load;
#[path = "examples/login.rs"]
mod login;
#[path = "examples/measured.rs"]
mod measured;
#[path = "examples/outbound.rs"]
mod outbound;
#[path = "examples/output.rs"]
mod output;
#[path = "examples/program.rs"]
mod program;
#[path = "examples/service.rs"]
mod service;
#[path = "examples/shop.rs"]
mod shop;
#[path = "client/upstream.rs"]
mod upstream;
