//! Which modules of a crate import each other, directly or by way of others.
//!
//! A module is a file, or a `mod` with braces in one. It imports another when it names one of its
//! items, by a path from `crate`, `self`, `super` or a child, also by way of names that others
//! re-export. A parent that re-exports an item of a child for others does not import it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

type Path = Vec<String>;

/// The modules of one crate.
#[derive(Default)]
pub(crate) struct Crate(HashMap<Path, Module>);

#[derive(Default)]
struct Module {
    /// Names that come from elsewhere, by what they stand for from the crate's root.
    names: HashMap<String, Path>,
    /// Paths from the crate's root, and whether each is only re-exported.
    paths: Vec<(Path, bool)>,
    tests: BTreeSet<String>,
}

impl Crate {
    /// Reads files given by their names below `src`.
    pub(crate) fn read<'a>(files: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut all = Self::default();
        let mut texts = Vec::new();
        for (name, text) in files {
            let stem = name.strip_suffix(".rs").expect("a Rust file");
            let root = matches!(stem, "lib" | "main");
            let path: Path = if root { Path::new() } else { to_path(stem.split('/')) };
            all.0.entry(path.clone()).or_default();
            texts.push((path, text));
        }
        for (path, text) in texts {
            let tokens: TokenStream = text.parse().unwrap_or_else(|_| panic!("{path:?} is Rust"));
            all.scan(&path, tokens);
        }
        let tests: Vec<Path> = all
            .0
            .iter()
            .flat_map(|(path, module)| module.tests.iter().map(|n| child(path, n)))
            .collect();
        all.0.retain(|path, _| !tests.iter().any(|test| path.starts_with(test)));
        all
    }

    /// Circles of imports between files or rooms of one floor, neither of which is a part of the other:
    /// the members of each, with an import of every one that leads on to another member.
    pub(crate) fn circles(&self) -> Vec<String> {
        let imports = self.imports();
        let mut left: BTreeSet<&Path> = imports.keys().flat_map(|(from, to)| [from, to]).collect();
        let mut circles = Vec::new();
        while let Some(first) = left.pop_first() {
            let back = reached(first, |(from, to)| (to, from), &imports);
            let mut members = reached(first, |(from, to)| (from, to), &imports);
            members.retain(|room| back.contains(room));
            if members.len() > 1 {
                left.retain(|room| !members.contains(room));
                let names: Vec<_> = members.iter().map(|room| shown(room)).collect();
                let inside = imports
                    .iter()
                    .filter(|((from, to), _)| members.contains(from) && members.contains(to));
                let examples: Vec<_> = inside.map(|(_, example)| example.as_str()).collect();
                circles.push(format!("{}: {}", names.join(" <-> "), examples.join("; ")));
            }
        }
        circles
    }

    /// Which rooms import which others beside them, each with an example.
    fn imports(&self) -> BTreeMap<(Path, Path), String> {
        let mut imports: BTreeMap<(Path, Path), String> = BTreeMap::new();
        for (from, module) in &self.0 {
            for (path, re_exported) in &module.paths {
                let to = self.home(path, 0);
                if to == *from || (*re_exported && to.starts_with(from)) {
                    continue;
                }
                let same = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
                if same == from.len() || same == to.len() {
                    continue; // one is a part of the other
                }
                let room = |path: &Path| path[..=same].to_vec();
                let example = format!("{} names {}", shown(from), shown(path));
                let known =
                    imports.entry((room(from), room(&to))).or_insert_with(|| example.clone());
                if example < *known {
                    *known = example;
                }
            }
        }
        imports
    }

    fn scan(&mut self, own: &Path, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let (mut at, mut public) = (0, false);
        while at < tokens.len() {
            let word = word(&tokens, at);
            let after_colons = at >= 2 && is_colons(&tokens, at - 2);
            let of_macro = at > 0 && is_punct(&tokens, at - 1, '$');
            if is_test(&tokens, at) {
                at = self.skip_test(own, &tokens, at);
            } else if word == "use" {
                at = self.scan_use(own, &tokens, at + 1, public);
            } else if word == "mod" && braces(&tokens, at + 2).is_some() {
                let inner = child(own, &self::word(&tokens, at + 1));
                self.0.entry(inner.clone()).or_default();
                self.scan(&inner, braces(&tokens, at + 2).expect("checked"));
                at += 2;
            } else if !word.is_empty() && is_colons(&tokens, at + 1) && !after_colons && !of_macro {
                let mut path = vec![word.clone()];
                while is_colons(&tokens, at + 1) && !self::word(&tokens, at + 3).is_empty() {
                    at += 3;
                    path.push(self::word(&tokens, at));
                }
                if let Some(path) = self.absolute(own, &path) {
                    self.module(own).paths.push((path, false));
                }
            } else if let TokenTree::Group(group) = &tokens[at] {
                self.scan(own, group.stream());
            }
            let visible =
                word == "pub" || (public && matches!(&tokens.get(at), Some(TokenTree::Group(_))));
            public = visible;
            at += 1;
        }
    }

    /// Reads what follows `use`, up to its semicolon.
    fn scan_use(&mut self, own: &Path, tokens: &[TokenTree], at: usize, public: bool) -> usize {
        let end = (at..tokens.len()).find(|at| is_punct(tokens, *at, ';')).unwrap_or(tokens.len());
        let mut found = Vec::new();
        tree(&[], &tokens[at..end], &mut found);
        for (path, name) in found {
            let Some(path) = self.absolute(own, &path) else { continue };
            let module = self.module(own);
            module.paths.push((path.clone(), public));
            module.names.insert(name, path);
        }
        end
    }

    /// Leaves the item out that `#[cfg(test)]` is in front of.
    fn skip_test(&mut self, own: &Path, tokens: &[TokenTree], mut at: usize) -> usize {
        while at < tokens.len() {
            if word(tokens, at) == "mod" {
                self.module(own).tests.insert(word(tokens, at + 1));
            }
            if is_punct(tokens, at, ';') || braces(tokens, at).is_some() {
                break;
            }
            at += 1;
        }
        at
    }

    /// A path from the crate's root; none of what is not in the crate.
    fn absolute(&self, own: &Path, path: &[String]) -> Option<Path> {
        let mut base = own.clone();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => (base, rest) = (Path::new(), &path[1..]),
            "self" => rest = &path[1..],
            "super" => {
                while rest.first().is_some_and(|first| first == "super") {
                    base.pop()?;
                    rest = &rest[1..];
                }
            }
            first if self.0.contains_key(&child(own, first)) => {}
            first => {
                base = self.0.get(own)?.names.get(first)?.clone();
                rest = &path[1..];
            }
        }
        base.extend(rest.iter().cloned());
        Some(base)
    }

    /// The module that has what a path names.
    fn home(&self, path: &[String], depth: usize) -> Path {
        let mut at = Path::new();
        for (n, segment) in path.iter().enumerate() {
            let next = child(&at, segment);
            if self.0.contains_key(&next) {
                at = next;
                continue;
            }
            let Some(named) = self.0.get(&at).and_then(|module| module.names.get(segment)) else {
                break;
            };
            let through: Path = named.iter().chain(&path[n + 1..]).cloned().collect();
            return if depth < 8 && through != path { self.home(&through, depth + 1) } else { at };
        }
        at
    }

    fn module(&mut self, path: &Path) -> &mut Module {
        self.0.entry(path.clone()).or_default()
    }
}

/// The rooms that one leads to, by imports read in one direction.
fn reached<'a>(
    first: &'a Path,
    direction: impl Fn(&'a (Path, Path)) -> (&'a Path, &'a Path),
    imports: &'a BTreeMap<(Path, Path), String>,
) -> BTreeSet<&'a Path> {
    let (mut found, mut next) = (BTreeSet::from([first]), vec![first]);
    while let Some(room) = next.pop() {
        for (from, to) in imports.keys().map(&direction) {
            if from == room && found.insert(to) {
                next.push(to);
            }
        }
    }
    found
}

/// The paths of a `use`, each with the name it is known by.
fn tree(base: &[String], tokens: &[TokenTree], found: &mut Vec<(Path, String)>) {
    for item in tokens.split(|token| matches!(token, TokenTree::Punct(p) if p.as_char() == ',')) {
        if item.is_empty() {
            continue; // behind the last comma
        }
        let (mut path, mut at) = (base.to_vec(), 0);
        let mut name = None;
        while at < item.len() {
            if let Some(group) = braces(item, at) {
                let inner: Vec<TokenTree> = group.into_iter().collect();
                tree(&path, &inner, found);
                path.clear();
                break;
            }
            match word(item, at).as_str() {
                "as" => {
                    name = Some(word(item, at + 1));
                    break;
                }
                "self" if !path.is_empty() => {}
                "" => {}
                segment => path.push(segment.to_owned()),
            }
            at += 1;
        }
        if let Some(last) = path.last().cloned() {
            found.push((path, name.unwrap_or(last)));
        }
    }
}

fn to_path<'a>(names: impl Iterator<Item = &'a str>) -> Path {
    names.map(str::to_owned).collect()
}

fn child(path: &[String], name: &str) -> Path {
    path.iter().cloned().chain([name.to_owned()]).collect()
}

fn shown(path: &[String]) -> String {
    if path.is_empty() { "crate".to_owned() } else { path.join("::") }
}

fn word(tokens: &[TokenTree], at: usize) -> String {
    match tokens.get(at) {
        Some(TokenTree::Ident(ident)) => ident.to_string(),
        _ => String::new(),
    }
}

fn is_punct(tokens: &[TokenTree], at: usize, punct: char) -> bool {
    matches!(tokens.get(at), Some(TokenTree::Punct(found)) if found.as_char() == punct)
}

fn is_colons(tokens: &[TokenTree], at: usize) -> bool {
    is_punct(tokens, at, ':') && is_punct(tokens, at + 1, ':')
}

fn braces(tokens: &[TokenTree], at: usize) -> Option<TokenStream> {
    match tokens.get(at) {
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
            Some(group.stream())
        }
        _ => None,
    }
}

fn is_test(tokens: &[TokenTree], at: usize) -> bool {
    let Some(TokenTree::Group(group)) = tokens.get(at + 1) else { return false };
    let text = group.stream().to_string().replace(' ', "");
    is_punct(tokens, at, '#') && text == "cfg(test)"
}
