//! Small Maven projects, compiled for a version of Redisson, with the jars next to their classes: running
//! them needs only `java`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    Failed,
    shell::{on_path, read_file, root, run, say, write_file},
};

const TOOLS: &[(&str, &str)] =
    &[("java", "a JDK"), ("javac", "a JDK"), ("mvn", "Maven 3.8 or later")];

/// Returns the tools that this machine lacks to compile a project, and how to get them.
pub(crate) fn missing() -> Option<String> {
    let (tool, kit) = TOOLS.iter().find(|(tool, _)| on_path(tool).is_none())?;
    Some(format!("no `{tool}` found; install {kit}"))
}

/// Returns the tested versions of Redisson, the newest one last.
pub(crate) fn versions() -> Result<Vec<String>, Failed> {
    let text = read_file(&root().join("tests/interop/java/versions"))?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// Compiles the project in `folder` below the root into `<out>/<version>`, unless that was built
/// from the same sources.
pub(crate) fn compile(folder: &str, version: &str, out: &Path) -> Result<PathBuf, Failed> {
    let project = root().join(folder);
    let dir = out.join(version);
    let (stamp, made_of) = (dir.join("made-of"), sources(&project)?);
    if fs::read_to_string(&stamp).is_ok_and(|text| text == made_of) {
        return Ok(dir);
    }
    say(&format!("compiling {folder} for Redisson {version}"));
    // Jars of other versions would also be on the class path.
    let _ = fs::remove_dir_all(&dir);
    run(&mut maven(&project, version, &dir))?;
    write_file(&stamp, &made_of)?;
    Ok(dir)
}

/// Returns the text of all sources of a project.
fn sources(project: &Path) -> Result<String, Failed> {
    let mut text = read_file(&project.join("pom.xml"))?;
    let mut folders = vec![project.join("src")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    for file in files {
        text += &read_file(&file)?;
    }
    Ok(text)
}

fn maven(project: &Path, version: &str, dir: &Path) -> Command {
    let mut command = Command::new("mvn");
    command.args(["--batch-mode", "--quiet", "--file"]).arg(project.join("pom.xml"));
    command.arg(format!("-Dredisson.version={version}"));
    command.arg(format!("-Dout.dir={}", dir.display()));
    command.args(["compiler:compile", "dependency:copy-dependencies"]);
    command
}
