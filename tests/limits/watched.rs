//! A limits file that changes, or cannot be read, while a program runs.

use std::{
    fs::{self, File, FileTimes},
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use ratelimit_runtime::{Event, Limits};
use tests::{alone::alone, limits_file::LimitsFile};

const LOOK: Duration = Duration::from_millis(10);

fn yaml(rate: u32) -> String {
    format!("limiters:\n  other: {{ rate: 1, per: 1h }}\n  seen: {{ rate: {rate}, per: 1h }}\n")
}

/// Limits that watch a file, and how often it was loaded again.
async fn watching(path: &Path) -> (Limits, Arc<AtomicU32>) {
    let loaded = Arc::<AtomicU32>::default();
    let count = Arc::clone(&loaded);
    let builder = Limits::builder().memory().limits_file(path).watch(LOOK);
    let builder = builder.on_event(move |event| {
        if matches!(event, Event::Reloaded | Event::ReloadFailed { .. }) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    (builder.build().await.unwrap(), loaded)
}

fn rate(limits: &Limits) -> Option<u64> {
    limits.configured("seen").quotas().map(|quotas| quotas[0].rate())
}

async fn becomes(limits: &Limits, wanted: u64) {
    let start = Instant::now();
    while rate(limits) != Some(wanted) {
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}, not {wanted}", rate(limits));
        tokio::time::sleep(LOOK).await;
    }
}

/// Writes a file in steps, and returns the longest time between two of them.
async fn write_in_steps(file: &LimitsFile, text: &str) -> Duration {
    let (mut longest, mut last) = (Duration::ZERO, Instant::now());
    for length in [0, text.len() / 2, text.len()] {
        file.write(&text[..length]);
        longest = longest.max(last.elapsed());
        last = Instant::now();
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    longest
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_written_in_steps_is_loaded_when_it_is_complete() {
    for _ in 0..20 {
        let file = LimitsFile::new(&yaml(2));
        let (limits, loaded) = watching(file.path()).await;
        let same = write_in_steps(&file, &yaml(2)).await;
        // Until it has looked again.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let of_same = loaded.load(Ordering::Relaxed);
        let other = write_in_steps(&file, &yaml(3)).await;
        becomes(&limits, 3).await;
        // After a step of 100 ms, which a busy machine takes, a part counts as complete.
        if same.max(other) < Duration::from_millis(90) {
            assert_eq!(
                (of_same, loaded.load(Ordering::Relaxed)),
                (0, 1),
                "a part of it was loaded"
            );
            return;
        }
    }
    panic!("the machine is too busy for this test");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_seen_although_neither_length_nor_time_change() {
    let file = LimitsFile::new(&yaml(2));
    let at = |time| {
        let times = FileTimes::new().set_modified(time);
        File::options().write(true).open(file.path()).unwrap().set_times(times).unwrap();
    };
    at(SystemTime::UNIX_EPOCH);
    let (limits, _) = watching(file.path()).await;
    file.write(&yaml(7));
    at(SystemTime::UNIX_EPOCH);
    becomes(&limits, 7).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_could_not_be_read_is_loaded_as_soon_as_it_can() {
    let file = LimitsFile::new(&yaml(2));
    let (limits, _) = watching(file.path()).await;
    fs::remove_file(file.path()).unwrap();
    let start = Instant::now();
    while limits.health().is_ok() {
        assert!(start.elapsed() < Duration::from_secs(20), "the failure is not reported");
        tokio::time::sleep(LOOK).await;
    }
    assert_eq!(rate(&limits), Some(2));
    file.write(&yaml(2));
    while !limits.health().is_ok() {
        assert!(start.elapsed() < Duration::from_secs(20), "it is never loaded again");
        tokio::time::sleep(LOOK).await;
    }
}

/// The watch compares with what was loaded last, not with what it loaded itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_returns_to_what_it_was_after_a_reload_is_loaded() {
    let file = LimitsFile::new(&yaml(2));
    let loaded = Arc::<AtomicU32>::default();
    let count = Arc::clone(&loaded);
    let builder = Limits::builder().memory().limits_file(file.path());
    let builder = builder.watch(Duration::from_millis(300)).on_event(move |event| {
        if matches!(event, Event::Reloaded) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    let limits = builder.build().await.unwrap();
    file.write(&yaml(7));
    limits.reload().unwrap();
    assert_eq!(rate(&limits), Some(7));
    file.write(&yaml(2));
    becomes(&limits, 2).await;

    file.write("limiters: 7");
    limits.reload().unwrap_err();
    file.write(&yaml(2));
    let start = Instant::now();
    while !limits.health().is_ok() {
        assert!(start.elapsed() < Duration::from_secs(20), "it is never loaded again");
        tokio::time::sleep(LOOK).await;
    }
    // What a reload has loaded is not loaded again. The watch may look just before the reload, but not each time.
    let mut loads = Vec::new();
    for rate in 8..13 {
        let before = loaded.load(Ordering::Relaxed);
        file.write(&yaml(rate));
        limits.reload().unwrap();
        tokio::time::sleep(Duration::from_millis(900)).await;
        loads.push(loaded.load(Ordering::Relaxed) - before);
        if loads.ends_with(&[1]) {
            return;
        }
    }
    panic!("{loads:?} loads after each change");
}

#[tokio::test]
async fn a_file_that_lost_its_content_changes_nothing() {
    let file = LimitsFile::new(&yaml(2));
    let limits = Limits::builder().memory().limits_file(file.path()).build().await.unwrap();
    for empty in ["", "\n", "# rate limits\n"] {
        file.write(empty);
        let error = limits.reload().unwrap_err().to_string();
        assert!(error.ends_with("the file is empty; write `{}` if it sets nothing"), "{error}");
        assert_eq!(rate(&limits), Some(2));
        // A start accepted it, and the limits that only the file sets were gone.
        let start = Limits::builder().memory().limits_file(file.path()).build().await;
        assert_eq!(start.unwrap_err().to_string(), error);
    }
    file.write("{}");
    limits.reload().unwrap();
    assert_eq!(rate(&limits), None);
    file.write("");
    limits.reload().unwrap_err();
}

/// A program in another directory than its file reported that it had reloaded the file.
#[tokio::test]
async fn a_reload_without_a_file_reports_none() {
    let loaded = Arc::<AtomicU32>::default();
    let count = Arc::clone(&loaded);
    let builder = Limits::builder().memory().no_limits_file().on_event(move |event| {
        count.fetch_add(u32::from(matches!(event, Event::Reloaded)), Ordering::Relaxed);
    });
    builder.build().await.unwrap().reload().unwrap();
    assert_eq!(loaded.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn what_is_no_file_is_not_read() {
    let pipe = std::env::temp_dir().join(format!("ratelimit-pipe-{}.yaml", std::process::id()));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for path in [&*pipe, Path::new("/dev/zero"), &std::env::temp_dir()] {
        let error = Limits::builder().memory().limits_file(path).build().await.unwrap_err();
        let error = error.to_string();
        assert!(error.ends_with("not a regular file; write the path of a YAML file"), "{error}");
    }
    fs::remove_file(&pipe).unwrap();
}

#[tokio::test]
async fn an_empty_path_is_named_as_such() {
    let error = Limits::builder().memory().limits_file("").build().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the path of the limits file is empty; write that of a YAML file"
    );
}

#[tokio::test]
async fn a_file_in_another_encoding_is_refused_with_the_place() {
    let file = LimitsFile::new("");
    fs::write(file.path(), b"limiters:\n  caf\xe9: { rate: 5, per: 1s }\n").unwrap();
    let error = Limits::builder().memory().limits_file(file.path()).build().await.unwrap_err();
    let expected = format!("{}:2:6: not UTF-8; save the file as UTF-8", file.path().display());
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_file_that_was_found_must_stay() {
    alone("watched::a_file_that_was_found_must_stay", || {
        let file = LimitsFile::new("");
        let folder = file.path().with_extension("d");
        fs::create_dir_all(&folder).unwrap();
        std::env::set_current_dir(&folder).unwrap();
        fs::write("ratelimit.yaml", yaml(2)).unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let limits = runtime.block_on(Limits::builder().memory().build()).unwrap();
        std::env::set_current_dir("/").unwrap();
        limits.reload().unwrap();
        assert_eq!(rate(&limits), Some(2));
        fs::remove_file(folder.join("ratelimit.yaml")).unwrap();
        let error = limits.reload().unwrap_err().to_string();
        assert!(error.contains("ratelimit.yaml: cannot be read"), "{error}");
        assert_eq!(rate(&limits), Some(2));

        std::os::unix::fs::symlink("nowhere", folder.join("ratelimit.yaml")).unwrap();
        std::env::set_current_dir(&folder).unwrap();
        let error = runtime.block_on(Limits::builder().memory().build()).unwrap_err();
        assert!(error.to_string().contains("ratelimit.yaml: cannot be read"), "{error}");
        fs::remove_dir_all(&folder).unwrap();
    });
}
