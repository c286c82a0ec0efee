//! The examples of the documentation, which rustdoc builds into one program: there an annotated function of one example
//! gives its numbers to a limiter of that name in another.

use std::collections::HashSet;

/// An example: where it begins, and its lines without the comment marks.
pub(crate) struct Snippet {
    pub(crate) place: String,
    text: String,
}

impl Snippet {
    /// Those of a file of Rust, or of a page, that are run.
    pub(crate) fn all(name: &str, file: &str) -> Vec<Self> {
        let (mut all, mut open) = (Vec::new(), None::<(Self, bool)>);
        for (n, line) in file.lines().enumerate() {
            let line = line.trim_start();
            let line =
                ["///", "//!"].iter().find_map(|mark| line.strip_prefix(mark)).unwrap_or(line);
            let line = line.trim_start();
            match (line.strip_prefix("```"), &mut open) {
                (Some(language), None) => {
                    let place = format!("{name}:{}", n + 1);
                    let runs = matches!(language, "" | "rust");
                    open = Some((Self { place, text: String::new() }, runs));
                }
                (Some(_), Some(_)) => {
                    all.extend(open.take().filter(|(_, runs)| *runs).map(|(snippet, _)| snippet));
                }
                (None, Some((snippet, _))) => {
                    snippet.text.push_str(line);
                    snippet.text.push('\n');
                }
                (None, None) => {}
            }
        }
        all
    }

    /// The keys of its annotated functions.
    pub(crate) fn annotated(&self) -> HashSet<&str> {
        self.after("key = \"").collect()
    }

    /// The limiters that its code gets by name.
    pub(crate) fn named(&self) -> HashSet<&str> {
        self.after(".limiter(\"").chain(self.after("limiter!(\"")).collect()
    }

    fn after(&self, mark: &'static str) -> impl Iterator<Item = &str> {
        self.text.split(mark).skip(1).filter_map(|rest| rest.split('"').next())
    }
}
