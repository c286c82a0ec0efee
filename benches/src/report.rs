//! docs/benchmarks.md: the template with what lies in `target/bench`.

mod chart;
mod goals;
mod growth;
mod machine;
mod tables;

use std::{fs, io, path::Path};

use crate::results::Results;

const TEMPLATE: &str = include_str!("../report.md");

/// Everything that was measured here, workload by workload.
#[derive(Debug)]
pub struct Measured(Vec<(String, Results)>);

impl Measured {
    fn read(folder: &Path) -> Self {
        let names = crate::workloads::NAMES.iter().chain(&[
            "in_process",
            "scripts",
            "memory",
            "growth_embedded",
            "growth_redis",
            "instructions",
            "compile",
        ]);
        let read = |name: &&str| Some(((*name).to_owned(), Results::read(folder, name)?));
        Self(names.filter_map(read).collect())
    }

    fn of(&self, name: &str) -> Option<&Results> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, results)| results)
    }

    fn figure(&self, name: &str, load: &str, peer: &str, figure: &str) -> Option<f64> {
        self.of(name)?.figure(load, peer, figure)
    }
}

/// Writes the page and its chart of what lies in `results` to another folder, and gives the table of
/// goals.
///
/// # Errors
///
/// Why they cannot be written.
pub fn write(results: &Path, folder: &Path) -> io::Result<String> {
    let measured = Measured::read(results);
    let mut page = TEMPLATE.to_owned();
    for (place, text) in [
        ("{machine}", machine::describe(&measured)),
        ("{goals}", goals::table(&measured)),
        ("{in_process}", tables::in_process(&measured)),
        ("{scripts}", tables::scripts(&measured)),
        ("{memory}", tables::memory(&measured)),
        ("{instructions}", tables::instructions(&measured)),
        ("{one_caller}", tables::one_caller(&measured)),
        ("{waiters}", tables::waiters(&measured)),
        ("{open_loop}", tables::open_loop(&measured)),
        ("{compile}", tables::compile(&measured)),
        ("{hot}", tables::closed_loop(&measured, "hot")),
        ("{refused}", tables::closed_loop(&measured, "refused")),
        ("{keys}", tables::closed_loop(&measured, "keys")),
        ("{per_client}", tables::closed_loop(&measured, "per_client")),
    ] {
        page = page.replace(place, text.trim_end());
    }
    fs::write(folder.join("benchmarks.md"), page)?;
    fs::write(folder.join("benchmarks.svg"), chart::draw(&measured))?;
    if let Some(plot) = growth::draw(&measured) {
        fs::write(folder.join("memory.svg"), plot)?;
    }
    Ok(goals::table(&measured))
}

/// Returns the name of a peer in the page.
fn shown(peer: &str) -> &str {
    match peer {
        "bare" => "bare `EVALSHA`",
        "gcra" => "bare GCRA",
        "naive" => "check, then act",
        "redisson" => "Redisson, async",
        "redisson_threads" => "Redisson, threads",
        "governor_text" => "governor, text keys",
        "ours_buckets" => "ours, token buckets",
        "ours_by_name" => "ours, by name",
        "by_hand" => "by hand",
        other => other,
    }
}
