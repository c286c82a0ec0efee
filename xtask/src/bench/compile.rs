//! `cargo xtask bench compile`: the build cost that the runtime and the attribute add to a program.
//!
//! Measures processor time, because wall-clock time depends on the number of cores.

use std::{collections::BTreeSet, fs, path::PathBuf};

use super::{Row, none, results, write_results};
use crate::{
    Failed, Outcome,
    shell::{cargo, output, root, run, say, write_file},
};

const FUNCTIONS: usize = 100;
/// The number of builds, of which the fastest counts.
const TIMES: usize = 4;

const MANIFEST: &str = r#"[package]
name = "compiled"
version = "0.0.0"
edition = "2024"

[dependencies]
inventory = "0.3"
ratelimit-runtime = { path = "ROOT/ratelimit-runtime" }

[profile.release]
strip = true

[workspace]
"#;

const MAIN: &str = r#"
struct Entry(u32);
inventory::collect!(Entry);

fn main() {
    use std::{future::Future, pin::pin, task::{Context, Waker}};
    let _ = inventory::iter::<Entry>().map(|entry| entry.0).sum::<u32>();
    let _ = pin!(all()).as_mut().poll(&mut Context::from_waker(Waker::noop()));
}
"#;

/// What the functions have besides their bodies.
#[derive(Clone, Copy)]
enum Extra {
    Nothing,
    /// The first ones have the attribute, every other one of them with a placeholder.
    Attribute(usize),
    /// The least that an attribute can expand to which is registered, waits, and returns on an error.
    Least,
}

pub(super) fn measure(arguments: &[String]) -> Outcome {
    none(arguments)?;
    let project = Project::create()?;
    let mut rows = Vec::new();
    for command in ["check", "build"] {
        project.write(Extra::Nothing)?;
        let cold = project.cold(command)?;
        let plain = project.warm(command)?;
        let each_ms = |extra| {
            project.write(extra)?;
            Ok((project.warm(command)? - plain) * 1000.0 / FUNCTIONS as f64)
        };
        let least_ms = each_ms(Extra::Least)?;
        let each_ms = each_ms(Extra::Attribute(FUNCTIONS))?;
        say(&format!(
            "{command}: {cold:.1} s cold, {each_ms:.1} ms for each annotated function, of which an entry and an \
             `.await?` alone take {least_ms:.1} ms"
        ));
        let crates = project.crates()?;
        let mut figures = vec![
            ("cold_s", cold),
            ("each_ms", each_ms),
            ("least_ms", least_ms),
            ("crates", crates),
        ];
        if command == "build" {
            let bytes = project.bytes_each()?;
            say(&format!("build --release: {bytes:.0} bytes for each annotated function"));
            figures.push(("each_bytes", bytes));
        }
        rows.push(Row { what: command, of: "program".to_owned(), figures });
    }
    write_results("compile", "cargo xtask bench compile", &rows)
}

/// A program with functions, in a workspace of its own.
struct Project(PathBuf);

impl Project {
    fn create() -> Result<Self, Failed> {
        let project = Self(results().join("compile"));
        let manifest = MANIFEST.replace("ROOT", &root().display().to_string());
        fs::create_dir_all(project.0.join("src")).map_err(|error| {
            eprintln!("cannot create {}: {error}", project.0.display());
            Failed
        })?;
        write_file(&project.0.join("Cargo.toml"), &manifest)?;
        // The versions of the workspace.
        let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap_or_default();
        write_file(&project.0.join("Cargo.lock"), &lock)?;
        Ok(project)
    }

    /// Writes the functions.
    fn write(&self, extra: Extra) -> Outcome {
        let mut text = "use ratelimit_runtime::Rejection;\n".to_owned();
        let mut calls = String::new();
        for number in 0..FUNCTIONS {
            let (attribute, line) = match extra {
                Extra::Attribute(annotated) if number < annotated => {
                    let value = if number % 2 == 0 { ":{id}" } else { "" };
                    let attribute = format!(
                        "#[ratelimit_runtime::rate_limit(key = \"f{number}{value}\", rate = 10, \
                         per = \"1s\", wait = \"none\")]\n"
                    );
                    (attribute, String::new())
                }
                Extra::Least => {
                    let line = format!(
                        "inventory::submit! {{ Entry({number}) }} \
                         std::future::ready(Ok::<(), Rejection>(())).await?; "
                    );
                    (String::new(), line)
                }
                Extra::Nothing | Extra::Attribute(_) => Default::default(),
            };
            text += &format!(
                "{attribute}async fn f{number}(id: u64) -> Result<u64, Rejection> \
                 {{ {line}Ok(id + {number}) }}\n"
            );
            calls += &format!("    f{number}(1).await?;\n");
        }
        text +=
            &format!("async fn all() -> Result<(), Rejection> {{\n{calls}    Ok(())\n}}\n{MAIN}");
        write_file(&self.0.join("src/main.rs"), &text)
    }

    /// Returns the processor seconds of a full build.
    fn cold(&self, command: &str) -> Result<f64, Failed> {
        let _ = fs::remove_dir_all(self.0.join("target"));
        // Fetching is not measured.
        run(&mut self.cargo("fetch"))?;
        self.seconds(command)
    }

    /// Returns the processor seconds of a build of the functions alone.
    fn warm(&self, command: &str) -> Result<f64, Failed> {
        let source = self.0.join("src/main.rs");
        let text = fs::read_to_string(&source).unwrap_or_default();
        let mut least = f64::MAX;
        for time in 0..TIMES {
            write_file(&source, &format!("{text}// {time}\n"))?;
            least = least.min(self.seconds(command)?);
        }
        Ok(least)
    }

    /// Returns the bytes that an annotated function adds to an optimized program that already has two.
    fn bytes_each(&self) -> Result<f64, Failed> {
        // The first ones include the cost of the runtime.
        const FIRST: usize = 2;
        let mut bytes = [0; 2];
        for (bytes, annotated) in bytes.iter_mut().zip([FIRST, FUNCTIONS]) {
            self.write(Extra::Attribute(annotated))?;
            run(self.cargo("build").arg("--release"))?;
            let program = self.0.join("target/release/compiled");
            let found = fs::metadata(&program).map_err(|error| {
                eprintln!("cannot read {}: {error}", program.display());
                Failed
            })?;
            *bytes = found.len();
        }
        Ok((bytes[1] as f64 - bytes[0] as f64) / (FUNCTIONS - FIRST) as f64)
    }

    fn seconds(&self, command: &str) -> Result<f64, Failed> {
        let before = of_children();
        run(&mut self.cargo(command))?;
        Ok(of_children() - before)
    }

    fn crates(&self) -> Result<f64, Failed> {
        let mut tree = self.cargo("tree");
        tree.args(["--prefix", "none", "--edges", "normal,build"]);
        let tree = tree.output().map_err(|error| {
            eprintln!("cannot run cargo: {error}");
            Failed
        })?;
        let text = String::from_utf8_lossy(&tree.stdout).replace(" (*)", "");
        let crates: BTreeSet<&str> = text.lines().filter(|line| !line.is_empty()).collect();
        // The program itself does not count.
        Ok(crates.len().saturating_sub(1) as f64)
    }

    fn cargo(&self, name: &str) -> std::process::Command {
        let mut command = cargo(&[name, "--quiet", "--manifest-path"]);
        command.arg(self.0.join("Cargo.toml")).env("CARGO_INCREMENTAL", "0");
        command.env("CARGO_TARGET_DIR", self.0.join("target"));
        command
    }
}

/// Returns the processor seconds of all ended child processes and their children.
fn of_children() -> f64 {
    let ticks = output("getconf", &["CLK_TCK"]).and_then(|ticks| ticks.parse().ok());
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The fields after the name, which may contain spaces.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let used: f64 = fields.skip(13).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    used / ticks.unwrap_or(100.0)
}
