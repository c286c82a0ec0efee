use std::fs;

use super::*;

/// Creates a separate directory for each test.
fn workspace(test: &str, files: &[(&str, &str)]) -> PathBuf {
    let root = std::env::temp_dir().join(format!("ratelimit-macros-{}-{test}", std::process::id()));
    for (name, text) in files {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

fn lookup(manifest_dir: PathBuf, named: Option<&str>) -> Lookup {
    let current_dir = manifest_dir.parent().map(Path::to_owned);
    Surroundings { named: named.map(OsString::from), manifest_dir: Some(manifest_dir), current_dir }
        .find()
}

const LIMITS: &str = "limiters:\n  orders: { rate: 2, per: 1s }\n";

#[test]
fn the_nearest_file_up_to_the_workspace_root_is_found() {
    let root = workspace(
        "upward",
        &[("Cargo.lock", ""), ("ratelimit.yaml", LIMITS), ("app/web/Cargo.toml", "")],
    );
    let found = lookup(root.join("app/web"), None);
    let found = found.found().expect("the file of the root");
    assert_eq!(
        (found.path.as_path(), found.name.as_str()),
        (&*root.join("ratelimit.yaml"), "ratelimit.yaml")
    );
    assert_eq!(found.place_of(&found.limits().unwrap().limiters[0]), "ratelimit.yaml:2");

    fs::write(root.join("app/ratelimit.yaml"), LIMITS).unwrap();
    assert_eq!(lookup(root.join("app/web"), None).found().unwrap().name, "app/ratelimit.yaml");
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn a_file_above_the_root_or_without_a_root_is_none_of_ours() {
    let root = workspace("above", &[("ratelimit.yaml", LIMITS), ("shop/Cargo.toml", "")]);
    assert!(lookup(root.join("shop"), None).found().is_none());
    fs::write(root.join("shop/Cargo.lock"), "").unwrap();
    assert!(lookup(root.join("shop"), None).found().is_none());
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn a_crate_of_another_project_is_not_checked() {
    let root = workspace(
        "foreign",
        &[
            ("Cargo.lock", ""),
            ("ratelimit.yaml", LIMITS),
            // As `cargo package` unpacks it, in any target directory.
            ("build/package/shop-1.0.0/Cargo.toml.orig", ""),
            ("vendor/shop/.cargo-checksum.json", ""),
            // Cargo marks a repository as a whole.
            ("checkout/.cargo-ok", ""),
            ("checkout/Cargo.lock", ""),
            ("checkout/ratelimit.yaml", LIMITS),
            ("checkout/crates/shop/Cargo.toml", ""),
        ],
    );
    for dir in ["build/package/shop-1.0.0", "vendor/shop", "checkout", "checkout/crates/shop"] {
        assert!(lookup(root.join(dir), None).found().is_none(), "{dir}");
        assert!(lookup(root.join(dir), Some("ratelimit.yaml")).found().is_none(), "{dir}");
    }
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn a_directory_or_a_backup_with_the_name_of_one_is_still_ours() {
    let files = [
        ("Cargo.lock", ""),
        ("ratelimit.yaml", LIMITS),
        ("package/shop/Cargo.toml", ""),
        ("app/Cargo.toml.orig", ""),
    ];
    let root = workspace("ours", &files);
    for dir in ["package/shop", "app"] {
        assert!(lookup(root.join(dir), None).found().is_some(), "{dir}");
    }
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn a_named_file_is_looked_for_where_the_compiler_runs() {
    let files = [("Cargo.lock", ""), ("limits.yaml", LIMITS), ("app/limits.yaml", LIMITS)];
    let root = workspace("named", &files);
    for name in ["limits.yaml".into(), root.join("limits.yaml").display().to_string()] {
        let found = lookup(root.join("app"), Some(&name));
        let found = found.found().unwrap();
        assert_eq!((&found.path, &*found.name), (&root.join("limits.yaml"), "limits.yaml"));
    }
    let Lookup::Unreadable(message) = lookup(root.join("app"), Some("limit.yaml")) else {
        panic!("there is no such file")
    };
    let resolved = root.join("limit.yaml").display().to_string();
    assert!(message.starts_with(&format!("`RATELIMIT_LIMITS` names `{resolved}`")), "{message}");
    assert!(matches!(lookup(root.join("app"), Some("")), Lookup::Nothing));
    fs::remove_dir_all(root).unwrap();
}

/// At startup, the program finds the same mistakes.
#[test]
fn what_is_no_file_is_an_error_rather_than_none() {
    let root = workspace("no-file", &[("Cargo.lock", ""), ("ratelimit.yaml/of", LIMITS)]);
    let unreadable = |named| match lookup(root.clone(), named) {
        Lookup::Unreadable(message) => message,
        _ => panic!("{named:?} is a directory or a device"),
    };
    let says = "which cannot be read: it is not a regular file; correct it, or";
    assert_eq!(unreadable(None), format!("the limits file is `ratelimit.yaml`, {says} remove it"));
    let named = unreadable(Some("/dev/zero"));
    assert_eq!(named, format!("`RATELIMIT_LIMITS` names `/dev/zero`, {says} unset the variable"));
    fs::remove_dir_all(root.join("ratelimit.yaml")).unwrap();
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(root.join("gone"), root.join("ratelimit.yaml")).unwrap();
        let message = unreadable(None);
        assert!(
            message.contains("`ratelimit.yaml`, which cannot be read: No such file"),
            "{message}"
        );
    }
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn an_edited_file_is_read_again() {
    let root = workspace("edited", &[("Cargo.lock", ""), ("ratelimit.yaml", LIMITS)]);
    let limiters =
        || lookup(root.clone(), None).found().unwrap().limits().map(|limits| limits.limiters.len());
    assert_eq!(limiters(), Some(1));
    fs::write(root.join("ratelimit.yaml"), format!("{LIMITS}  quotes: {{ rate: 1, per: 1s }}\n"))
        .unwrap();
    assert_eq!(limiters(), Some(2));
    fs::write(root.join("ratelimit.yaml"), "limiters: [").unwrap();
    assert_eq!(limiters(), None);
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn without_cargo_nothing_is_looked_for() {
    assert!(matches!(Surroundings::default().find(), Lookup::Nothing));
}

#[test]
fn a_file_that_is_not_utf_8_is_invalid_as_at_run_time() {
    let root = workspace("latin", &[("Cargo.lock", "")]);
    let read = |bytes: &[u8]| {
        fs::write(root.join("ratelimit.yaml"), bytes).unwrap();
        let lookup = lookup(root.clone(), None);
        let contents = lookup.found().unwrap().contents.as_ref();
        contents.as_ref().map(|_| ()).map_err(|problems| problems[0].to_string())
    };
    let refused = |message: &str| Err(message.to_owned());
    assert_eq!(
        read(b"# caf\xe9\nlimiters: {}\n"),
        refused("1:6: not UTF-8; save the file as UTF-8")
    );
    let large = "é".repeat(1 << 20);
    assert!(read(large.as_bytes()).unwrap_err().starts_with("the file is"));
    fs::remove_dir_all(root).unwrap();
}
