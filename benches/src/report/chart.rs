//! docs/benchmarks.svg: decisions per second, a panel for each workload.

use std::fmt::Write;

use super::{Measured, shown};
use crate::results::Results;

const PANELS: [(&str, &str); 4] = [
    ("hot", "one key, always allowed"),
    ("refused", "one key, always refused"),
    ("keys", "100 000 keys, always allowed"),
    ("per_client", "one key, counted per client"),
];
/// Peers with their colours, which show on white and on black.
const PEERS: [(&str, &str); 6] = [
    ("ours", "#2f81f7"),
    ("bare", "#8957e5"),
    ("naive", "#bf8700"),
    ("redisson", "#da3633"),
    ("redisson_threads", "#db6d28"),
    ("governor", "#768390"),
];
const CALLERS: [&str; 4] = ["1", "16", "256", "2048"];

const WIDTH: f64 = 880.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 70.0;
const PANEL: f64 = 230.0;
const PLOT: f64 = 160.0;
const BAR: f64 = 30.0;
/// The decades of the axis: a thousand to a hundred million.
const DECADES: (i32, i32) = (3, 8);

/// Of all charts.
pub(super) const STYLE: &str = "\
text { font: 12px sans-serif; fill: #57606a } \
.head { font-size: 15px; font-weight: bold } \
.value { font-size: 10px } \
line { stroke: #8b949e; stroke-opacity: 0.4 } \
polyline { fill: none; stroke-width: 2 } \
@media (prefers-color-scheme: dark) { text { fill: #adbac7 } }";

pub(super) fn draw(measured: &Measured) -> String {
    let panels: Vec<_> =
        PANELS.iter().filter_map(|(name, head)| Some((*head, measured.of(name)?))).collect();
    let height = TOP + PANEL * panels.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         role=\"img\" aria-label=\"decisions per second\">\n<style>{STYLE}</style>\n"
    );
    text(&mut svg, (LEFT, 22.0), "head", "Decisions per second, by number of callers (log scale)");
    legend(&mut svg);
    for (at, (head, results)) in panels.iter().enumerate() {
        panel(&mut svg, TOP + PANEL * at as f64, head, results);
    }
    svg + "</svg>\n"
}

fn legend(svg: &mut String) {
    for (at, (peer, colour)) in PEERS.iter().enumerate() {
        let x = LEFT + 135.0 * at as f64;
        rect(svg, (x, 36.0), (12.0, 12.0), colour, peer);
        text(svg, (x + 17.0, 46.0), "", &shown(peer).replace('`', ""));
    }
}

fn panel(svg: &mut String, top: f64, head: &str, results: &Results) {
    text(svg, (LEFT, top + 14.0), "head", head);
    let base = top + 24.0 + PLOT;
    for decade in DECADES.0..=DECADES.1 {
        let y = base - height(10_f64.powi(decade));
        let right = WIDTH - 10.0;
        writeln!(svg, "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>")
            .expect("a string takes it");
        text(svg, (14.0, y + 4.0), "", &short(10_f64.powi(decade)).replace(".0", ""));
    }
    for (group, callers) in CALLERS.iter().enumerate() {
        let left = LEFT + 8.0 + (WIDTH - LEFT - 10.0) / CALLERS.len() as f64 * group as f64;
        let callers_shown =
            if *callers == "1" { "1 caller" } else { &format!("{callers} callers") };
        text(svg, (left, base + 17.0), "", callers_shown);
        let bars = PEERS.iter().filter_map(|(peer, colour)| {
            Some((peer, colour, results.figure(callers, peer, "per_s")?))
        });
        for (at, (peer, colour, value)) in bars.enumerate() {
            let (x, high) = (left + (BAR + 2.0) * at as f64, height(value));
            let title = format!("{}: {value:.0}/s", shown(peer));
            rect(svg, (x, base - high), (BAR, high), colour, &title);
            text(svg, (x + 2.0, base - high - 3.0), "value", &short(value));
        }
    }
}

/// How high a bar is, by the logarithm of its value.
fn height(value: f64) -> f64 {
    let (low, high) = (f64::from(DECADES.0), f64::from(DECADES.1));
    ((value.max(1.0).log10() - low) / (high - low)).clamp(0.0, 1.0) * PLOT
}

fn short(value: f64) -> String {
    match value {
        1e6.. => format!("{:.*}M", usize::from(value < 1e7), value / 1e6),
        1e3.. => format!("{:.*}k", usize::from(value < 1e4), value / 1e3),
        _ => format!("{value:.0}"),
    }
}

fn rect(svg: &mut String, (x, y): (f64, f64), (wide, high): (f64, f64), colour: &str, title: &str) {
    writeln!(
        svg,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"{high:.1}\" \
         fill=\"{colour}\"><title>{title}</title></rect>"
    )
    .expect("a string takes it");
}

pub(super) fn text(svg: &mut String, (x, y): (f64, f64), class: &str, text: &str) {
    writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{text}</text>")
        .expect("a string takes it");
}
