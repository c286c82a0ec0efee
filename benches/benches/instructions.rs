//! Instructions of a decision within the process, counted by callgrind: a figure that a busy machine
//! does not change. `cargo xtask bench instructions` runs them and holds them against
//! `instructions.txt`.

use std::hint::black_box;

use benches::embedded::{fixed, install, of_user, plenty, ready, used_up};
use gungraun::prelude::*;
use ratelimit_runtime::Limiter;

/// As many as it takes for what is only done now and then to show.
const CALLS: u64 = 100;

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
    warm(plenty(&install(), "plenty"))
}

fn refusing() -> Limiter {
    warm(used_up(&install(), "used_up"))
}

fn counted_here() -> Limiter {
    warm(plenty(&install(), "counted_here"))
}

fn called() {
    install();
    for call in 0..200 {
        let _ = ready(fixed(call));
        let _ = ready(of_user(call % CALLS));
    }
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
#[bench::templated_key(called())]
fn call_site_templated(_installed: ()) {
    for call in 0..CALLS {
        let _ = black_box(ready(of_user(black_box(call))));
    }
}

library_benchmark_group!(
    name = decisions,
    benchmarks = [embedded, call_site_fixed, call_site_templated]
);
main!(library_benchmark_groups = decisions);
