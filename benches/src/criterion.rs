//! Reads the output of criterion as results.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::results::Results;

/// Groups, in the order in which they are shown.
const GROUPS: [&str; 13] = [
    "direct_allowed",
    "direct_refused",
    "keyed_allowed",
    "keyed_refused",
    "annotated_one",
    "annotated_many",
    "layer_one",
    "layer_by_ip",
    "layer_refused",
    "per_client",
    "attribute_fixed",
    "attribute_templated",
    "key",
];

/// Reads the medians of everything below this folder: a row `group/threads` of each function.
pub fn results(folder: &Path) -> Results {
    let mut results = Results::now("cargo xtask bench in-process", &[]);
    for group in GROUPS {
        for function in folders(&folder.join(group)) {
            for threads in folders(&function) {
                let estimates = threads.join("new/estimates.json");
                let text = fs::read_to_string(estimates).unwrap_or_default();
                let load = format!("{group}/{}", name(&threads));
                if let Some(ns) = median(&text) {
                    results.add(load, &name(&function), &[("ns", ns)]);
                }
            }
        }
    }
    results
}

/// Returns the median of criterion's estimates, without a JSON parser for one number.
fn median(estimates: &str) -> Option<f64> {
    let (_, median) = estimates.split_once("\"median\":")?;
    let (_, number) = median.split_once("\"point_estimate\":")?;
    number.split([',', '}']).next()?.trim().parse().ok()
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut folders: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| path.is_dir() && !path.ends_with("report"))
        .collect();
    // Ours first.
    folders.sort_by_key(|path| (!name(path).starts_with("ours"), path.clone()));
    folders
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
