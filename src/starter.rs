//! The projects that the program carries inside itself and writes out: the demo, and a commented starter.

use crate::exit::{Exit, Failure};
use std::fs::{DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Files of a project: path and text.
pub(crate) type Files = &'static [(&'static str, &'static str)];

macro_rules! carried {
    ($folder:literal: $($path:literal),+ $(,)?) => {
        &[$(($path, include_str!(concat!("../fixtures/", $folder, "/", $path)))),+]
    };
}

/// What `stockade demo` works on.
pub(crate) const DEMO: Files = carried!("demo":
    "stockade.toml",
    "agents/demo.toml",
    "bin/report.sh",
    "data/orders.csv",
    "policies/demo.cedar",
    "tools/orders.clad.toml",
    "tools/report.clad.toml",
);

/// Where the demo's report is published.
pub(crate) const DEMO_OUTPUT: &str = "out";

/// What `stockade init` writes.
pub(crate) const STARTER: Files = carried!("starter":
    "stockade.toml",
    "agents/hello.toml",
    "notes.txt",
    "policies/main.cedar",
    "tools/words.clad.toml",
);

/// Makes a folder that only its owner can write to, whatever the umask; it must not be there yet.
pub(crate) fn make_folder(folder: &Path) -> std::io::Result<()> {
    DirBuilder::new().mode(0o755).create(folder)
}

/// Writes the files below `folder`. Nothing is ever overwritten: when one of them is there already, none is written.
pub(crate) fn write(folder: &Path, files: Files) -> Result<(), Failure> {
    let there: Vec<&str> =
        files.iter().map(|(path, _)| *path).filter(|path| folder.join(path).symlink_metadata().is_ok()).collect();
    if !there.is_empty() {
        return Err(Failure::new(Exit::Usage, format!("nothing was written into {}", folder.display()))
            .why(format!("it already has {}, and files are never overwritten", there.join(", ")))
            .next("choose an empty folder, or move these away"));
    }
    for (path, text) in files {
        let place = folder.join(path);
        let failed = |error: std::io::Error| {
            Failure::new(Exit::Usage, format!("{} could not be written", place.display()))
                .why(error)
                .next("name a folder that you may write to")
        };
        if let Some(parent) = place.parent() {
            DirBuilder::new().recursive(true).mode(0o755).create(parent).map_err(failed)?;
        }
        // Whatever the umask allows, nobody else may write what decides about a project.
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&place).map_err(failed)?;
        file.write_all(text.as_bytes()).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn below(folder: &Path, prefix: &str, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{prefix}{}", entry.file_name().into_string().unwrap());
            if entry.file_type().unwrap().is_dir() {
                below(&entry.path(), &format!("{path}/"), found);
            } else {
                found.insert(path);
            }
        }
    }

    #[test]
    fn every_file_of_a_carried_project_is_carried() {
        for (name, files) in [("demo", DEMO), ("starter", STARTER)] {
            let mut found = BTreeSet::new();
            below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name), "", &mut found);
            let carried: BTreeSet<String> = files.iter().map(|(path, _)| (*path).to_owned()).collect();
            assert_eq!(found, carried, "{name}");
        }
    }

    #[test]
    fn nothing_is_overwritten_and_nothing_is_written_half() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("policies")).unwrap();
        std::fs::write(folder.path().join("policies/main.cedar"), "mine").unwrap();
        let refused = write(folder.path(), STARTER).unwrap_err();
        assert!(refused.to_string().contains("policies/main.cedar"), "{refused}");
        assert_eq!(std::fs::read_to_string(folder.path().join("policies/main.cedar")).unwrap(), "mine");
        assert!(!folder.path().join("stockade.toml").exists());
        std::fs::remove_file(folder.path().join("policies/main.cedar")).unwrap();
        write(folder.path(), STARTER).unwrap();
        assert!(folder.path().join("stockade.toml").exists());
    }
}
