//! The calls that each algorithm admits from the same load: a table, and with `docs` the plot and the
//! table of docs/algorithms.md. The embedded store decides, with a clock that is moved by hand.
//!
//!     cargo run -p examples --example algorithms
//!     cargo run -p examples --example algorithms -- docs docs

use std::{error::Error, fmt::Write, fs, path::Path, time::Duration};

use ratelimit_runtime::{Limits, Quota, test_util::ManualClock};

const PER_MS: u64 = 1_000;
const END_MS: u64 = 8_000;

/// Calls that come alike: how many every so often, and what each costs.
struct Phase {
    name: &'static str,
    /// The time of the first and of the last one, and between two, in milliseconds.
    times: (u64, u64, u64),
    together: u64,
    permits: u32,
}

const PHASES: [Phase; 5] = [
    // Windows of a second end at full seconds.
    phase("12 at 0.9 s", (900, 900, 1), 12, 1),
    phase("12 at 1.1 s", (1_100, 1_100, 1), 12, 1),
    phase("20 a second until 4 s", (1_500, 3_950, 50), 1, 1),
    phase("25 at 6 s", (6_000, 6_000, 1), 25, 1),
    phase("10 a second of cost 3", (6_500, 7_900, 100), 1, 3),
];

const fn phase(name: &'static str, times: (u64, u64, u64), together: u64, permits: u32) -> Phase {
    Phase { name, times, together, permits }
}

/// One call and its outcome.
struct Call {
    phase: usize,
    at: u64,
    permits: u64,
    admitted: bool,
}

/// The decisions of one algorithm for all calls.
struct Plot {
    name: &'static str,
    colour: &'static str,
    calls: Vec<Call>,
}

async fn run(quota: Quota) -> Result<Vec<Call>, Box<dyn Error>> {
    let clock = ManualClock::new();
    let limits = Limits::builder().memory().clock(clock.clone()).no_limits_file().build().await?;
    let limiter = limits.limiter("calls", quota);
    let (mut now, mut calls) = (0, Vec::new());
    for (phase, Phase { times: (first, last, every), together, permits, .. }) in
        PHASES.iter().enumerate()
    {
        let times = (*first..=*last).step_by(usize::try_from(*every)?);
        for at in times.flat_map(|at| (0..*together).map(move |_| at)) {
            clock.advance(Duration::from_millis(at - now));
            now = at;
            let admitted = limiter.try_acquire((*permits).into()).await.is_ok();
            calls.push(Call { phase, at, permits: (*permits).into(), admitted });
        }
    }
    Ok(calls)
}

impl Plot {
    async fn of(
        name: &'static str,
        colour: &'static str,
        quota: Quota,
    ) -> Result<Self, Box<dyn Error>> {
        Ok(Self { name, colour, calls: run(quota).await? })
    }

    fn admitted(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(|call| call.admitted)
    }

    fn total(&self) -> u64 {
        self.admitted().map(|call| call.permits).sum()
    }

    fn permits_in(&self, phase: usize) -> u64 {
        self.admitted().filter(|call| call.phase == phase).map(|call| call.permits).sum()
    }

    /// The most permits in any window of length `per`.
    fn most(&self) -> u64 {
        let since = |end: &Call| {
            let inside = |call: &&Call| call.at <= end.at && call.at + PER_MS > end.at;
            self.admitted().filter(inside).map(|call| call.permits).sum()
        };
        self.admitted().map(since).max().unwrap_or(0)
    }
}

fn table(plots: &[Plot]) -> String {
    let heads: String = PHASES.iter().map(|phase| format!(" {} |", phase.name)).collect();
    let mut table = format!(
        "| permits admitted |{heads} all | most in any second |\n|---|{}\n",
        "---:|".repeat(PHASES.len() + 2)
    );
    let asked = |phase: usize| -> u64 {
        let calls = plots[0].calls.iter().filter(|call| call.phase == phase);
        calls.map(|call| call.permits).sum()
    };
    let row = |name: &str, of: &dyn Fn(usize) -> u64, most: &str| {
        let cells: String = (0..PHASES.len()).map(|phase| format!(" {} |", of(phase))).collect();
        let all: u64 = (0..PHASES.len()).map(of).sum();
        format!("| {name} |{cells} {all} | {most} |\n")
    };
    table += &row("asked for", &asked, "");
    for plot in plots {
        let of = |phase: usize| plot.permits_in(phase);
        let algorithm = plot.name.split(',').next().unwrap_or_default();
        let name = plot.name.replacen(algorithm, &format!("`{algorithm}`"), 1);
        table += &row(&name, &of, &plot.most().to_string());
    }
    table
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let ten = Quota::new(10, Duration::from_millis(PER_MS))?;
    // Each with a colour that shows on white and on black.
    let plots = [
        Plot::of("sliding_window", "#2f81f7", ten).await?,
        Plot::of("token_bucket, burst 5", "#8957e5", ten.token_bucket(5)?).await?,
        Plot::of("token_bucket, burst 20", "#bf8700", ten.token_bucket(20)?).await?,
        Plot::of(
            "token_bucket, warm-up 1s",
            "#3fb950",
            ten.warming_bucket(Duration::from_secs(1))?,
        )
        .await?,
        Plot::of("fixed_window", "#db6d28", ten.fixed_window()).await?,
        Plot::of("leaky_bucket", "#768390", ten.leaky_bucket()?).await?,
    ];
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => print!("{}", table(&plots)),
        ["docs", folder] => write_docs(Path::new(folder), &plots)?,
        _ => return Err("write nothing, or `docs` and a folder".into()),
    }
    Ok(())
}

/// Writes the plot, and the table between its markers.
fn write_docs(folder: &Path, plots: &[Plot]) -> Result<(), Box<dyn Error>> {
    const MARKERS: (&str, &str) = ("<!-- table -->\n", "<!-- end of the table -->\n");
    fs::write(folder.join("algorithms.svg"), draw(plots))?;
    let page = folder.join("algorithms.md");
    let text = fs::read_to_string(&page)?;
    let (before, rest) = text.split_once(MARKERS.0).ok_or("no marker before the table")?;
    let (_, after) = rest.split_once(MARKERS.1).ok_or("no marker after the table")?;
    let table = table(plots);
    fs::write(page, format!("{before}{}{table}{}{after}", MARKERS.0, MARKERS.1))?;
    Ok(())
}

const WIDTH: u64 = 880;
const LEFT: u64 = 30;
/// A row of calls, and a permit in it.
const ROW: u64 = 112;
const UNIT: u64 = 3;
/// The lines of what was admitted up to a time, and a permit in them.
const LINES: u64 = 240;

const STYLE: &str = "\
text { font: 12px sans-serif; fill: #57606a } \
.head { font-size: 15px; font-weight: bold } \
.refused { fill: none; stroke: #da3633; stroke-width: 0.7 } \
line { stroke: #8b949e; stroke-opacity: 0.4 } \
polyline { fill: none; stroke-width: 2 } \
@media (prefers-color-scheme: dark) { text { fill: #adbac7 } }";

fn x(ms: u64) -> u64 {
    LEFT + (WIDTH - 2 * LEFT) * ms / END_MS
}

fn draw(plots: &[Plot]) -> String {
    let rows = 60 + ROW * plots.len() as u64;
    let height = rows + LINES + 40;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         role=\"img\" aria-label=\"calls each algorithm admits\">\n<style>{STYLE}</style>\n\
         <text x=\"{LEFT}\" y=\"22\" class=\"head\">The same calls at 10 permits per second: admitted (filled), refused (outlined)</text>\n"
    );
    for (n, plot) in (1..).zip(plots) {
        draw_calls(&mut svg, 40 + ROW * n, plot);
    }
    draw_lines(&mut svg, rows + LINES, plots);
    svg + "</svg>\n"
}

fn draw_calls(svg: &mut String, base: u64, plot: &Plot) {
    let Plot { name, colour, calls } = plot;
    axis(svg, base);
    text(svg, (LEFT, base - ROW + 30), &format!("{name}: {} permits", plot.total()));
    let (mut last, mut stacked) = (0, 0);
    for call in calls {
        stacked = if call.at == last { stacked } else { 0 };
        last = call.at;
        let high = call.permits * UNIT - 1;
        let (x, y) = (x(call.at), base - stacked * UNIT - high - 1);
        let look = match call.admitted {
            true => format!("fill=\"{colour}\""),
            false => "class=\"refused\"".to_owned(),
        };
        writeln!(svg, "<rect x=\"{x}\" y=\"{y}\" width=\"4\" height=\"{high}\" {look}/>")
            .expect("a string takes it");
        stacked += call.permits;
    }
}

fn draw_lines(svg: &mut String, base: u64, plots: &[Plot]) {
    axis(svg, base);
    text(svg, (LEFT, base - LINES + 30), "permits admitted so far");
    for (n, plot) in (0..).zip(plots) {
        let (colour, mut total) = (plot.colour, 0);
        let mut points = format!("{},{base}", x(0));
        for call in plot.admitted() {
            let y = |total: u64| base - 2 * total;
            write!(points, " {},{}", x(call.at), y(total)).expect("a string takes it");
            total += call.permits;
            write!(points, " {},{}", x(call.at), y(total)).expect("a string takes it");
        }
        writeln!(
            svg,
            "<polyline points=\"{points} {},{}\" stroke=\"{colour}\"/>",
            x(END_MS),
            base - 2 * total
        )
        .expect("a string takes it");
        let y = base - LINES + 48 + 18 * n;
        writeln!(
            svg,
            "<rect x=\"{LEFT}\" y=\"{}\" width=\"12\" height=\"12\" fill=\"{colour}\"/>",
            y - 10
        )
        .expect("a string takes it");
        text(svg, (LEFT + 17, y), plot.name);
    }
}

/// A line with the seconds, in which the windows of a fixed window end.
fn axis(svg: &mut String, base: u64) {
    writeln!(svg, "<line x1=\"{}\" x2=\"{}\" y1=\"{base}\" y2=\"{base}\"/>", x(0), x(END_MS))
        .expect("a string takes it");
    for second in 0..=END_MS / PER_MS {
        let x = x(second * PER_MS);
        writeln!(svg, "<line x1=\"{x}\" x2=\"{x}\" y1=\"{}\" y2=\"{}\"/>", base - 6, base + 4)
            .expect("a string takes it");
        text(svg, (x - 6, base + 16), &format!("{second} s"));
    }
}

fn text(svg: &mut String, (x, y): (u64, u64), text: &str) {
    writeln!(svg, "<text x=\"{x}\" y=\"{y}\">{text}</text>").expect("a string takes it");
}
