//! docs/memory.svg: what a million keys take, by how many were used.

use std::fmt::Write;

use super::{
    Measured,
    chart::{STYLE, text},
};

/// The lines: the results, the figure, what it is, and a colour that shows on white and on black.
const LINES: [(&str, &str, &str, &str); 3] = [
    ("growth_embedded", "process", "embedded store: the process", "#2f81f7"),
    ("growth_redis", "process", "on Redis: the process", "#8957e5"),
    ("growth_redis", "server", "on Redis: the server", "#da3633"),
];
const WIDTH: f64 = 880.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 60.0;
const PLOT: (f64, f64) = (680.0, 220.0);
/// Where what is left later is drawn.
const LATER: f64 = LEFT + PLOT.0 + 80.0;
const MILLION: f64 = 1_000_000.0;

/// What one line goes through: keys used and bytes, then the bytes that are left later.
struct Line {
    points: Vec<(f64, f64)>,
    later: f64,
}

/// `None` if nothing was measured.
pub(super) fn draw(measured: &Measured) -> Option<String> {
    let lines = LINES.map(|(name, figure, text, colour)| {
        Line::of(measured, name, figure).map(|line| (line, text, colour))
    });
    let lines: Vec<_> = lines.into_iter().flatten().collect();
    let most = lines.iter().flat_map(|(line, ..)| &line.points).map(|(_, bytes)| *bytes);
    let most = (most.reduce(f64::max)? / 1e8).ceil() * 1e8;
    let at = |keys: f64, bytes: f64| {
        (LEFT + PLOT.0 * keys / MILLION, TOP + PLOT.1 * (1.0 - bytes.max(0.0) / most))
    };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         role=\"img\" aria-label=\"memory of a million keys\">\n<style>{STYLE}</style>\n"
    );
    text(&mut svg, (LEFT, 20.0), "head", "Memory of a million keys that were used once");
    for step in 0..=5 {
        let bytes = most * f64::from(step) / 5.0;
        let y = at(0.0, bytes).1;
        line(&mut svg, (LEFT, y), (LATER + 30.0, y));
        text(&mut svg, (8.0, y + 4.0), "", &format!("{:.0} MB", bytes / 1e6));
        let x = at(MILLION * f64::from(step) / 5.0, 0.0).0;
        text(&mut svg, (x - 12.0, TOP + PLOT.1 + 18.0), "", &format!("{}k", 200 * step));
    }
    text(&mut svg, (LATER - 28.0, TOP + PLOT.1 + 18.0), "", "later");
    for (n, (line, name, colour)) in lines.iter().enumerate() {
        let x = LEFT + 240.0 * n as f64;
        dot(&mut svg, (x + 5.0, 38.0), colour);
        text(&mut svg, (x + 15.0, 42.0), "", name);
        let points = std::iter::once(&(0.0, 0.0)).chain(&line.points);
        let points = points.map(|(keys, bytes)| at(*keys, *bytes));
        let points: Vec<_> = points.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        writeln!(svg, "<polyline points=\"{}\" stroke=\"{colour}\"/>", points.join(" "))
            .expect("a string takes it");
        dot(&mut svg, (LATER, at(0.0, line.later).1), colour);
    }
    Some(svg + "</svg>\n")
}

impl Line {
    fn of(measured: &Measured, name: &str, figure: &str) -> Option<Self> {
        let rows = &measured.of(name)?.rows;
        let points =
            rows.iter().filter_map(|row| Some((row.load.parse().ok()?, row.figure(figure)?)));
        Some(Self {
            points: points.collect(),
            later: measured.figure(name, "later", "keys", figure)?,
        })
    }
}

fn line(svg: &mut String, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
    writeln!(svg, "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>")
        .expect("a string takes it");
}

fn dot(svg: &mut String, (x, y): (f64, f64), colour: &str) {
    writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"/>")
        .expect("a string takes it");
}
