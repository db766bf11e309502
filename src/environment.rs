//! What the program takes from its environment: places and deployment. Nothing below `src/` reads it.

use std::ffi::OsString;
use std::path::PathBuf;
use stockade_runtime::control::own_account;
use stockade_runtime::project::{Environment, Places};

use crate::exit::{Exit, Failure};

/// The deployment, from `STOCKADE_ENV`.
pub(crate) fn deployment() -> Environment {
    Environment::parse(std::env::var_os("STOCKADE_ENV").as_deref())
}

/// The places, by the XDG base directories.
pub(crate) fn places() -> Result<Places, Failure> {
    places_from(|name| std::env::var_os(name), own_account().home)
}

fn places_from(get: impl Fn(&str) -> Option<OsString>, account_home: Option<PathBuf>) -> Result<Places, Failure> {
    // A relative path in these variables is invalid and ignored, as their specification says.
    let absolute = |name: &str| get(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = absolute("HOME").or(account_home);
    let below = |name: &str, inside: &str| {
        let base = absolute(name).or_else(|| home.as_ref().map(|home| home.join(inside)));
        base.map(|base| base.join("stockade")).ok_or_else(|| {
            Failure::new(Exit::Internal, "there is no place for stockade's own files")
                .why(format!("neither {name} nor HOME is set, and your account has no home directory"))
                .next("set HOME")
        })
    };
    let config = below("XDG_CONFIG_HOME", ".config")?;
    let state = below("XDG_STATE_HOME", ".local/state")?;
    // The directory must be the person's own: under sudo the variable may still name another's.
    let runtime = absolute("XDG_RUNTIME_DIR").filter(|path| is_own(path)).map(|path| path.join("stockade"));
    let runtime = runtime.unwrap_or_else(|| state.join("run"));
    Ok(Places { config, state, runtime })
}

fn is_own(path: &std::path::Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(path).is_ok_and(|found| found.is_dir() && found.uid() == own_account().uid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn places_of(variables: &[(&str, &str)], home: Option<&str>) -> Result<Places, Failure> {
        let variables: BTreeMap<String, OsString> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), OsString::from(value))).collect();
        places_from(|name| variables.get(name).cloned(), home.map(PathBuf::from))
    }

    #[test]
    fn places_follow_the_base_directories_and_fall_back_to_the_home_directory() {
        let own = tempfile::tempdir().unwrap();
        let run = own.path().to_str().unwrap();
        let variables = [("XDG_CONFIG_HOME", "/c"), ("XDG_STATE_HOME", "/s"), ("XDG_RUNTIME_DIR", run), ("HOME", "/h")];
        let places = places_of(&variables, None).unwrap();
        assert_eq!((places.config, places.state), (PathBuf::from("/c/stockade"), PathBuf::from("/s/stockade")));
        assert_eq!(places.runtime, own.path().join("stockade"));
        let places = places_of(&[("XDG_CONFIG_HOME", "relative")], Some("/home/a")).unwrap();
        assert_eq!(places.config, PathBuf::from("/home/a/.config/stockade"));
        assert_eq!(places.state, PathBuf::from("/home/a/.local/state/stockade"));
        assert_eq!(places.runtime, PathBuf::from("/home/a/.local/state/stockade/run"));
        assert!(places_of(&[], None).is_err());
    }

    #[test]
    fn a_runtime_directory_that_is_not_there_is_not_used() {
        let places = places_of(&[("XDG_RUNTIME_DIR", "/nowhere/at/all"), ("HOME", "/h")], None).unwrap();
        assert_eq!(places.runtime, PathBuf::from("/h/.local/state/stockade/run"));
    }
}
