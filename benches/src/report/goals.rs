//! The goals, and the measured figures.

use std::fmt::Write;

use super::Measured;

/// A figure and its goal.
struct Goal {
    what: String,
    reached: Option<f64>,
    wanted: Wanted,
}

#[derive(Clone, Copy)]
enum Wanted {
    /// At least this many times as much.
    Times(f64),
    /// A ratio of at most this.
    Ratio(f64),
    /// At most this many.
    AtMost(f64, &'static str),
    /// A share of at least this.
    Share(f64),
}

impl Wanted {
    fn holds(self, reached: f64) -> bool {
        match self {
            Self::Times(least) | Self::Share(least) => reached >= least,
            Self::Ratio(most) | Self::AtMost(most, _) => reached <= most,
        }
    }

    fn show(self) -> String {
        match self {
            Self::Times(times) => format!("≥ {times}×"),
            Self::Ratio(ratio) => format!("≤ {ratio}×"),
            Self::AtMost(most, unit) => format!("≤ {most}{unit}"),
            Self::Share(share) => format!("≥ {} %", share * 100.0),
        }
    }

    fn show_reached(self, reached: f64) -> String {
        match self {
            Self::Times(_) | Self::Ratio(_) if reached >= 100.0 => format!("{reached:.0}×"),
            Self::Times(_) | Self::Ratio(_) => format!("{reached:.2}×"),
            Self::AtMost(_, unit) if reached >= 1000.0 || reached.fract() == 0.0 => {
                format!("{reached:.0}{unit}")
            }
            Self::AtMost(_, unit) => format!("{reached:.2}{unit}"),
            Self::Share(_) => format!("{:.1} %", reached * 100.0),
        }
    }
}

pub(super) fn table(measured: &Measured) -> String {
    let mut text = "| goal | wanted | measured | |\n|---|---:|---:|---|\n".to_owned();
    for Goal { what, reached, wanted } in goals(measured) {
        let (figure, verdict) = match reached {
            Some(reached) if wanted.holds(reached) => (wanted.show_reached(reached), "reached"),
            Some(reached) => (wanted.show_reached(reached), "**not reached**"),
            None => ("–".to_owned(), "not measured"),
        };
        writeln!(text, "| {what} | {} | {figure} | {verdict} |", wanted.show())
            .expect("a string takes what is written");
    }
    text
}

fn goals(measured: &Measured) -> Vec<Goal> {
    let mut goals = Vec::new();
    let mut add = |what: String, wanted, reached| goals.push(Goal { what, reached, wanted });
    let ours = |name, load, figure| measured.figure(name, load, "ours", figure);
    for callers in ["256", "2048"] {
        let redisson = best_redisson(measured, "hot", callers);
        add(
            format!("hot key, {callers} callers: decisions/s, over Redisson's"),
            Wanted::Times(20.0),
            over(ours("hot", callers, "per_s"), redisson.0),
        );
        add(
            format!("hot key, {callers} callers: Redisson's p99, over ours"),
            Wanted::Times(10.0),
            over(redisson.1, ours("hot", callers, "p99_us")),
        );
    }
    add(
        "one caller: median latency, over a bare `EVALSHA`".to_owned(),
        Wanted::Ratio(1.15),
        over(
            ours("one_caller", "1", "p50_us"),
            measured.figure("one_caller", "1", "bare", "p50_us"),
        ),
    );
    for (name, peer, what, times) in [
        ("refused", "ours", "refused", 100.0),
        ("keys", "ours_buckets", "many keys, token buckets", 4.0),
        ("keys", "ours", "many keys, sliding windows", 2.0),
        ("per_client", "ours", "`per_client`", 1000.0),
    ] {
        for callers in ["256", "2048"] {
            add(
                format!("{what}, {callers} callers: decisions/s, over Redisson's"),
                Wanted::Times(times),
                over(
                    measured.figure(name, callers, peer, "per_s"),
                    best_redisson(measured, name, callers).0,
                ),
            );
        }
    }
    add(
        "refused, one caller: median latency".to_owned(),
        Wanted::AtMost(1.0, " µs"),
        ours("refused", "1", "p50_us"),
    );
    in_process(measured, &mut add);
    scripts(measured, &mut add);
    memory(measured, &mut add);
    compiled(measured, &mut add);
    waiters(measured, &mut add);
    goals
}

fn in_process(measured: &Measured, add: &mut impl FnMut(String, Wanted, Option<f64>)) {
    let ns = |group: &str, peer: &str| measured.figure("in_process", group, peer, "ns");
    for (keys, what) in [("direct", "embedded, one key"), ("keyed", "embedded, 100 000 keys")] {
        for answer in ["allowed", "refused"] {
            let group = format!("{keys}_{answer}/1");
            add(
                format!("{what}, {answer}: time, over governor's"),
                Wanted::Ratio(1.0),
                over(ns(&group, "ours"), ns(&group, "governor")),
            );
        }
    }
    for (group, keys, peer, bucket, window) in [
        ("annotated_one/1", "one key", "governor", 1.2, 1.6),
        ("annotated_many/1", "100 000 keys", "governor_text", 1.0, 1.3),
    ] {
        for (ours, rule, most) in
            [("ours_bucket", "token bucket", bucket), ("ours_window", "sliding window", window)]
        {
            add(
                format!("annotated function, {keys}, {rule}: time, over governor's"),
                Wanted::Ratio(most),
                over(ns(group, ours), ns(group, peer)),
            );
        }
    }
    for key in ["fixed", "templated"] {
        let group = format!("attribute_{key}/1");
        let more = ns(&group, "annotated").zip(ns(&group, "by_hand"));
        add(
            format!("attribute, {key} key: time beyond a call by hand"),
            Wanted::AtMost(30.0, " ns"),
            more.map(|(annotated, by_hand)| annotated - by_hand),
        );
    }
}

fn scripts(measured: &Measured, add: &mut impl FnMut(String, Wanted, Option<f64>)) {
    for rule in ["token_bucket", "leaky_bucket", "fixed_window"] {
        for (load, most) in [("steady", 1.3), ("first", 2.0)] {
            add(
                format!("`{rule}`, {load}: time in Redis, over a bare GCRA script"),
                Wanted::Ratio(most),
                measured.figure("scripts", load, rule, "ratio"),
            );
        }
    }
}

fn memory(measured: &Measured, add: &mut impl FnMut(String, Wanted, Option<f64>)) {
    let bytes = |load, kind, how| measured.figure("memory", load, kind, how);
    add(
        "embedded store: memory of a limiter that was used once".to_owned(),
        Wanted::AtMost(300.0, " bytes"),
        bytes("1_100_000", "keys", "each"),
    );
    add(
        "`token_bucket`: memory of a limiter in Redis, by `MEMORY USAGE`".to_owned(),
        Wanted::AtMost(250.0, " bytes"),
        bytes("Redis", "token_bucket", "usage"),
    );
    for (store, (whole, grown), what) in [
        ("growth_embedded", ("process", "process"), "embedded store: memory of the process"),
        ("growth_embedded", ("process", "heap"), "embedded store: memory in use by the process"),
        ("growth_redis", ("server", "server"), "on Redis: memory of the server"),
    ] {
        let before = measured.figure(store, "before", "keys", whole);
        let more = measured.figure(store, "later", "keys", grown);
        let later = before.zip(more).map(|(before, more)| before + more);
        add(
            format!("{what} after a million keys, over that before"),
            Wanted::Ratio(1.1),
            over(later, before),
        );
    }
    for (how, what) in [("each", "the growth of the server"), ("usage", "`MEMORY USAGE`")] {
        add(
            format!("`token_bucket`: memory of a limiter in Redis, over Redisson's, by {what}"),
            Wanted::Ratio(0.65),
            over(bytes("Redis", "token_bucket", how), bytes("Redis", "redisson", how)),
        );
    }
}

fn compiled(measured: &Measured, add: &mut impl FnMut(String, Wanted, Option<f64>)) {
    for (command, name, what, most, unit) in [
        ("check", "crates", "crates of a program with the default features", 75.0, ""),
        ("check", "each_ms", "annotated function: processor time of `cargo check`", 2.0, " ms"),
        ("build", "each_bytes", "annotated function: size in a release build", 1024.0, " bytes"),
    ] {
        let figure = measured.figure("compile", command, "program", name);
        add(what.to_owned(), Wanted::AtMost(most, unit), figure);
    }
}

fn waiters(measured: &Measured, add: &mut impl FnMut(String, Wanted, Option<f64>)) {
    let figure = |name| measured.figure("waiters", "1000", "ours", name);
    add(
        "1000 waiters: script calls per grant".to_owned(),
        Wanted::AtMost(1.2, ""),
        figure("scripts"),
    );
    add(
        "1000 waiters: grants, of what the limit allows".to_owned(),
        Wanted::Share(0.99),
        figure("share"),
    );
    add(
        "1000 waiters: grants out of order".to_owned(),
        Wanted::AtMost(0.0, ""),
        figure("overtakings"),
    );
}

/// Redisson's decisions a second and p99 by whichever of its calls gets further.
fn best_redisson(measured: &Measured, name: &str, callers: &str) -> (Option<f64>, Option<f64>) {
    let rate = |peer| measured.figure(name, callers, peer, "per_s");
    let peers = ["redisson", "redisson_threads"];
    let best = peers.into_iter().filter(|peer| rate(peer).is_some());
    let best = best.max_by(|one, other| {
        f64::total_cmp(&rate(one).unwrap_or(0.0), &rate(other).unwrap_or(0.0))
    });
    let Some(best) = best else { return (None, None) };
    (rate(best), measured.figure(name, callers, best, "p99_us"))
}

fn over(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    one.zip(other).filter(|(_, other)| *other > 0.0).map(|(one, other)| one / other)
}
