//! Rules about the code itself: floors, sizes, headers, indexes.

#[path = "tidy/circles.rs"]
mod circles;
#[path = "tidy/links.rs"]
mod links;
#[path = "tidy/messages.rs"]
mod messages;
#[path = "tidy/snippets.rs"]
mod snippets;

use std::{
    fs,
    path::{Path, PathBuf},
};

use self::{circles::Crate, links::Links, snippets::Snippet};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Every file with this ending below a folder, with its path from the root.
fn files(folder: &str, ending: &str) -> Vec<(String, String)> {
    fn walk(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, ending, found);
            } else if path.extension().is_some_and(|extension| extension == ending) {
                found.push(path);
            }
        }
    }
    let (root, mut found) = (root(), Vec::new());
    walk(&root.join(folder), ending, &mut found);
    found.sort();
    found
        .into_iter()
        .map(|path| {
            let name = path.strip_prefix(&root).unwrap().display().to_string();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect()
}

/// The layer of a module of the runtime; the architecture's first table.
fn floor(module: &str) -> Option<u8> {
    Some(match module {
        "annotation" | "key" | "quota" | "decision" | "rejection" | "refund" | "error"
        | "clock" | "calendar" | "count" | "engine" | "retry_after" | "words" => 0,
        "algorithm" | "home" | "task" => 1,
        "store" => 2,
        "limiter" | "limits" | "members" | "registry" | "report" | "settings" => 3,
        "call_site" | "client" | "test_util" | "tower" | "web" | "__private" => 4,
        // Imported by every layer, and imports core types alone.
        "events" | "metrics" | "lib" | "guide" => return None,
        _ => panic!("`{module}` has no layer; give it one here and in docs/architecture.md"),
    })
}

/// Where the names at the crate's root live.
fn home(name: &str) -> Option<&'static str> {
    Some(match name {
        "Clock" => "clock",
        "Answer" | "Decision" | "Reason" | "Settlement" => "decision",
        "Problem" | "ProblemKind" | "SetupError" | "StoreError" | "StoreErrorKind" => "error",
        "Event" => "events",
        "KeyPart" => "key",
        "Limiter" | "LimiterConfig" | "Permit" | "RateChange" => "limiter",
        "Health" | "Limits" | "LimitsBuilder" => "limits",
        "Algorithm" | "CalendarUnit" | "Mode" | "OnDrift" | "OnStoreError" | "Wait" => "words",
        "Quota" | "QuotaError" | "Quotas" => "quota",
        "Settings" => "settings",
        "FromRejection" | "Rejection" => "rejection",
        _ => return None,
    })
}

/// The modules a file imports from its own crate, in `use crate::..` and in paths.
fn imports(text: &str) -> Vec<String> {
    let code: String = text
        .split("#[cfg(test)]")
        .next()
        .unwrap()
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| [line, "\n"])
        .collect();
    let mut found = Vec::new();
    for rest in code.split("crate::").skip(1) {
        let group = rest.strip_prefix('{').map(|group| {
            let mut depth = 1;
            let end = group.find(|c| {
                depth += i32::from(c == '{') - i32::from(c == '}');
                depth == 0
            });
            &group[..end.unwrap()]
        });
        let mut depth = 0;
        let split = |c: char| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            depth == 0 && c == ','
        };
        let items: Vec<&str> = match group {
            Some(group) => group.split(split).collect(),
            None => vec![rest],
        };
        for item in items {
            let end = item.trim_start().find(|c: char| !c.is_alphanumeric() && c != '_');
            let name = &item.trim_start()[..end.unwrap_or(item.trim_start().len())];
            found.push(home(name).unwrap_or(name).to_owned());
        }
    }
    found.retain(|name| !name.is_empty() && !name.starts_with("__ratelimit"));
    found
}

#[test]
fn imports_point_down() {
    for (name, text) in files("ratelimit-runtime/src", "rs") {
        let module = name.trim_start_matches("ratelimit-runtime/src/");
        let module = module.split(['/', '.']).next().unwrap();
        let Some(own) = floor(module) else { continue };
        for import in imports(&text) {
            let Some(other) = floor(&import) else {
                continue;
            };
            assert!(other <= own, "{name} (floor {own}) imports `{import}` (floor {other})");
        }
        if name.contains("store/redis") {
            let rules = imports(&text).iter().any(|import| import == "algorithm");
            assert!(!rules, "{name}: Lua is an implementation of its own");
        }
    }
}

#[test]
fn a_circle_is_found_wherever_it_is() {
    let circles = |files: &[(&str, &str)]| Crate::read(files.iter().copied()).circles();
    let room = ("room.rs", "mod a; mod b; pub(crate) use self::{a::A, b::B};");
    let (a, b) = (("room/a.rs", "use super::B; pub struct A(B);"), ("room/b.rs", "pub struct B;"));
    assert!(circles(&[room, a, b]).is_empty(), "one way, and what a room shows of its files");
    for back in [
        "use super::A;",
        "fn b() { super::a::A }",
        "use crate::room::{a::A as Other};",
        "use {super::{a}};",
        "mod inner { use super::super::A; }",
        "use super::a; fn b() { a::A }",
    ] {
        let found = circles(&[room, a, ("room/b.rs", back)]);
        assert_eq!(found.len(), 1, "{back}: {found:?}");
        assert!(found[0].starts_with("room::a <-> room::b: "), "{back}: {found:?}");
    }
    let tested = "#[cfg(test)] mod tests { use super::super::A; }";
    assert!(circles(&[room, a, ("room/b.rs", tested)]).is_empty(), "tests may");
    // Rooms, by any of their files.
    let other = ("other.rs", "use crate::room::A;");
    let found = circles(&[room, a, ("room/b.rs", "fn b() { crate::other::of() }"), other]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("other <-> room: "), "{found:?}");
    // By way of a third one.
    let c = ("room/c.rs", "use super::A; pub struct C(A);");
    let found = circles(&[room, a, ("room/b.rs", "use super::c::C; pub struct B(C);"), c]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("room::a <-> room::b <-> room::c: "), "{found:?}");
}

#[test]
fn no_modules_import_each_other_in_a_circle() {
    let mut found = Vec::new();
    for name in ["ratelimit-spec", "ratelimit-runtime", "ratelimit-macros", "xtask"] {
        let folder = format!("{name}/src");
        let files = files(&folder, "rs");
        let below = files.iter().map(|(file, text)| (&file[folder.len() + 1..], text.as_str()));
        let circles = Crate::read(below).circles();
        found.extend(circles.into_iter().map(|circle| format!("{name}: {circle}")));
    }
    assert!(found.is_empty(), "{} circles:\n{}", found.len(), found.join("\n"));
}

#[test]
fn files_stay_short() {
    for folder in [
        "ratelimit-runtime/src",
        "ratelimit-macros/src",
        "ratelimit-spec/src",
        "xtask/src",
        "benches",
    ] {
        for (name, text) in files(folder, "rs") {
            let lines = text.lines().count();
            assert!(lines <= 420, "{name} has {lines} lines; split it by noun");
        }
    }
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.lines().count() <= 150, "README.md is a front door");
}

#[test]
fn scripts_have_headers_and_read_time_in_one_place() {
    for (name, text) in files("ratelimit-runtime/src/store/redis/lua", "lua") {
        assert!(text.starts_with("-- "), "{name} starts with what it does");
        let header: String = text.lines().take_while(|line| line.starts_with("--")).collect();
        for word in ["KEYS[", "ARGV["] {
            let used = text.lines().any(|line| !line.starts_with("--") && line.contains(word));
            assert!(
                !used || header.contains(word) || name.contains("config"),
                "{name}: {word} in the header"
            );
        }
        assert!(
            name.ends_with("clock.lua") || name.ends_with("check.lua") || !text.contains("'TIME'"),
            "{name} asks for time"
        );
        assert!(text.lines().count() <= 130, "{name} is too long");
    }
}

#[test]
fn every_example_is_in_the_index() {
    let manifest = fs::read_to_string(root().join("examples/Cargo.toml")).unwrap();
    let index = fs::read_to_string(root().join("examples/README.md")).unwrap();
    for (name, text) in files("examples", "rs") {
        let file = name.trim_start_matches("examples/");
        if file == "lib.rs" {
            continue;
        }
        assert!(manifest.contains(&format!("path = \"{file}\"")), "{file} in examples/Cargo.toml");
        assert!(index.contains(file.trim_end_matches(".rs")), "{file} in examples/README.md");
        assert!(
            text.starts_with("//! ") && text.contains("cargo run -p examples --example"),
            "{file} says how to run it"
        );
    }
}

#[test]
fn only_the_clock_reads_time() {
    for (name, text) in files("ratelimit-runtime/src", "rs") {
        let reads = ["Instant::now()", "SystemTime::now()"].iter().any(|call| text.contains(call));
        assert!(!reads || name.ends_with("clock.rs"), "{name} reads time");
    }
}

/// A link that leads nowhere, where a reader of the files follows it.
#[test]
fn links_lead_somewhere() {
    let mut files: Vec<(String, String)> = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"]
        .map(|name| (name.to_owned(), fs::read_to_string(root().join(name)).unwrap()))
        .into();
    for folder in ["docs", "examples", "tests", "benches"] {
        files.extend(self::files(folder, "md"));
    }
    // The template of a page in `docs`, which is read itself.
    files.retain(|(name, _)| name != "benches/report.md");
    for (name, text) in &files {
        let links = Links::of(text);
        for target in links.targets() {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = root().join(name).parent().unwrap().join(file);
            assert!(file.is_empty() || path.exists(), "{name}: nothing is at `{target}`");
            let Some(ending) = path.extension().filter(|_| !anchor.is_empty()) else { continue };
            assert_eq!(ending, "md", "{name}: `{target}`");
            let found = if file.is_empty() {
                links.has_heading(anchor)
            } else {
                Links::of(&fs::read_to_string(&path).unwrap()).has_heading(anchor)
            };
            assert!(found, "{name}: no heading is at `{target}`");
        }
    }
}

/// The same files are pages of the documentation, where a link to a file leads nowhere.
#[test]
fn links_of_guides_are_defined_for_the_documentation_too() {
    let guide = fs::read_to_string(root().join("ratelimit-runtime/src/guide.rs")).unwrap();
    let defined = fs::read_to_string(root().join("ratelimit-runtime/src/guide/links.md")).unwrap();
    let defined = Links::of(&defined).defined;
    let pages = files("docs", "md").into_iter().filter(|(name, _)| guide.contains(name.as_str()));
    assert!(pages.clone().count() > 8, "the guides are found");
    for (name, text) in pages {
        let links = Links::of(&text);
        for target in &links.inline {
            let is_free = target.starts_with('#') || target.contains("://");
            assert!(is_free, "{name}: write `{target}` as a definition at the end");
        }
        for label in links.defined.keys() {
            assert!(defined.contains_key(label), "{name}: `guide/links.md` lacks `[{label}]`");
        }
    }
}

/// They are one program, and some of them would run by the numbers of others.
#[test]
fn examples_in_the_documentation_share_no_limiter() {
    let files = [files("ratelimit-runtime/src", "rs"), files("docs", "md")].concat();
    let all: Vec<_> = files.iter().flat_map(|(name, text)| Snippet::all(name, text)).collect();
    assert!(all.iter().filter(|snippet| !snippet.annotated().is_empty()).count() > 20);
    for annotated in &all {
        for other in all.iter().filter(|other| other.place != annotated.place) {
            let used = &other.annotated() | &other.named();
            let shared: Vec<_> = annotated.annotated().intersection(&used).copied().collect();
            assert!(shared.is_empty(), "{} and {}: {shared:?}", annotated.place, other.place);
        }
    }
}

/// What a package on its own brings along.
#[test]
fn packages_are_complete() {
    for name in ["ratelimit-macros", "ratelimit-runtime", "ratelimit-spec"] {
        let manifest = fs::read_to_string(root().join(name).join("Cargo.toml")).unwrap();
        for field in ["description", "keywords", "categories", "readme"] {
            assert!(manifest.lines().any(|line| line.starts_with(field)), "{name}: no `{field}`");
        }
        for file in ["README.md", "LICENSE-APACHE", "LICENSE-MIT"] {
            let path = root().join(name).join(file);
            assert!(fs::read_to_string(&path).is_ok_and(|text| !text.is_empty()), "{name}: {file}");
        }
    }
}
