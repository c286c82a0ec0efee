//! Instructions of a decision within the process, counted by callgrind: a figure that a busy machine
//! does not change. `cargo xtask bench instructions` runs them and compares them with
//! `instructions.txt`.

use std::{
    convert::Infallible,
    future::{Ready, ready as answered},
    hint::black_box,
    net::{Ipv4Addr, SocketAddr},
    thread,
    time::Duration,
};

use axum::{
    body::Body,
    http::{Request, Response},
};
use benches::embedded::{fixed, fixed_alone, install, of_user, plenty, ready, unreached, used_up};
use gungraun::prelude::*;
use ratelimit_runtime::{
    Limiter, Limits,
    tower::{Limit, LimitService},
    web::Headers,
};
use tower::{Layer, ServiceExt, util::ServiceFn};

/// Enough calls that periodic work shows.
const CALLS: u64 = 100;

/// Installs the embedded store, whose clock is ready then: until it is calibrated, it is the system's.
fn installed() -> Limits {
    let limits = install();
    thread::sleep(Duration::from_millis(300));
    limits
}

fn grants(limiter: &Limiter) -> bool {
    ready(limiter.try_acquire(1)).is_ok()
}

fn warm(limiter: Limiter) -> Limiter {
    // The log has its final size.
    for _ in 0..200 {
        grants(&limiter);
    }
    limiter
}

fn granting() -> Limiter {
    warm(plenty(&installed(), "plenty"))
}

fn refusing() -> Limiter {
    warm(used_up(&installed(), "used_up"))
}

fn counted_here() -> Limiter {
    warm(plenty(&installed(), "counted_here"))
}

fn called() {
    installed();
    for call in 0..200 {
        let _ = ready(fixed(call));
        let _ = ready(fixed_alone(call));
        let _ = ready(of_user(call % CALLS));
    }
}

/// Returns limits under which the functions are called after others.
fn called_under_others() -> Limits {
    called();
    let builder = Limits::builder().memory().no_limits_file();
    let others = ready(builder.build()).expect("limits without a file");
    for call in 0..200 {
        let _ = ready(others.scope(of_user(call % CALLS)));
    }
    others
}

type Answer = Ready<Result<Response<Body>, Infallible>>;
type Limited = LimitService<ServiceFn<fn(Request<Body>) -> Answer>>;

fn answer(_: Request<Body>) -> Answer {
    answered(Ok(Response::new(Body::empty())))
}

fn request(service: &Limited, client: u64) {
    let mut request = Request::new(Body::empty());
    let address = Ipv4Addr::from_bits(0x0a00_0000 + u32::try_from(client).unwrap_or_default());
    request.extensions_mut().insert(SocketAddr::from((address, 4000)));
    let _ = black_box(ready(service.clone().oneshot(request)));
}

fn limited(headers: Headers) -> Limited {
    let bucket = unreached().token_bucket(unreached().rate()).expect("a bucket that can be");
    let layer = Limit::new("layer:{ip}", bucket).limits(&installed()).headers(headers);
    let service = layer.layer(tower::service_fn(answer as fn(_) -> _));
    (0..2 * CALLS).for_each(|call| request(&service, call % CALLS));
    service
}

#[library_benchmark]
#[bench::admitted(limited(Headers::Off))]
#[bench::admitted_headers(limited(Headers::Ietf))]
fn layer(service: Limited) -> Limited {
    (0..CALLS).for_each(|client| request(&service, client));
    service
}

#[library_benchmark]
#[bench::grant(granting())]
#[bench::refusal(refusing())]
#[bench::per_client_grant(counted_here())]
fn embedded(limiter: Limiter) -> Limiter {
    for _ in 0..CALLS {
        black_box(grants(&limiter));
    }
    limiter
}

#[library_benchmark]
#[bench::fixed_key(called())]
fn call_site_fixed(_installed: ()) {
    for call in 0..CALLS {
        let _ = black_box(ready(fixed(black_box(call))));
    }
}

#[library_benchmark]
#[bench::fixed_key(called())]
fn call_site_alone(_installed: ()) {
    for call in 0..CALLS {
        let _ = black_box(ready(fixed_alone(black_box(call))));
    }
}

#[library_benchmark]
#[bench::templated_key(called())]
fn call_site_templated(_installed: ()) {
    for call in 0..CALLS {
        let _ = black_box(ready(of_user(black_box(call))));
    }
}

#[library_benchmark]
#[bench::templated_key(called_under_others())]
fn call_site_scoped(limits: Limits) -> Limits {
    for call in 0..CALLS {
        let _ = black_box(ready(limits.scope(of_user(black_box(call)))));
    }
    limits
}

#[library_benchmark]
#[bench::first_use(called())]
fn call_site_new(_installed: ()) {
    for call in 0..CALLS {
        let _ = black_box(ready(of_user(black_box(CALLS + call))));
    }
}

library_benchmark_group!(
    name = decisions,
    benchmarks = [
        embedded,
        call_site_fixed,
        call_site_alone,
        call_site_templated,
        call_site_scoped,
        call_site_new,
        layer
    ]
);
main!(library_benchmark_groups = decisions);
