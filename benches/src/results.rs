//! Figures as they lie in `target/bench`: a file of lines for each workload.
//!
//! ```text
//! ran 2026-11-21 09:30 UTC
//! command cargo xtask bench --only hot
//! fact redis-server 7.0.15
//! row 256 ours per_s=123456 p50_us=7.5
//! ```

use std::{fmt::Write, fs, io, path::Path, process::Command};

/// The results of one workload.
#[derive(Clone, Debug, Default)]
pub struct Results {
    pub ran: String,
    pub command: String,
    /// What took part, by name and version.
    pub facts: Vec<(String, String)>,
    pub rows: Vec<Row>,
}

/// One peer at one load.
#[derive(Clone, Debug)]
pub struct Row {
    /// Callers, or arrivals a second, or what was measured.
    pub load: String,
    pub peer: String,
    pub figures: Vec<(String, f64)>,
}

impl Row {
    pub fn figure(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|(other, _)| other == name).map(|(_, figure)| *figure)
    }
}

impl Results {
    /// Results of what is run now by this command.
    pub fn now(command: &str, facts: &[(String, String)]) -> Self {
        let date = Command::new("date").args(["-u", "+%Y-%m-%d %H:%M UTC"]).output();
        let ran = date.map(|date| String::from_utf8_lossy(&date.stdout).trim().to_owned());
        Self {
            ran: ran.unwrap_or_default(),
            command: command.to_owned(),
            facts: facts.to_vec(),
            rows: Vec::new(),
        }
    }

    pub fn add(&mut self, load: impl ToString, peer: &str, figures: &[(&str, f64)]) {
        let figures = figures.iter().map(|(name, figure)| ((*name).to_owned(), *figure)).collect();
        self.rows.push(Row { load: load.to_string(), peer: peer.to_owned(), figures });
    }

    pub fn row(&self, load: &str, peer: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.load == load && row.peer == peer)
    }

    pub fn figure(&self, load: &str, peer: &str, name: &str) -> Option<f64> {
        self.row(load, peer)?.figure(name)
    }

    /// What [`write`](Self::write) writes.
    ///
    /// # Panics
    ///
    /// Never: a string takes all text.
    pub fn text(&self) -> String {
        let mut text = format!("ran {}\ncommand {}\n", self.ran, self.command);
        for (name, value) in &self.facts {
            writeln!(text, "fact {name} {value}").expect("a string takes what is written");
        }
        for Row { load, peer, figures } in &self.rows {
            write!(text, "row {load} {peer}").expect("a string takes what is written");
            for (name, figure) in figures {
                write!(text, " {name}={figure}").expect("a string takes what is written");
            }
            text.push('\n');
        }
        text
    }

    /// # Errors
    ///
    /// Why the file cannot be written.
    pub fn write(&self, folder: &Path, name: &str) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        fs::write(folder.join(name).with_extension("txt"), self.text())
    }

    /// What lies there, unless that workload never ran.
    pub fn read(folder: &Path, name: &str) -> Option<Self> {
        let text = fs::read_to_string(folder.join(name).with_extension("txt")).ok()?;
        let mut results = Self::default();
        for line in text.lines() {
            match line.split_once(' ')? {
                ("ran", ran) => results.ran = ran.to_owned(),
                ("command", command) => results.command = command.to_owned(),
                ("fact", fact) => {
                    let (name, value) = fact.split_once(' ')?;
                    results.facts.push((name.to_owned(), value.to_owned()));
                }
                ("row", row) => results.rows.push(read_row(row)?),
                _ => return None,
            }
        }
        Some(results)
    }
}

fn read_row(text: &str) -> Option<Row> {
    let mut words = text.split(' ');
    let (load, peer) = (words.next()?.to_owned(), words.next()?.to_owned());
    let figures = words.map(|word| {
        let (name, figure) = word.split_once('=')?;
        Some((name.to_owned(), figure.parse().ok()?))
    });
    Some(Row { load, peer, figures: figures.collect::<Option<_>>()? })
}
