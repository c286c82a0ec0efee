//! The figures, part by part.

use std::fmt::Write;

use super::{Measured, shown};
use crate::results::{Results, Row};

const ABSENT: &str = "Not measured yet.\n";

/// A column of a table: its head, and what it shows of a row.
type Column = (&'static str, fn(&Row) -> String);

pub(super) fn closed_loop(measured: &Measured, name: &str) -> String {
    let columns: &[Column] = &[
        ("callers", |row| count(row.load.parse().ok())),
        ("", |row| shown(&row.peer).to_owned()),
        ("decisions/s", |row| count(row.figure("per_s"))),
        ("p50", |row| time(row.figure("p50_us"))),
        ("p99", |row| time(row.figure("p99_us"))),
        ("p99.9", |row| time(row.figure("p999_us"))),
        ("in scripts", |row| time(row.figure("script_us"))),
        ("Redis CPU", |row| time(row.figure("cpu_us"))),
        ("scripts", |row| decimal(row.figure("scripts"))),
        ("commands", |row| decimal(row.figure("commands"))),
        ("log, bytes", |row| count(row.figure("log_bytes"))),
    ];
    let Some(results) = measured.of(name) else { return ABSENT.to_owned() };
    table(results, columns) + &failures(results)
}

pub(super) fn open_loop(measured: &Measured) -> String {
    let columns: &[Column] = &[
        ("arrivals/s", |row| count(row.load.parse().ok())),
        ("", |row| shown(&row.peer).to_owned()),
        ("decisions/s", |row| count(row.figure("per_s"))),
        ("p50", |row| time(row.figure("p50_us"))),
        ("p99", |row| time(row.figure("p99_us"))),
        ("p99.9", |row| time(row.figure("p999_us"))),
    ];
    let Some(results) = measured.of("open_loop") else { return ABSENT.to_owned() };
    table(results, columns) + &failures(results)
}

pub(super) fn one_caller(measured: &Measured) -> String {
    let columns: &[Column] = &[
        ("", |row| shown(&row.peer).to_owned()),
        ("p50", |row| time(row.figure("p50_us"))),
        ("p99", |row| time(row.figure("p99_us"))),
    ];
    measured.of("one_caller").map_or(ABSENT.to_owned(), |results| table(results, columns))
}

pub(super) fn waiters(measured: &Measured) -> String {
    let columns: &[Column] = &[
        ("", |row| row.peer.clone()),
        ("grants", |row| count(row.figure("grants"))),
        ("of the limit", |row| percent(row.figure("share"))),
        ("out of order", |row| count(row.figure("overtakings"))),
        ("scripts per grant", |row| decimal(row.figure("scripts"))),
        ("Redis CPU per grant", |row| time(row.figure("cpu_us"))),
    ];
    measured.of("waiters").map_or(ABSENT.to_owned(), |results| table(results, columns))
}

pub(super) fn in_process(measured: &Measured) -> String {
    let Some(results) = measured.of("in_process") else { return ABSENT.to_owned() };
    let mut text = "| | | one thread | two threads |\n|---|---|---:|---:|\n".to_owned();
    for row in &results.rows {
        let Some(group) = row.load.strip_suffix("/1") else { continue };
        let two = results.figure(&format!("{group}/2"), &row.peer, "ns");
        let nanos = |ns: Option<f64>| time(ns.map(|ns| ns / 1000.0));
        let (peer, one, two) = (shown(&row.peer), nanos(row.figure("ns")), nanos(two));
        let group = group_shown(group);
        writeln!(text, "| {group} | {peer} | {one} | {two} |").expect("a string takes it");
    }
    text
}

fn group_shown(group: &str) -> &str {
    match group {
        "direct_allowed" => "one key, allowed",
        "direct_refused" => "one key, refused",
        "keyed_allowed" => "100 000 keys, allowed",
        "keyed_refused" => "100 000 keys, refused",
        "per_client" => "counted per client, over Redis",
        "annotated_one" => "annotated, one key",
        "annotated_many" => "annotated, 100 000 keys",
        "layer_one" => "a request, one key",
        "layer_by_ip" => "a request, 100 000 clients",
        "layer_refused" => "a request, 100 000 clients, refused",
        "attribute_fixed" => "attribute, fixed key",
        "attribute_templated" => "attribute, templated key",
        other => other,
    }
}

pub(super) fn instructions(measured: &Measured) -> String {
    let columns: &[Column] = &[
        ("", |row| format!("`{}`", row.peer)),
        ("instructions", |row| count(row.figure("now"))),
        ("committed", |row| count(row.figure("before"))),
    ];
    measured.of("instructions").map_or(ABSENT.to_owned(), |results| table(results, columns))
}

pub(super) fn scripts(measured: &Measured) -> String {
    let columns: &[Column] = &[
        ("", |row| row.load.clone()),
        ("", |row| shown(&row.peer).to_owned()),
        ("in the script", |row| time(row.figure("script_us"))),
        ("over a bare GCRA", |row| decimal(row.figure("ratio"))),
    ];
    measured.of("scripts").map_or(ABSENT.to_owned(), |results| table(results, columns))
}

pub(super) fn memory(measured: &Measured) -> String {
    let columns: &[Column] = &[
        ("keys", |row| row.load.replace('_', " ")),
        ("", |row| if row.load == "Redis" { row.peer.clone() } else { "embedded".to_owned() }),
        ("all of them", |row| {
            row.figure("bytes").map_or("–".into(), |bytes| format!("{:.0} MB", bytes / 1e6))
        }),
        ("each, bytes", |row| count(row.figure("each"))),
        ("by `MEMORY USAGE`", |row| count(row.figure("usage"))),
    ];
    measured.of("memory").map_or(ABSENT.to_owned(), |results| table(results, columns))
}

pub(super) fn compile(measured: &Measured) -> String {
    let columns: &[Column] = &[
        ("", |row| format!("`cargo {}`", row.load)),
        ("everything, cold", |row| {
            row.figure("cold_s").map_or("–".into(), |s| format!("{s:.1} s"))
        }),
        ("crates", |row| count(row.figure("crates"))),
        ("an annotated function", |row| milliseconds(row.figure("each_ms"))),
        ("least", |row| milliseconds(row.figure("least_ms"))),
        ("its bytes", |row| count(row.figure("each_bytes"))),
    ];
    measured.of("compile").map_or(ABSENT.to_owned(), |results| table(results, columns))
}

fn table(results: &Results, columns: &[Column]) -> String {
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let rule = |(head, _): &Column| if head.is_empty() { "---" } else { "---:" }.to_owned();
    let mut text = row(columns.iter().map(|(head, _)| (*head).to_owned()).collect());
    text += &row(columns.iter().map(rule).collect());
    for result in &results.rows {
        text += &row(columns.iter().map(|(_, show)| show(result)).collect());
    }
    text
}

/// Reports the calls that ended without a decision.
fn failures(results: &Results) -> String {
    let mut text = String::new();
    for row in &results.rows {
        let errors = row.figure("errors").filter(|errors| *errors > 0.0);
        if let Some(errors) = errors {
            let (load, peer) = (&row.load, shown(&row.peer));
            writeln!(
                text,
                "\n{peer} at {load}: {errors} calls failed or were not answered in time."
            )
            .expect("a string takes it");
        }
    }
    text
}

fn time(us: Option<f64>) -> String {
    match us {
        None => "–".to_owned(),
        Some(0.0) => "0".to_owned(),
        Some(us) if us < 1.0 => format!("{:.0} ns", us * 1000.0),
        Some(us) if us < 100.0 => format!("{us:.1} µs"),
        Some(us) if us < 1000.0 => format!("{us:.0} µs"),
        Some(us) => format!("{:.1} ms", us / 1000.0),
    }
}

fn milliseconds(ms: Option<f64>) -> String {
    ms.map_or("–".to_owned(), |ms| format!("{ms:.1} ms"))
}

fn decimal(figure: Option<f64>) -> String {
    figure.map_or("–".to_owned(), |figure| format!("{figure:.2}"))
}

fn percent(share: Option<f64>) -> String {
    share.map_or("–".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

/// A whole number, in groups of three digits.
fn count(figure: Option<f64>) -> String {
    let Some(figure) = figure else { return "–".to_owned() };
    let digits = format!("{figure:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}
