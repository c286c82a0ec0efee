//! The links of Markdown files.

use std::collections::HashMap;

/// The links of a file that lead to other files or to headings: their labels where they are definitions,
/// and their targets.
pub(crate) struct Links {
    pub(crate) inline: Vec<String>,
    pub(crate) defined: HashMap<String, String>,
    headings: Vec<String>,
}

impl Links {
    pub(crate) fn of(text: &str) -> Self {
        let mut links = Self { inline: Vec::new(), defined: HashMap::new(), headings: Vec::new() };
        let mut in_code = false;
        for line in text.lines() {
            if line.trim_start().starts_with("```") {
                in_code = !in_code;
            } else if !in_code {
                links.read(line);
            }
        }
        links
    }

    fn read(&mut self, line: &str) {
        if let Some(heading) = line.strip_prefix('#') {
            self.headings.push(anchor(heading.trim_start_matches('#')));
        }
        if let Some((label, target)) =
            line.strip_prefix('[').and_then(|rest| rest.split_once("]: "))
        {
            self.defined.insert(label.to_owned(), target.to_owned());
            return;
        }
        // What is quoted is no link.
        let text: String = line.split('`').step_by(2).collect();
        for rest in text.split("](").skip(1) {
            self.inline.push(rest.split(')').next().unwrap_or_default().to_owned());
        }
    }

    pub(crate) fn has_heading(&self, anchor: &str) -> bool {
        self.headings.iter().any(|heading| heading == anchor)
    }

    /// All targets inside of the repository.
    pub(crate) fn targets(&self) -> impl Iterator<Item = &str> {
        let all = self.inline.iter().chain(self.defined.values());
        all.map(String::as_str).filter(|target| !target.contains("://") && !target.contains("::"))
    }
}

/// The anchor of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}
